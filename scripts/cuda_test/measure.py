"""Times of steps beside PyTorch's on the same GPU, taking turns.

Programs and PyTorch get the batch from the host in each step; the programs hand
the outputs of inference to the host, as PyTorch does here. Medians over rounds
of the median step of a round.
"""

import json
import os
import pathlib
import queue
import statistics
import subprocess
import sys
import threading

from cases import STORED_STAGES
from compare import make_data
from harness import Failure, OutOfTime

ROUNDS = 3
VARIANTS = ("eager", "compile")
HERE = pathlib.Path(__file__).resolve().parent


class Contender:
    """A process of measure_worker.py. It prepares itself while other checks run."""

    def __init__(self, harness, model):
        self.harness = harness
        self.log = open(harness.folder / f"pytorch.{model}.log", "w")
        self.process = subprocess.Popen(
            [sys.executable, HERE / "measure_worker.py", harness.device, harness.sizes, model,
             harness.model_folder(model)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env=dict(os.environ))
        self.answers = queue.Queue()
        self.unread = 0
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put(None)

    def send(self, request):
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except OSError:
            pass  # The answer will say so.
        self.unread += 1

    def prepare(self, request):
        """Runs it once without anybody waiting for the answer."""
        self.send({**request, "steps": 1})

    def ask(self, request, timeout=120):
        self.send(request)
        while True:
            if self.harness.left() < 1:
                raise OutOfTime()
            try:
                line = self.answers.get(timeout=min(timeout, self.harness.left()))
            except queue.Empty:
                if self.harness.left() < 1:
                    raise OutOfTime() from None
                raise Failure("PyTorch did not answer") from None
            if line is None:
                self.answers.put(None)
                raise Failure(f"PyTorch ended; see {self.log.name}")
            self.unread -= 1
            if self.unread == 0:
                answer = json.loads(line)
                if "error" in answer:
                    raise Failure(f"PyTorch: {answer['error']}")
                return answer

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()


def bench(harness, program, folder, mode, *arguments, device=None, data=None):
    """Seconds of a step."""
    more = ["--data", data] if data else []
    out = harness.run([
        harness.program(program), "bench", "--mode", mode, "--device", device or harness.device, "--weights", folder,
        "--no-verify-weights", "--steps", steps_of(harness), "--warmup", 5, "--json", *more, *arguments], timeout=90)
    return json.loads(out)["median_step_seconds"]


def steps_of(harness):
    return 20 if harness.sizes == "full" else 5


def bench_case(harness, case, *arguments):
    """On the batch that PyTorch gets: which tokens there are matters."""
    return bench(harness, case["name"], harness.model_folder(case["model"]), mode_of(case), *arguments,
                 data=make_data(harness, case))


def mode_of(case):
    return "infer" if case["use"] == "infer" else "train"


def requests_of(case):
    return [{"mode": mode_of(case), "variant": variant, "batch": case["batch"]} for variant in VARIANTS]


def comparisons(harness):
    """The case of each comparison, what matters most first."""
    order = {"train": 0, "infer": 1}
    return sorted((c for c in harness.manifest["cases"] if c["use"] in order), key=lambda c: order[c["use"]])


def start(harness):
    """The processes of PyTorch, by model."""
    contenders = {}
    for case in comparisons(harness):
        model = case["model"]
        if model not in contenders:
            contenders[model] = Contender(harness, model)
        for request in requests_of(case):
            contenders[model].prepare(request)
    return contenders


def measure_matmul(contenders, sizes):
    answer = next(iter(contenders.values())).ask({"matmul": 8192 if sizes == "full" else 256})
    return answer["flops"] / answer["seconds"]


def describe_precision(case):
    fallback = case["wanted_precision"] != case["precision"]
    return case["precision"] + (f" (refused: {case['wanted_precision']})" if fallback else "")


def compare(harness, contender, case, matmul):
    """One row; None where a side fails is part of it."""
    mode = mode_of(case)
    title = f"{case['model']} {mode}, batch {case['batch']}, {describe_precision(case)}"
    if case["error"]:
        return harness.report("FAIL", title, f"does not compile: {case['error']}")
    contestants = {"program": lambda: bench_case(harness, case)}
    flops = 0

    def theirs(request):
        nonlocal flops
        answer = contender.ask({**request, "steps": steps_of(harness)})
        flops = flops or answer["flops"]
        return answer["seconds"]

    for request in requests_of(case):
        contestants[request["variant"]] = lambda request=request: theirs(request)
    times = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, contestant in contestants.items():
            if times[name] is None:
                continue
            try:
                times[name].append(contestant())
            except OutOfTime:
                break
            except Exception as error:
                times[name] = None
                harness.report("FAIL", f"{title}: {name}", str(error))
    median = {name: statistics.median(values) for name, values in times.items() if values}
    if "program" not in median:
        return harness.report("SKIP", title, "no time is left, or it failed")
    ours = median["program"]
    row = {"model": case["model"], "mode": mode, "batch": case["batch"], "precision": case["precision"],
           "wanted_precision": case["wanted_precision"], "seconds": median, "rounds": times, "flops": flops,
           "matmul_flops_per_second": matmul}
    harness.add_row("against_pytorch", row)
    parts = [f"{1e3 * ours:.3f} ms"]
    parts += [f"{name} {1e3 * value:.3f} ms ({value / ours:.2f} x)" for name, value in median.items() if name != "program"]
    if flops:
        parts.append(f"{flops / ours * 1e-12:.1f} TFLOP/s")
        if matmul:
            parts.append(f"{100 * flops / ours / matmul:.1f} % of a large product's")
    harness.report("PASS", title, ", ".join(parts))


def measure_microbatches(harness, case):
    title = f"{case['model']} train, {case['microbatches']} micro-batches of {case['batch'] // case['microbatches']}"
    if case["error"]:
        return harness.report("FAIL", title, f"does not compile: {case['error']}")
    times = {True: [], False: []}
    for _ in range(2):
        for graphs, values in times.items():
            values.append(bench_case(harness, case, *([] if graphs else ["--no-graphs"])))
    with_graphs, without = (statistics.median(times[graphs]) for graphs in (True, False))
    harness.add_row("microbatches", {
        "model": case["model"], "batch": case["batch"], "microbatches": case["microbatches"],
        "precision": case["precision"], "graph_seconds": with_graphs, "plain_seconds": without})
    harness.report("PASS", f"{title}, {describe_precision(case)}",
                   f"{1e3 * with_graphs:.3f} ms, without graphs {1e3 * without:.3f} ms ({without / with_graphs:.2f} x)")


def measure_unfused(harness, case):
    """The step with attention as products, beside that with one kernel."""
    title = f"{case['model']} train, batch {case['batch']}, {describe_precision(case)}, attention as products"
    if case["error"]:
        return harness.report("FAIL", title, f"does not compile: {case['error']}")
    fused = next(c for c in harness.cases("train") if c["model"] == case["model"])
    times = {"products": [], "kernel": []}
    for _ in range(2):
        times["products"].append(bench_case(harness, case))
        times["kernel"].append(bench_case(harness, fused))
    products, kernel = (statistics.median(values) for values in times.values())
    harness.add_row("attention", {
        "model": case["model"], "batch": case["batch"], "precision": case["precision"], "products_seconds": products,
        "kernel_seconds": kernel})
    harness.report("PASS", title, f"{1e3 * products:.3f} ms, as one kernel {1e3 * kernel:.3f} ms ({products / kernel:.2f} x)")


def profile(harness, case):
    """Writes costs/MODEL.json, and the time of the same step for a comparison
    with what is predicted from it (benchmarks/predicted_cuda.py)."""
    title = f"{case['model']} cost file, {describe_precision(case)}"
    if case["error"]:
        return harness.report("FAIL", title, f"does not compile: {case['error']}")
    folder = harness.model_folder(case["model"])
    (harness.folder / "costs").mkdir(exist_ok=True)
    path = harness.folder / "costs" / f"{case['model']}.json"
    harness.run([harness.program(case["name"]), "profile", "-o", path, "--repetitions", steps_of(harness), "--weights", folder,
                 "--no-verify-weights", "--device", harness.device], timeout=90)
    train = next(c for c in harness.cases("train") if c["model"] == case["model"])
    # The profile ran on synthetic data.
    seconds = {graphs: bench(harness, train["name"], folder, "train", *([] if graphs else ["--no-graphs"]))
               for graphs in (True, False)}
    costs = json.loads(path.read_text())
    if not costs["kernels"]:
        raise Failure("the cost file has no kernels")
    harness.add_row("profiles", {
        "model": case["model"], "batch": case["batch"], "microbatches": case["microbatches"],
        "precision": case["precision"], "loss": case["loss"], "costs": f"costs/{path.name}", "graph_seconds": seconds[True],
        "plain_seconds": seconds[False]})
    harness.report("PASS", title, f"{len(costs['kernels'])} kernels on {costs['device']}; "
                   f"a step takes {1e3 * seconds[True]:.3f} ms, without graphs {1e3 * seconds[False]:.3f} ms")


def measure_stages(harness, entry):
    """Stages on one GPU share it, so more of them are not faster there."""
    model, parts = entry["model"], []
    folder = harness.folder / "stored" / model
    for stages in STORED_STAGES:
        seconds = {graphs: bench(harness, f"{model}.{harness.target}.{stages}", folder, "train",
                                 *([] if graphs else ["--no-graphs"])) for graphs in (True, False)}
        harness.add_row("stages", {"model": model, "batch": entry["batch"], "stages": stages,
                                   "graph_seconds": seconds[True], "plain_seconds": seconds[False]})
        parts.append(f"{stages}: {1e3 * seconds[True]:.3f} ms, without graphs {1e3 * seconds[False]:.3f} ms")
    if harness.target != "cpu":
        try:
            seconds = bench(harness, f"{model}.cpu.1", folder, "train", device="cpu")
            harness.add_row("stages", {"model": model, "batch": entry["batch"], "stages": 1, "cpu_seconds": seconds})
            parts.append(f"one core of the processor: {1e3 * seconds:.3f} ms")
        except Failure as error:
            # oneDNN's scratchpads depend on the processor.
            if "compile on this machine" not in str(error):
                raise
    harness.report("PASS", f"{model} train by stages", "; ".join(parts))

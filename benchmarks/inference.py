#!/usr/bin/env python3
"""Times inference of known models against ONNX Runtime, OpenVINO and PyTorch.

Contenders take turns, and rounds in which others used the processor are
repeated, as in vs_pytorch.py. What is compared is the time from one result to
the next: our programs and pipelines have two batches on the way, a peer starts
with the next as soon as it has the last. Latency of one batch alone is what one
core takes. With --quantize, products are of 8-bit integers, as quantize_dynamic() of
ONNX Runtime makes them.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import quiet
from vs_pytorch import OUTPUT, ROOT, processor

MODELS = {"resnet50": 20, "mobilenetv2": 60, "gpt": 10, "bert": 8}  # steps of a turn with one sample

WORKER = """
import json, sys, time, warnings
warnings.filterwarnings("ignore")
kind, path, name, batch, threads = sys.argv[1:4] + list(map(int, sys.argv[4:6]))
if kind == "onnxruntime":
    import numpy as np, onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    random = np.random.default_rng(0)
    x = random.standard_normal(given.shape).astype("f4") if "float" in given.type else random.integers(0, 100, given.shape)
    step = lambda: session.run(None, {given.name: x})
elif kind == "openvino":
    import numpy as np, openvino
    # In f32, as all others.
    options = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    compiled = openvino.Core().compile_model(path, "CPU", options)
    given = compiled.input(0)
    random = np.random.default_rng(0)
    shape = list(given.shape)
    x = random.standard_normal(shape).astype("f4") if given.element_type.is_real() else random.integers(0, 100, shape)
    request = compiled.create_infer_request()
    step = lambda: request.infer({0: x}, share_inputs=True)
else:
    import torch
    torch.set_num_threads(threads)
    sys.path.insert(0, path)
    import models
    sample = models.build(name)
    x = sample.inputs[:1].repeat(batch, *[1] * (sample.inputs.dim() - 1))
    net = sample.module.eval()
    if kind == "channels_last":
        net, x = net.to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    if kind == "torch.compile":
        net = torch.compile(net)
    def step():
        with torch.inference_mode():
            net(x)
print("ready", flush=True)
for line in sys.stdin:
    times = []
    for _ in range(int(line)):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    print(json.dumps(sorted(times)[len(times) // 2]), flush=True)
"""


class Peer:
    def __init__(self, kind, model, name, batch, threads):
        where = model if kind in ("onnxruntime", "openvino") else ROOT / "benchmarks"
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, kind, where, name, str(batch), str(threads)], text=True,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{kind} does not run {name}")
        self.turn(3)

    def turn(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


class Ours:
    process = None

    def __init__(self, arguments, model, batch, tag, flags):
        self.path = OUTPUT / f"{model.stem}-{tag}"
        subprocess.run([pathlib.Path(arguments.build) / "bin" / "pp-compile", model, "-o", self.path, *flags],
                       check=True, capture_output=True)

    def turn(self, steps):
        done = subprocess.run([self.path, "bench", "--json", "--steps", str(steps)], check=True, capture_output=True, text=True)
        return json.loads(done.stdout)["median_step_seconds"]


class Planned(Ours):
    """The fastest of what pp-plan proposes for two cores, with times that pp-profile measures here and now."""

    def __init__(self, arguments, model, batch):
        tools = pathlib.Path(arguments.build) / "bin"
        costs, plan = f"{OUTPUT / model.stem}-costs.json", f"{OUTPUT / model.stem}-plan.json"
        counts = "--microbatches=" + ",".join(str(count) for count in sorted({1, min(batch, 2), batch}))
        for command in (["pp-profile", counts, "--threads-per-stage=1,2", "-o", costs],
                        ["pp-plan", counts, "--cores=2", f"--cost-file={costs}", "--measure=2", "-o", plan]):
            subprocess.run([tools / command[0], model, *command[1:]], check=True, capture_output=True)
        super().__init__(arguments, model, batch, "planned", [f"--plan={plan}"])
        self.predicted = json.loads(pathlib.Path(plan).read_text())["predicted"]["step_seconds"]


def export(name, batch):
    """NAME-eval-BATCH.onnx, with batch norm folded, as PyTorch's exporter leaves it."""
    path = OUTPUT / f"{name}-eval-{batch}.onnx"
    if not path.exists():
        code = ("import sys, torch, warnings; warnings.filterwarnings('ignore'); sys.path.insert(0, sys.argv[1]); import models; "
                "s = models.build(sys.argv[2]); b = int(sys.argv[3]); "
                "x = s.inputs[:1].repeat(b, *[1] * (s.inputs.dim() - 1)); "
                "torch.onnx.export(s.module.eval(), (x,), sys.argv[4], dynamo=False, opset_version=17, input_names=['input'], output_names=['logits'])")
        OUTPUT.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-c", code, ROOT / "benchmarks", name, str(batch), path], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return path


def quantize(model):
    """What each product rounds to 8 bits, it rounds by the range of the whole batch."""
    path = model.with_suffix(".int8.onnx")
    if not path.exists():
        code = ("import sys; from onnxruntime.quantization import QuantType, quantize_dynamic; "
                "quantize_dynamic(sys.argv[1], sys.argv[2], weight_type=QuantType.QInt8)")
        subprocess.run([sys.executable, "-c", code, model, path], check=True, capture_output=True)
    return path


def contenders(arguments, name, batch):
    model = export(name, batch)
    if arguments.quantize:
        model = quantize(model)
        result = {("pp-mlir", 1): lambda: Ours(arguments, model, batch, "1", ["--stages=1"]),
                  ("pp-mlir, 2 threads", 2): lambda: Ours(arguments, model, batch, "t", ["--threads-per-stage=2"])}
        for threads in (1, 2):
            for kind in ("onnxruntime", "openvino"):
                result[kind, threads] = lambda kind=kind, threads=threads: Peer(kind, model, name, batch, threads)
        return result
    halves = ["--stages=2", f"--microbatches={min(batch, 2)}"]
    result = {
        ("pp-mlir", 1): lambda: Ours(arguments, model, batch, "1", ["--stages=1"]),
        ("pp-mlir, 2 threads", 2): lambda: Ours(arguments, model, batch, "t", ["--stages=1", "--threads-per-stage=2"]),
        ("pp-mlir, 2 stages", 2): lambda: Ours(arguments, model, batch, "2", halves),
    }
    if batch > 1:
        single = f"--microbatches={batch}"
        result["pp-mlir, 2 replicas", 2] = lambda: Ours(arguments, model, batch, "r", ["--replicas=2", "--microbatches=2"])
        # What one sample reads and writes may fit a cache where that of all does not.
        result["pp-mlir, one by one", 1] = lambda: Ours(arguments, model, batch, "1s", ["--stages=1", single])
        result["pp-mlir, one by one, 2 stages", 2] = lambda: Ours(arguments, model, batch, "2s", ["--stages=2", single])
        result["pp-mlir, one by one, 2 replicas", 2] = lambda: Ours(arguments, model, batch, "rs", ["--replicas=2", single])
    result["pp-mlir, plan of pp-plan", 2] = lambda: Planned(arguments, model, batch)
    kinds = ["onnxruntime", "openvino", "eager", "torch.compile"] + (["channels_last"] if name in ("resnet50", "mobilenetv2") else [])
    for threads in (1, 2):
        for kind in kinds:
            result[kind, threads] = lambda kind=kind, threads=threads: Peer(kind, model, name, batch, threads)
    return result


def measure(arguments, name, batch):
    running = {}
    for key, start in contenders(arguments, name, batch).items():
        try:
            running[key] = start()
        except (RuntimeError, subprocess.CalledProcessError) as error:
            print(f"{name}: {key[0]}: failed: {error}", file=sys.stderr)
    pids = [contender.process.pid for contender in running.values() if contender.process]
    steps = max(2, MODELS[name] // batch)
    rounds = quiet.rounds(arguments.rounds, lambda: {key: contender.turn(steps) for key, contender in running.items()}, name, pids)
    for contender in running.values():
        if contender.process:
            contender.process.kill()
            contender.process.wait()
    return {key: [turns[key] for turns in rounds] for key in running}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=ROOT / "build" / "release")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, action="append", help="samples; 1 and 8 without one")
    parser.add_argument("--quantize", action="store_true", help="products of 8-bit integers")
    parser.add_argument("models", nargs="*", help=f"of {', '.join(MODELS)}; all without one")
    arguments = parser.parse_args()
    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores of {processor()}, load {os.getloadavg()[0]:.1f}")
    for name in arguments.models or MODELS:
        for batch in arguments.batch or (1, 8):
            times = measure(arguments, name, batch)
            print(f"\n{name}, {batch} samples: from result to result, median and range of {arguments.rounds} rounds")
            medians = {key: statistics.median(values) for key, values in times.items()}
            for key, values in times.items():
                label = f"{key[0]}, {key[1]} core{'s' if key[1] > 1 else ''}"
                print(f"  {label:<30} {1e3 * medians[key]:9.2f} ms ({1e3 * min(values):.2f} to {1e3 * max(values):.2f})")
            for cores in (1, 2):
                ours = min((t for k, t in medians.items() if k[1] == cores and k[0].startswith("pp-mlir")), default=None)
                peers = {k[0]: t for k, t in medians.items() if k[1] == cores and not k[0].startswith("pp-mlir")}
                if ours and peers:
                    best = min(peers, key=peers.get)
                    print(f"  {cores} core{'s' if cores > 1 else ''}: {peers[best] / ours:.2f} x {best}")


if __name__ == "__main__":
    main()

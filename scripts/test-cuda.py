#!/usr/bin/env python3
"""The checks of scripts/test-cuda, which sets everything up and calls this.

For each model, trained in 1, 2 and 4 stages with 4 micro-batches: loss and
gradients of the first step and parameters after several against PyTorch's and
the processor's; the same bits for all numbers of stages, with and without
graphs, and in a second run; outputs of the trained model against the
processor's. Then memory errors (compute-sanitizer), then times.
"""

import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import numpy as np

STAGES = (1, 2, 4)
STEPS = 5
# Relative errors in the Frobenius norm, tensor by tensor; see test/e2e/against_pytorch.py.
TOLERANCE = 1e-4
WEIGHT_TOLERANCE = {"resnet18": 1e-2}
BUDGET_SECONDS = 420
DTYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4", "I8": "i1", "U8": "u1", "BOOL": "?"}

# For the programs alone: Python has libraries of its own.
places = [str(pathlib.Path(sys.argv[1]).resolve() / "libraries"), os.environ.get("LD_LIBRARY_PATH")]
environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(place for place in places if place)}
start = time.monotonic()
failures = 0


class Failure(Exception):
    pass


def report(result, name, text=""):
    global failures
    failures += result == "FAIL"
    print(f"{result}  {name}{': ' + text if text else ''}", flush=True)


def run(command, timeout=60):
    """Returns standard output; Failure says what went wrong."""
    command = [str(part) for part in command]
    # So that one hang does not cost the rest.
    timeout = max(5, min(timeout, BUDGET_SECONDS - (time.monotonic() - start)))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment)
    except subprocess.TimeoutExpired:
        raise Failure(f"did not end within {timeout:.0f} s: {' '.join(command)}") from None
    if done.returncode != 0:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise Failure(f"exit code {done.returncode}: {' '.join(command)}\n{tail}")
    return done.stdout


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = data[8 + length + begin : 8 + length + end]
        tensors[name] = np.frombuffer(raw, DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def relative_error(value, expected):
    if value.shape != expected.shape:
        return float("inf")
    difference = np.linalg.norm((value.astype(np.float64) - expected).ravel())
    norm = np.linalg.norm(expected.astype(np.float64).ravel())
    error = float(difference / norm) if norm > 0 else float(difference)
    # NaN compares as smaller than any tolerance.
    return error if error == error else float("inf")


class Run:
    """What one training gives."""

    def __init__(self, tests, model, target, stages, device, steps, *arguments):
        binary = tests.binary(model, target, stages)
        common = ["--data", tests.data(model), "--weights", tests.folder / "models" / model, "--device", device]
        scratch = pathlib.Path(tempfile.mkdtemp(dir=tests.scratch))
        snapshot, gradients = scratch / "snapshot", scratch / "gradients"

        def train(count, *more):
            lines = run([binary, "train", *common, "--no-shuffle", "--steps", count, *more, *arguments]).splitlines()
            return [json.loads(line) for line in lines if line.startswith("{")]

        self.loss = train(1, "--dump-gradients", gradients)[-1]["loss"]
        self.gradients = read_safetensors(gradients)
        self.lines = train(steps, "--log-bits", "--save", snapshot)
        self.snapshot = read_safetensors(snapshot)
        self.folder = scratch
        # Times differ from run to run; losses and their bits must not.
        self.losses = [
            {k: v for k, v in line.items() if "loss" in k or "bits" in k} for line in self.lines
        ]



class Processor:
    """What the processor gave where the models were compiled. Its programs do not
    run on every other processor."""

    def __init__(self, folder):
        self.folder = folder
        self.loss = json.loads((folder / "loss.json").read_text())
        self.gradients = read_safetensors(folder / "gradients")
        self.snapshot = read_safetensors(folder / "snapshot")
        self.outputs = dict(np.load(folder / "output.npz"))


def difference(one, other):
    """The first thing that differs between the bits of two runs, or nothing."""
    if not one.losses or one.losses != other.losses:
        return f"losses {one.losses} and {other.losses}"
    for what in ("gradients", "snapshot"):
        mine, yours = getattr(one, what), getattr(other, what)
        if not mine or set(mine) != set(yours):
            return f"{what}: tensors {sorted(set(mine) ^ set(yours))}"
        for name in mine:
            if mine[name].tobytes() != yours[name].tobytes():
                count = np.count_nonzero(mine[name] != yours[name])
                return f"{what}: {name}: {count} of {mine[name].size} elements"
    return ""


def worst(values, expected):
    """The largest relative error, and its tensor."""
    if not expected or not set(expected) <= set(values):
        return float("inf"), f"missing {sorted(set(expected) - set(values))[:3]}"
    return max((relative_error(values[name], expected[name]), name) for name in expected)


class Tests:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder).resolve()
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="pp-cuda-"))
        rows = [line.split("\t") for line in (self.folder / "manifest.tsv").read_text().splitlines()]
        self.models = [row[0] for row in rows]
        self.target = rows[0][1]
        default = "cuda:0" if self.target.startswith("cuda") else self.target
        self.device = os.environ.get("PP_TEST_DEVICE") or default
        self.references = {}

    def binary(self, model, target, stages):
        return self.folder / "binaries" / f"{model}.{target}.{stages}"

    def reference(self, model):
        if model not in self.references:
            self.references[model] = dict(np.load(self.folder / "models" / model / "reference.npz"))
        return self.references[model]

    def data(self, model):
        path = self.scratch / f"{model}.npz"
        if not path.exists():
            arrays = {k: v for k, v in self.reference(model).items() if "/" not in k and v.ndim}
            np.savez(path, **{k: v for k, v in arrays.items() if k != "output" and not k.endswith("_output")})
        return path

    def check(self, name, work):
        """`work` returns (whether it passed, text)."""
        try:
            passed, text = work()
            report("PASS" if passed else "FAIL", name, text)
        except Exception as error:  # A broken file is a failed check too.
            report("FAIL", name, f"{type(error).__name__}: {error}")

    def attempt(self, name, *arguments):
        try:
            return Run(self, *arguments)
        except Exception as error:
            report("FAIL", name, f"{type(error).__name__}: {error}")
            return None

    def compare(self, name, error, tolerance):
        report("PASS" if error[0] <= tolerance else "FAIL", name, f"{error[0]:.2e} ({error[1]}), at most {tolerance:g}")

    def check_model(self, model):
        reference = self.reference(model)
        steps = self.steps(model)
        processor = Processor(self.folder / "results" / model)
        runs = {s: self.attempt(f"{model}: {s} stages", model, self.target, s, self.device, steps) for s in STAGES}
        first = runs[1]
        if not first:
            report("SKIP", f"{model}: results", "a run failed")
            return
        loss = float(reference["loss"])
        weights = WEIGHT_TOLERANCE.get(model, TOLERANCE)
        under = lambda prefix: {
            k[len(prefix) :]: v for k, v in reference.items()
            if k.startswith(prefix) and not k.endswith("num_batches_tracked")
        }
        plain = {k: v for k, v in processor.snapshot.items() if "#" not in k}
        self.compare(f"{model}: loss, PyTorch", (abs(first.loss - loss) / abs(loss), "loss"), TOLERANCE)
        self.compare(f"{model}: gradients, PyTorch", worst(first.gradients, under("grad/")), TOLERANCE)
        self.compare(f"{model}: weights after {steps} steps, PyTorch", worst(first.snapshot, under("sgd/")), weights)
        self.compare(f"{model}: gradients, processor", worst(first.gradients, processor.gradients), TOLERANCE)
        self.compare(f"{model}: weights after {steps} steps, processor", worst(first.snapshot, plain), weights)
        self.check(f"{model}: outputs, processor", lambda: self.check_outputs(model, processor))
        for s in STAGES[1:]:
            if runs[s]:
                text = difference(first, runs[s])
                report("FAIL" if text else "PASS", f"{model}: bits of {s} stages", text)
        for name, arguments in (("without graphs", ["--no-graphs"]), ("a second run", [])):
            other = self.attempt(f"{model}: {name}", model, self.target, 2, self.device, steps, *arguments)
            if other and runs[2]:
                text = difference(runs[2], other)
                report("FAIL" if text else "PASS", f"{model}: bits of {name}", text)

    def infer(self, model, target, stages, device, weights, output):
        run([
            self.binary(model, target, stages), "infer", "--data", self.data(model), "--weights",
            self.folder / "models" / model, "--device", device, "--load", weights, "--output", output,
        ])

    def record(self):
        """Runs the processor's programs and keeps what they give."""
        for model in self.models:
            results = self.folder / "results" / model
            done = Run(self, model, "cpu", 1, "cpu", self.steps(model))
            shutil.copytree(done.folder, results)
            (results / "loss.json").write_text(json.dumps(done.loss))
            self.infer(model, "cpu", 1, "cpu", results / "snapshot", results / "output.npz")
        shutil.rmtree(self.scratch, ignore_errors=True)

    def steps(self, model):
        # resnet18's reference holds one step of the micro-batches.
        return 1 if model == "resnet18" else STEPS

    def check_outputs(self, model, processor):
        output = self.scratch / f"{model}.output.npz"
        self.infer(model, self.target, 2, self.device, processor.folder / "snapshot", output)
        error = worst(dict(np.load(output)), processor.outputs)
        tolerance = WEIGHT_TOLERANCE.get(model, TOLERANCE)
        return error[0] <= tolerance, f"{error[0]:.2e}, at most {tolerance:g}"

    def check_memory(self):
        name = "compute-sanitizer memcheck, lenet"
        tool = shutil.which("compute-sanitizer") or shutil.which(
            "compute-sanitizer", path="/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer"
        )
        if not self.device.startswith("cuda"):
            return report("SKIP", name, f"the device is {self.device}")
        if not tool:
            return report("SKIP", name, "there is no compute-sanitizer")
        for stages in (1, 2):
            self.check(f"{name} in {stages} stages", lambda: (bool(run([
                tool, "--tool", "memcheck", "--error-exitcode", "9", self.binary("lenet", self.target, stages),
                "train", "--data", self.data("lenet"), "--weights", self.folder / "models" / "lenet", "--device",
                self.device, "--no-shuffle", "--steps", 3, "--watchdog", 0,
            ], timeout=120)), ""))

    def bench(self, model, target, stages, device, *arguments):
        out = run([
            self.binary(model, target, stages), "bench", "--device", device, "--weights",
            self.folder / "models" / model, "--steps", 30, "--warmup", 5, "--json", *arguments,
        ])
        return json.loads(out)

    def measure(self):
        print(f"\n{'model':<10} {'stages':>6} {'graphs':>7} {'ms per step':>12} {'samples/s':>11} {'busiest stage':>14}")

        def row(model, target, stages, device, graphs):
            try:
                result = self.bench(model, target, stages, device, *([] if graphs else ["--no-graphs"]))
            except Failure as error:
                here = target == "cpu" and self.target != "cpu" and "compile on this machine" in str(error)
                return report("SKIP" if here else "FAIL", f"{model} {target}: bench", str(error))
            busy = max(stage["utilisation"] for stage in result["stages"])
            label = "cpu" if target == "cpu" and self.target != "cpu" else ("yes" if graphs else "no")
            print(f"{model:<10} {stages:>6} {label:>7} {1e3 * result['median_step_seconds']:>12.3f} "
                  f"{result['samples_per_second']:>11.1f} {100 * busy:>12.1f} %", flush=True)

        for model in self.models:
            row(model, "cpu", 1, "cpu", True)
            for stages in STAGES:
                for graphs in (True, False):
                    row(model, self.target, stages, self.device, graphs)

    def run(self):
        for model in self.models:
            self.check_model(model)
        self.check_memory()
        self.measure()
        print(f"\n{time.monotonic() - start:.0f} s, {failures} failed")
        shutil.rmtree(self.scratch, ignore_errors=True)
        return failures


if __name__ == "__main__":
    if sys.argv[2:] == ["--record"]:
        sys.exit(Tests(sys.argv[1]).record())
    sys.exit(1 if Tests(sys.argv[1]).run() else 0)

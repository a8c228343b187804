"""Checks against what PyTorch and the processor gave on another machine.

For each model of test/models in 1, 2 and 4 stages with 4 micro-batches: loss and
gradients of the first step and parameters after several; the same bits for all
numbers of stages, with replicas, with and without graphs, and in a second run;
outputs of the trained model.
"""

import json
import shutil

import numpy as np

from cases import STORED_REPLICATED, STORED_STAGES, stored_name
from harness import Training, check_same_bits, read_safetensors

# Relative errors in the Frobenius norm, tensor by tensor; see test/e2e/against_pytorch.py.
TOLERANCE = 1e-4
WEIGHT_TOLERANCE = {"resnet18": 1e-2}


def relative_error(value, expected):
    if value.shape != expected.shape:
        return float("inf")
    difference = np.linalg.norm((value.astype(np.float64) - expected).ravel())
    norm = np.linalg.norm(expected.astype(np.float64).ravel())
    error = float(difference / norm) if norm > 0 else float(difference)
    return error if error == error else float("inf")


def worst(values, expected):
    """The largest relative error, and its tensor."""
    if not expected or not set(expected) <= set(values):
        return float("inf"), f"missing {sorted(set(expected) - set(values))[:3]}"
    return max((relative_error(values[name], expected[name]), name) for name in expected)


class Stored:
    """One model and its files."""

    def __init__(self, harness, entry):
        self.harness, self.name, self.steps = harness, entry["model"], entry["steps"]
        self.folder = harness.folder / "stored" / self.name
        self.reference = dict(np.load(self.folder / "reference.npz"))
        self.data = harness.make_folder() / "data.npz"
        arrays = {k: v for k, v in self.reference.items() if "/" not in k and v.ndim}
        np.savez(self.data, **{k: v for k, v in arrays.items() if not k.endswith("output")})

    def program(self, target, *stages_and_replicas):
        return stored_name(self.name, target, *stages_and_replicas)

    def train(self, target, stages, device, *arguments, replicas=1):
        return Training(
            self.harness, self.program(target, stages, replicas), self.data, self.folder, device, self.steps, *arguments)

    def infer(self, target, stages, device, weights, output):
        self.harness.run([
            self.harness.program(self.program(target, stages)), "infer", "--data", self.data, "--weights", self.folder,
            "--device", device, "--load", weights, "--output", output])

    def under(self, prefix):
        return {k[len(prefix):]: v for k, v in self.reference.items()
                if k.startswith(prefix) and not k.endswith("num_batches_tracked")}


def record(harness):
    """Runs the processor's programs and keeps what they give."""
    for entry in harness.manifest["stored"]:
        model = Stored(harness, entry)
        done = model.train("cpu", 1, "cpu")
        results = harness.folder / "results" / model.name
        shutil.copytree(done.folder, results)
        (results / "loss.json").write_text(json.dumps(done.loss))
        model.infer("cpu", 1, "cpu", results / "snapshot", results / "output.npz")
    shutil.rmtree(harness.scratch, ignore_errors=True)


def check_model(harness, entry):
    model = Stored(harness, entry)
    name, results = model.name, harness.folder / "results" / model.name

    def train(title, stages, *arguments, **options):
        return harness.attempt(
            f"{name}: {title}", model.train, harness.target, stages, harness.device, *arguments, **options)

    runs = {stages: train(f"{stages} stages", stages) for stages in STORED_STAGES}
    first = runs[1]
    if not first:
        return harness.report("SKIP", f"{name}: results", "a run failed")
    weights = WEIGHT_TOLERANCE.get(name, TOLERANCE)
    loss = float(model.reference["loss"])
    snapshot, gradients = first.snapshot, first.gradients
    plain = {k: v for k, v in read_safetensors(results / "snapshot").items() if "#" not in k}

    def compare(title, error, tolerance):
        harness.compare(f"{name}: {title}", error[0], tolerance, error[1])

    compare("loss, PyTorch", (abs(first.loss - loss) / abs(loss), "loss"), TOLERANCE)
    compare("gradients, PyTorch", worst(gradients, model.under("grad/")), TOLERANCE)
    compare(f"weights after {model.steps} steps, PyTorch", worst(snapshot, model.under("sgd/")), weights)
    compare("gradients, processor", worst(gradients, read_safetensors(results / "gradients")), TOLERANCE)
    compare(f"weights after {model.steps} steps, processor", worst(snapshot, plain), weights)

    def check_outputs():
        output = harness.make_folder() / "output.npz"
        model.infer(harness.target, 2, harness.device, results / "snapshot", output)
        compare("outputs, processor", worst(dict(np.load(output)), dict(np.load(results / "output.npz"))), weights)

    harness.attempt(f"{name}: outputs, processor", check_outputs)
    for stages in STORED_STAGES[1:]:
        check_same_bits(harness, f"{name}: bits of {stages} stages", first, runs[stages])
    stages, replicas = STORED_REPLICATED
    title = f"{replicas} replicas of {stages} stages"
    check_same_bits(harness, f"{name}: bits of {title}", first, train(title, stages, replicas=replicas))
    check_same_bits(harness, f"{name}: bits without graphs", runs[2], train("without graphs", 2, "--no-graphs"))
    check_same_bits(harness, f"{name}: bits of a second run", runs[2], train("a second run", 2))

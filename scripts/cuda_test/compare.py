"""Checks against PyTorch on the same GPU, in float32 without TF32 or in bf16.

How exact a precision is depends on the model, so the measure is float64: a
program's results may be at most FACTOR times as far from it as PyTorch's own in
the same precision, or FLOOR, tensor by tensor.
"""

import json
import os
import pathlib
import sys

import numpy as np

from harness import Training, check_same_bits

FACTOR = 4
FLOOR = {"f32": 1e-4, "bf16": 2**-7}
STEPS = 5
HERE = pathlib.Path(__file__).resolve().parent


def run_python(harness, script, *arguments, timeout=180):
    """PyTorch brings its own libraries."""
    path = os.environ.get("LD_LIBRARY_PATH", "")
    return harness.run([sys.executable, HERE / script, *arguments], timeout, {"LD_LIBRARY_PATH": path})


def make_weights(harness, model):
    import pytorch

    pytorch.make_weights(harness.model_folder(model), model, harness.sizes)


def make_data(harness, case):
    import models

    path = harness.scratch / f"{case['model']}.{case['batch']}.npz"
    if not path.exists():
        # Another thread's file of the same name has the same bytes.
        partial = harness.make_folder() / "data.npz"
        np.savez(partial, **models.SIZES[harness.sizes][case["model"]].arrays(case["batch"]))
        partial.rename(path)
    return path


def train(harness, case, data, *arguments):
    return Training(
        harness, case["name"], data, harness.model_folder(case["model"]), harness.device, STEPS, *arguments)


def judge(harness, name, errors, floor):
    """`errors`: by tensor, of the program and of PyTorch."""
    worst, (ours, theirs) = max(errors.items(), key=lambda item: item[1][0] / max(floor, FACTOR * item[1][1]))
    harness.compare(name, ours, max(floor, FACTOR * theirs), f"{worst}; PyTorch {theirs:.2e}")


def against_pytorch(harness, title, case, done, data):
    """`done`: a training of the case's program."""
    folder = harness.model_folder(case["model"])
    outputs = done.folder / "outputs.npz"
    harness.run([
        harness.program(case["name"]), "infer", "--data", data, "--weights", folder, "--no-verify-weights", "--device", harness.device,
        "--output", outputs], timeout=90)
    request = done.folder / "request.json"
    request.write_text(json.dumps({
        "device": harness.device, "sizes": harness.sizes, "model": case["model"], "folder": str(folder),
        "data": str(data), "gradients": str(done.paths["gradients"]), "snapshot": str(done.paths["snapshot"]),
        "outputs": str(outputs), "loss": done.loss, "steps": STEPS, "microbatches": case["microbatches"],
        "precision": case["precision"], "learning_rate": case["learning_rate"]}))
    answer = json.loads(run_python(harness, "compare_worker.py", request).splitlines()[-1])
    floor = FLOOR[case["precision"]]
    judge(harness, f"{title}: loss, PyTorch here", {"loss": answer["loss"]}, floor)
    judge(harness, f"{title}: outputs, PyTorch here", answer["outputs"], floor)
    judge(harness, f"{title}: gradients, PyTorch here", answer["gradients"], floor)
    judge(harness, f"{title}: weights after {STEPS} steps, PyTorch here", answer["weights"], floor)


def check_model(harness, model):
    cases = {case["stages"]: case for case in harness.cases("compare") if case["model"] == model}
    for case in cases.values():
        if case["error"]:
            harness.report("FAIL", f"{model}: {case['name']}", f"does not compile: {case['error']}")
    first = cases[1]
    if first["error"]:
        return
    make_weights(harness, model)
    data = make_data(harness, first)
    done = harness.attempt(f"{model}: 1 stage", train, harness, first, data)
    if not done:
        return
    if not cases[2]["error"]:
        other = harness.attempt(f"{model}: 2 stages", train, harness, cases[2], data)
        check_same_bits(harness, f"{model}: bits of 2 stages, this machine's data", done, other)
    harness.attempt(f"{model}: PyTorch here", against_pytorch, harness, model, first, done, data)

#!/usr/bin/env python3
"""Trains without a flush and compares with the definition of each scheme.

test/reference/stale_training.py executes the definition in PyTorch, in one
process: which weight version every forward and backward pass reads, and what
every update adds. After 50 updates, every parameter agrees within the tolerance
of against_pytorch.py. The bits depend on neither threads, processes nor
transports, and a training that is stopped and resumed equals the definition in
which the pipeline was idle there. Memory is as planned.

The tolerance is a tenth of that of against_pytorch.py: there, a pass that reads
a wrong version is seen at once, here as a small change of the weights.
"""

import json
import os
import pathlib
import subprocess

import numpy as np

import common
from against_pytorch import NOISE
from common import MODELS, relative_error

REFERENCE = pathlib.Path(__file__).resolve().parent.parent / "reference" / "stale_training.py"
UPDATES = 50
# Single precision against double after 50 updates; PyTorch itself is up to 8e-6 away there.
TOLERANCE = 2e-5

# Of the compiler, and of PyTorch.
OPTIMIZERS = {
    "sgd": ({"optimizer": "sgd", "learning-rate": 0.02}, {"kind": "sgd", "lr": 0.02}),
    "momentum": (
        {"optimizer": "sgd", "learning-rate": 0.005, "momentum": 0.9, "weight-decay": 1e-4},
        {"kind": "sgd", "lr": 0.005, "momentum": 0.9, "weight_decay": 1e-4},
    ),
    "adamw": (
        {"optimizer": "adamw", "learning-rate": 1e-3, "weight-decay": 0.01},
        {"kind": "adamw", "lr": 1e-3, "weight_decay": 0.01},
    ),
}
# A group of parameters, for the program and for PyTorch.
OPTIMIZERS["grouped"] = (OPTIMIZERS["adamw"][0], {**OPTIMIZERS["adamw"][1], "groups": [["*.bias", {"lr": 5e-4, "weight_decay": 0}]]})
GROUP = "*.bias:lr_factor=0.5,weight_decay=0"

# (model, samples of an update, stages)
SHAPES = [("mlp", 8, 2), ("mlp", 8, 4), ("lenet", 8, 2), ("lenet", 8, 4), ("gpt", 4, 2), ("gpt", 4, 4)]
# A batch norm's running statistics are compared, too.
NORMED = [
    ("normed", 8, 4, "pipedream", "sgd", 1), ("normed", 8, 2, "pipemare", "sgd", 1), ("normed", 16, 2, "wsp", "sgd", 4, "never", 0, 2, 1),
]


def versions_of(scheme, stages, in_flight, replicas):
    """What each stage keeps: the formulas of the papers."""
    if scheme == "pipedream":
        return [-(-sum(replicas[s:]) // replicas[s]) for s in range(stages)]
    if scheme == "pipedream-vertical-sync":
        return [stages] * stages
    if scheme == "wsp":
        return [in_flight] * stages
    return [2 if scheme == "pipedream-2bw" else 1] * stages


class Case:
    def __init__(
        self, context, model, batch, stages, scheme, optimizer, microbatches, checkpoint="never", correction=0,
        workers=1, distance=0, worker_stages="", replicas="",
    ):
        self.name = f"{model} S={stages} {scheme} M={microbatches} {optimizer}"
        self.name += " recomputed" if checkpoint != "never" else ""
        self.name += " corrected" if correction else ""
        self.name += f" W={worker_stages or workers} D={distance}" if scheme == "wsp" else ""
        self.name += f" n={replicas}" if replicas else ""
        self.replicas = [int(count) for count in replicas.split(",")] if replicas else [workers] * stages
        self.dealt = bool(replicas)
        # A step has several updates; all stages get as many as elsewhere.
        self.updates = -(-UPDATES // (microbatches // max(self.replicas))) if replicas else UPDATES
        self.ranks = sum(self.replicas) if replicas else len(worker_stages.replace("+", ",").split(",")) if worker_stages else stages * workers
        self.correction, self.workers, self.distance = correction, workers, distance
        more = {"correct-discrepancy": correction} if correction else {}
        if scheme == "wsp":
            more = {"replicas": workers, "clock-distance": distance}
            more |= {"worker-stages": worker_stages} if worker_stages else {}
        if replicas:
            more = {"replicas": replicas}
        self.context, self.model, self.scheme = context, model, scheme
        self.batch, self.stages, self.microbatches = batch, stages, microbatches
        flags, self.settings = OPTIMIZERS[optimizer]
        self.masks = self.settings["kind"] == "adamw"
        self.optimizer = optimizer
        self.binary = context.compile(
            common.model_file(model), stages=stages, batch=batch, microbatches=microbatches, schedule=scheme,
            loss="cross_entropy", checkpoint=checkpoint, **{"allow-stale": None}, **flags, **more,
        )
        self.data = context.data(MODELS / model / "reference.npz", samples=4 * batch)
        # The last batch of an epoch is smaller, and not all micro-batches have as many samples.
        self.ragged = context.data(MODELS / model / "reference.npz", samples=3 * batch + batch // 2 - 1)

    def expected(self, idle=(), annealed=0, data=None):
        plan = self.binary.plan()
        job = {
            "model": self.model,
            "scheme": self.scheme,
            "stages": [[p["name"] for p in stage["parameters"]] for stage in plan["stages"]],
            "microbatches": self.microbatches,
            "updates": self.updates,
            "idle": list(idle),
            "optimizer": self.settings,
            "annealed": annealed,
            "correction": self.correction,
            "workers": self.workers,
            "replicas": self.replicas if self.dealt else [],
            "distance": self.distance,
            "data": str(data or self.data),
            "batch": self.batch,
        }
        path, out = self.context.path(".json"), self.context.path(".npz")
        path.write_text(json.dumps(job))
        done = subprocess.run(
            [os.environ["PP_PYTHON"], REFERENCE, path, out], capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode:
            raise common.Failure(f"{self.name}: the reference failed:\n{done.stderr[-2000:]}")
        return dict(np.load(out))

    def train(self, *arguments, steps=None, data=None):
        path = self.context.path(".safetensors")
        if self.optimizer == "grouped":
            arguments += ("--group", GROUP)
        lines = self.binary.train(data or self.data, "--no-shuffle", "--steps", steps or self.updates, "--save", path, *arguments)
        return path, lines

    def compare(self, checks, path, expected, what=""):
        tensors = common.read_safetensors(path)
        worst = (0.0, "")
        for name, wanted in expected.items():
            if name.startswith("first/"):
                continue
            value = tensors[name]
            if self.masks:
                keep = np.abs(expected[f"first/{name}"]) > NOISE
                value, wanted = value[keep], wanted[keep]
            error = relative_error(value, wanted)
            checks.check(error <= TOLERANCE, f"{self.name}{what}: {name}: relative error {error:.3g}")
            worst = max(worst, (error, name))
        return worst

    def check_memory(self, checks, report):
        """What was allocated is what was planned, and that is what the versions
        take beside the first."""
        stages = [stage for s, stage in enumerate(self.binary.plan()["stages"]) for _ in range(self.replicas[s])]
        runs = json.loads(report.read_text())["stages"]
        checks.equal(len(runs), len(stages), f"{self.name}: stages")
        for stage, run in zip(stages, runs):
            checks.equal(run["memory_bytes"], stage["memory_bytes"], f"{self.name}: {stage['name']}: bytes")
            areas = {name: area["bytes"] for name, area in stage["areas"].items()}
            kept = stage.get("versions", 1) - 1
            checks.equal(
                areas.get("versions", 0), kept * (areas["parameters"] + areas.get("prepared", 0)),
                f"{self.name}: {stage['name']}: versions",
            )
            shared = self.shared_bytes(areas["parameters"]) if self.scheme == "wsp" else 0
            checks.equal(areas.get("shared", 0), shared, f"{self.name}: {stage['name']}: shared")

    def shared_bytes(self, parameters):
        """A worker's sums of waves and what it pulls, its shard and what all push to
        that, and two tokens for each worker."""
        part = -(-parameters // (64 * self.workers)) * 64
        of_worker = (max(self.distance, 1) + self.distance + 1) * parameters
        of_shard = part * (1 + self.workers * (self.distance + 1))
        return of_worker + of_shard + (128 * self.workers if self.workers > 1 else 0)


def together(tensors):
    return np.concatenate([tensors[name].ravel() for name in sorted(tensors) if not name.startswith("first/")])


def run_case(context, checks, *arguments):
    case = Case(context, *arguments)
    plan = case.binary.plan()
    checks.equal(
        [stage.get("versions", 1) for stage in plan["stages"]],
        versions_of(case.scheme, case.stages, case.microbatches // case.workers, case.replicas),
        f"{case.name}: versions",
    )
    expected = case.expected()
    report = context.path(".json")
    path, _ = case.train("--report", report)
    worst = case.compare(checks, path, expected)
    case.check_memory(checks, report)
    synchronous = case.expected(idle=range(1, case.updates))
    away = relative_error(together(expected), together(synchronous))
    # Replicas of a single stage miss no update.
    is_stale = case.stages > 1 or not case.dealt
    checks.check(not is_stale or away > 10 * worst[0], f"{case.name}: as close to the synchronous training")
    print(f"{case.name:<44} worst {worst[0]:.1e} {worst[1]:<28} synchronous: {away:.1e} away", flush=True)
    if case.optimizer == "momentum":
        check_runs(case, context, checks, path, synchronous)


def check_runs(case, context, checks, path, synchronous):
    """Other ways to run the program that was trained into `path`."""
    bits = common.tensor_bytes(path)
    for flags in [("--processes", case.ranks), ("--processes", 2, "--transport", "host-staged")]:
        checks.check(
            common.tensor_bytes(case.train(*flags)[0]) == bits, f"{case.name}: other bits with {flags}"
        )
    # Stopped after 20 updates, where the pipeline is idle, and resumed.
    first, _ = case.train(steps=20)
    resumed, _ = case.train("--resume", first)
    case.compare(checks, resumed, case.expected(idle=[20]), ", resumed")
    saved, _ = case.train("--save-every", 20)
    idle = case.expected(idle=[20, 40])
    case.compare(checks, saved, idle, ", saved on the way")
    flushed, _ = case.train("--flushed-steps", case.updates)
    case.compare(checks, flushed, synchronous, ", flushed")
    ragged, _ = case.train("--epochs", case.updates, data=case.ragged)
    case.compare(checks, ragged, case.expected(data=case.ragged), ", a smaller last batch")
    if case.workers > 1:
        try:
            case.train("--dump-gradients", context.path(".safetensors"))
            checks.check(False, f"{case.name}: gradients of several workers were written")
        except common.Failure as failure:
            checks.check("workers of this program has gradients of its own" in str(failure), f"{case.name}: {failure}")
    if case.scheme == "pipemare" and not case.correction:
        annealed, _ = case.train("--annealed-steps", 30, "--flushed-steps", 10)
        case.compare(checks, annealed, case.expected(idle=range(1, 11), annealed=30), ", annealed")


def replicated(model, batch, counts, optimizer, microbatches, checkpoint="never"):
    stages = counts.count(",") + 1
    return (model, batch, stages, "pipedream", optimizer, microbatches, checkpoint, 0, 1, 0, "", counts)


def cases(quick):
    if quick:
        return [
            ("mlp", 8, 2, "pipedream", "momentum", 1), ("mlp", 8, 4, "pipedream-2bw", "sgd", 4),
            ("mlp", 8, 4, "pipemare", "momentum", 1), ("mlp", 8, 4, "pipedream-vertical-sync", "sgd", 1),
            ("mlp", 8, 4, "pipemare", "momentum", 2, "never", 0.135),
            ("mlp", 8, 2, "wsp", "momentum", 4, "never", 0, 2, 0), ("mlp", 8, 2, "wsp", "momentum", 8, "never", 0, 4, 1),
            ("mlp", 8, 4, "wsp", "momentum", 4, "never", 0, 2, 1, "2+2,1+2+1"),
            replicated("mlp", 8, "2,1", "momentum", 2), replicated("mlp", 12, "1,3,2", "adamw", 6),
            ("mlp", 8, 2, "wsp", "grouped", 4, "never", 0, 2, 1), replicated("mlp", 8, "2,1", "grouped", 4),
            replicated("normed", 8, "2,1", "sgd", 2),
        ]
    result = []
    for model, batch, stages in SHAPES:
        optimizers = OPTIMIZERS if model == "mlp" else ["momentum"]
        for optimizer in optimizers:
            result.append((model, batch, stages, "pipedream", optimizer, 1))
            result.append((model, batch, stages, "pipedream-2bw", optimizer, 4))
        if stages == 4:
            result.append((model, batch, stages, "pipedream-vertical-sync", "momentum", 1))
        if stages == 4:
            result.append((model, batch, stages, "pipedream-2bw", "momentum", 4, "always"))
        result.append((model, batch, stages, "pipemare", "momentum", 1 if stages == 4 else 4))
        if stages == 4:
            result.append((model, batch, stages, "pipemare", "momentum", 2, "never", 0.135))
        for distance in (0, 1, 4):
            result.append((model, batch, stages, "wsp", "momentum", 4, "never", 0, 2, distance))
    for optimizer in ("sgd", "adamw"):
        result.append(("mlp", 8, 2, "wsp", optimizer, 8, "never", 0, 4, 1))
    # Workers with unequal cuts: of 2 and 3 ranks, and of 4 and 1.
    for model in ("mlp", "lenet", "gpt"):
        result.append((model, 8, 4, "wsp", "momentum", 4, "never", 0, 2, 1, "2+2,1+2+1"))
    result.append(("mlp", 8, 4, "wsp", "momentum", 8, "always", 0, 2, 0, "1+1+1+1,4"))
    # PipeDream's replicas of stages.
    for model, batch in (("mlp", 12), ("lenet", 12), ("gpt", 6)):
        for counts, microbatches in (("2,1", 2), ("1,2", 2), ("3,1", 3), ("2,3", 6), ("1,3,2", 6), ("1,2,1,1", 2)):
            result.append(replicated(model, batch, counts, "momentum", microbatches))
    for optimizer in ("sgd", "adamw"):
        result.append(replicated("mlp", 12, "3,1", optimizer, 6))
    result.append(replicated("mlp", 8, "2,1,1", "momentum", 4, "always"))
    result.append(replicated("mlp", 8, "4", "sgd", 4))
    result.append(("mlp", 8, 2, "wsp", "grouped", 4, "never", 0, 2, 1))
    result.append(replicated("mlp", 8, "2,1", "grouped", 4))
    for counts, microbatches in (("2,1", 2), ("1,2", 2), ("1,3,1", 3), ("2,2,1", 4)):
        result.append(replicated("normed", 4 * microbatches, counts, "sgd", microbatches))
    # No pipeline, more in flight than stages, and a worker alone.
    result.append(("mlp", 8, 1, "wsp", "momentum", 2, "never", 0, 2, 1))
    result.append(("mlp", 8, 2, "wsp", "momentum", 8, "never", 0, 2, 1))
    result.append(("mlp", 8, 2, "wsp", "momentum", 2, "always", 0, 1, 0))
    return result + NORMED


def test(context, checks, arguments):
    def guarded(case):
        try:
            run_case(context, checks, *case)
        except common.Failure as failure:
            checks.check(False, f"{case}: {failure}")

    wanted = [c for c in cases(arguments.quick) if not arguments.only or all(o in c for o in arguments.only)]
    context.map(guarded, wanted)


def add_options(parser):
    parser.add_argument("--only", action="append", help="only this model, scheme or optimizer; may be repeated")


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0], add_options)

#!/usr/bin/env python3
"""Optimizers, schedules, clipping, groups and losses are those of PyTorch, with the same bits however the model is cut.

20 steps of a small model in each case of trainer_cases.py: the parameters, losses,
learning rates and gradient norms against the committed numbers of PyTorch in
double precision; and all bits of two and four stages, of other schedules, of
several processes, threads and replicas, and of a training that is interrupted
in the middle, against those of one stage. Some cases do the same as programs for
a GPU, on the mock device.
"""

import pathlib
import sys

import numpy as np

import common
from trainer_cases import BATCH, CASES, LAYERS, NUMBERS, SIZES, STEPS, data, parameters

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import graph, integer, model, node, opset, tensor, untyped, value  # noqa: E402

# Relative, in the Frobenius norm over all parameters; single precision against double.
TOLERANCE = 1e-5
RATE_TOLERANCE = 1e-12
QUICK = ("together", "lamb", "adafactor", "muon_groups", "groups")
# Those that a GPU has kernels of its own for.
GPU = ("groups", "together", "lamb", "lars")


def write_model(path):
    constants = [tensor(name, list(p.shape), raw=p.tobytes()) for name, p in parameters().items()]
    nodes, last = [], "x"
    for i in range(LAYERS):
        nodes.append(node("Gemm", [last, f"layer{i}.weight", f"layer{i}.bias"], [f"h{i}"], attributes=[integer("transB", 1)]))
        last = f"h{i}"
        if i + 1 < LAYERS:
            nodes.append(node("Tanh", [last], [f"t{i}"]))
            last = f"t{i}"
    body = graph(nodes, inputs=[value("x", [BATCH, SIZES[0]])], outputs=[untyped(last)], initializers=constants)
    path.write_bytes(model(body, opsets=[opset(17)]))


class Case:
    def __init__(self, context, model, name, is_gpu=False):
        self.context, self.model = context, model
        self.numbers, self.name = name, f"{name} on a GPU" if is_gpu else name
        self.options = CASES[name]
        self.target, self.device = ({"target": "mock"}, ("--device", "mock")) if is_gpu else ({}, ())
        self.data = context.path(".npz")
        np.savez(self.data, **data(self.options["compile"]))

    def train(self, stages, *flags, microbatches=4, **options):
        """Lines of the log, tensors and the snapshot."""
        compile = {"batch": BATCH, "microbatches": microbatches, "stages": stages, **self.options["compile"], **self.target, **options}
        binary = self.context.compile(self.model, **compile)
        snapshot = self.context.path(".safetensors")
        lines = binary.train(
            self.data, "--no-shuffle", "--epochs", STEPS, "--log-bits", "--log-gradient-norm", "--save", snapshot, *self.device, *flags
        )
        return [line for line in lines if "loss" in line], common.tensor_bytes(snapshot), snapshot

    def compare(self, checks):
        numbers = np.load(NUMBERS)
        expected = {key: numbers[f"{self.numbers}/{key}"] for key in ("parameters", "loss", "lr", "norm")}
        lines, _, snapshot = self.base
        tensors = common.read_safetensors(snapshot)
        first = np.concatenate([p.ravel() for p in parameters().values()])
        found = np.concatenate([tensors[name].ravel() for name in parameters()]).astype(np.float64)
        # Of what training changed.
        error = common.relative_error(found - first, expected["parameters"] - first)
        checks.check(error <= TOLERANCE, f"{self.name}: parameters are off by {error:.3g}")
        for key, name in (("loss", "loss"), ("norm", "gradient_norm")):
            error = common.relative_error(np.array([line[name] for line in lines]), expected[key])
            checks.check(error <= TOLERANCE, f"{self.name}: {key} is off by {error:.3g}")
        if any("--lr-schedule" in flag for flag in self.options["train"]):
            rates = np.array([line["lr"] for line in lines])
            error = np.max(np.abs(rates - expected["lr"])) / np.max(expected["lr"])
            checks.check(error <= RATE_TOLERANCE, f"{self.name}: learning rates are off by {error:.3g}")
        print(f"{self.name}: {common.relative_error(found - first, expected['parameters'] - first):.2g}")

    def run(self, checks, cuts):
        flags = ["--steps", STEPS, *self.options["train"]]
        self.base = self.train(1, *flags)
        self.compare(checks)
        base = self.bits(self.base)
        for stages, options, more in cuts:
            what = f"{self.name}: S={stages} {options} {' '.join(map(str, more))}"
            checks.check(self.bits(self.train(stages, *flags, *more, **options)) == base, f"{what}: other bits")
        # The snapshot knows the schedule, the clipping and the groups.
        half = STEPS // 2 - 1
        ends = ["--lr-steps", STEPS] if self.decays() else []
        _, _, snapshot = self.train(2, *self.options["train"], *ends, "--steps", half)
        rest = self.train(4, "--resume", snapshot, "--steps", STEPS)
        checks.check(self.bits(rest)[1] == base[1], f"{self.name}: resumed: other bits")
        checks.check(
            [line["loss_bits"] for line in rest[0]] == [line["loss_bits"] for line in self.base[0]][half:], f"{self.name}: resumed: other losses"
        )

    def decays(self):
        """Whether the end of the training is the schedule's, unless a flag says it."""
        text = " ".join(self.options["train"])
        return any(f"={kind}" in text for kind in ("linear", "cosine", "polynomial", "one-cycle")) and "--lr-steps" not in text

    @staticmethod
    def bits(result):
        lines, tensors, _ = result
        return [(line["loss_bits"], line["gradient_norm"], line.get("lr")) for line in lines], tensors


# (stages, options of the compiler, flags)
CUTS = [(2, {"schedule": "1f1b"}, ()), (4, {"schedule": "zb-h1"}, ())]
ALL_CUTS = [
    *CUTS, (4, {"schedule": "gpipe", "checkpoint": "always"}, ()), (2, {}, ("--processes", 2)), (4, {}, ("--processes", 3)),
    (2, {"threads_per_stage": 2}, ()), (4, {"schedule": "zb-v", "ranks": 2}, ()), (2, {}, ("--device", "mock")),
]  # fmt: skip
GPU_CUTS = [
    (2, {"schedule": "1f1b"}, ()), (4, {"schedule": "zb-h1"}, ("--no-graphs",)), (4, {"schedule": "gpipe", "checkpoint": "always"}, ()),
    (2, {}, ("--processes", 2)), (4, {"schedule": "zb-v", "ranks": 2}, ()),
    # What kernels set is the same for all groups.
    (2, {"loss_scale": "dynamic"}, ("--set", "growth_interval=2")),
]  # fmt: skip


def check_replicas(context, checks, model):
    """With gradient lanes, one, two and four replicas have the same bits."""
    for name in ("together", "lamb", "muon"):
        one = Case(context, model, name)
        flags = ["--steps", STEPS, *one.options["train"]]
        expected = one.bits(one.train(1, *flags, gradient_lanes=4))
        for replicas, stages, more in ((2, 1, ()), (4, 2, ()), (2, 2, ("--processes", 4))):
            found = one.bits(one.train(stages, *flags, *more, gradient_lanes=4, replicas=replicas))
            checks.check(found == expected, f"{name}: R={replicas} S={stages} {more}: other bits")
    # GPUs have no lanes, so the number of replicas is the same.
    for name in ("together", "lamb"):
        one = Case(context, model, name, is_gpu=True)
        flags = ["--steps", STEPS, *one.options["train"]]
        expected = one.bits(one.train(1, *flags, replicas=2))
        for stages, more in ((2, ()), (4, ("--processes", 4))):
            found = one.bits(one.train(stages, *flags, *more, replicas=2))
            checks.check(found == expected, f"{one.name}: R=2 S={stages} {more}: other bits")


def check_ratios_of_groups(context, checks, model):
    """Trust ratios of parameters with values of their own are those of the processor."""
    for name in ("lamb", "lars"):
        flags = ["--steps", STEPS, "--group=layer1.*:frozen", "--group=*.bias:weight_decay=0,lr_factor=2"]
        trained = [common.read_safetensors(Case(context, model, name, is_gpu).train(2, *flags)[2]) for is_gpu in (False, True)]
        for key, first in parameters().items():
            expected, found = (tensors[key] - first for tensors in trained)
            if key.startswith("layer1."):
                checks.check(not expected.any() and not found.any(), f"{name} with groups: '{key}' is not frozen")
                continue
            error = common.relative_error(found, expected)
            checks.check(error <= TOLERANCE, f"{name} with groups: '{key}' of a GPU is off by {error:.3g}")


def check_errors(context, checks, model):
    import subprocess

    one = Case(context, model, "adamw")
    compile = {"batch": BATCH, "microbatches": 4, **one.options["compile"]}
    binary = context.compile(model, **compile)
    blind = context.compile(model, **compile, loss_scale="none")
    file = context.path(".json")

    def refused(fragment, *flags, program=binary, code=2):
        done = subprocess.run(
            [str(program.path), "train", "--data", str(one.data), *map(str, flags)], capture_output=True, text=True, timeout=60
        )
        checks.check(done.returncode == code and fragment in done.stderr, f"{flags}: code {done.returncode}: {done.stderr}")

    refused("--lr-schedule", "--lr-schedule=cosinus")
    refused("--lr-gamma", "--lr-schedule=exponential")
    refused("--lr-every", "--lr-schedule=step")
    refused("--lr-power", "--lr-schedule=cosine", "--lr-power=2")
    refused("--lr-gamma", "--lr-gamma=0.5")
    refused("--warmup-steps", "--lr-schedule=linear", "--warmup-steps=9", "--lr-steps=8")
    refused("--warmup-steps", "--warmup-steps=1.5")
    for text, fragment in {
        "{": "parse error", '["cosine"]': "object", '{"schedule": 3}': "string", '{"gama": 3}': "gama", '{"schedule": "step", "every": "x"}': "every",
    }.items():  # fmt: skip
        file.write_text(text)
        refused(fragment, "--lr-file", file, code=1)
    file.write_text('{"schedule": "step"}')
    refused("--lr-every", "--lr-file", file)
    refused("--lr-file", "--lr-file", file, "--lr-schedule=cosine")
    refused("none.json", "--lr-file", file.parent / "none.json", code=4)
    for text in ("layer0.*", "layer0.*:", ":frozen", "layer0.*:lr", "layer0.*:lr=x", "layer0.*:lr_factor=nan"):
        refused("--group", f"--group={text}")
    refused("momentum", "--group=layer0.*:momentum=1")
    refused("layer9.*", "--group=layer9.*:frozen", "--group=other:frozen")
    refused("'other'", "--group=layer9.*:frozen", "--group=other:frozen")
    for flag in ("--clip-gradient-norm=1", "--clip-gradient-value=1", "--log-gradient-norm"):
        refused("--loss-scale=none", flag, program=blind)
    for flag in ("--clip-gradient-norm", "--clip-gradient-value"):
        for text in ("-1", "nan", "x"):
            refused(flag, f"{flag}={text}")
    # A file is what the flags are.
    file.write_text('{"schedule": "cosine", "warmup_steps": 6, "warmup_start": 0.1}')
    cosine = Case(context, model, "cosine_warmup")
    flags = cosine.train(1, "--steps", STEPS, *cosine.options["train"])
    checks.check(cosine.bits(flags) == cosine.bits(cosine.train(2, "--steps", STEPS, "--lr-file", file)), "--lr-file: other bits than flags")


def test(context, checks, arguments):
    path = context.cache / "trainer.onnx"
    if not path.exists():
        write_model(path)
    names = QUICK if arguments.quick else CASES
    for name in names:
        Case(context, path, name).run(checks, ALL_CUTS if name in ("together", "lamb", "adafactor", "muon") and not arguments.quick else CUTS[-1:])
    for name in GPU:
        Case(context, path, name, is_gpu=True).run(checks, GPU_CUTS[-1:] if arguments.quick else GPU_CUTS)
    check_ratios_of_groups(context, checks, path)
    if not arguments.quick:
        check_replicas(context, checks, path)
    check_errors(context, checks, path)


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

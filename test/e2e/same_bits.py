#!/usr/bin/env python3
"""The same bits for every number of stages, schedule, checkpoint mode and threads.

Trains 3 steps and compares every tensor of the snapshots (parameters, optimizer
states, running statistics) and the losses with those of one stage, for an equal
number of micro-batches. Also: a run that goes on from a snapshot ends with the
bits of a run without a pause, and the mock device, which runs the pipeline with
the asynchrony of a GPU, gives the bits of the processor.
"""

import itertools

import numpy as np

import common
from common import MODELS

STEPS = 3
# W of several micro-batches at once: (stages, schedule, checkpoint, threads, micro-batches together).
TOGETHER = ((1, "1f1b", "never", 1, 4), (1, "gpipe", "always", 2, 3), (2, "1f1b", "except_last", 1, 2), (2, "zb-h1", "never", 2, 4))
MICROBATCHES = (1, 4, 8)
STAGES = (1, 2, 3, 4)
SCHEDULES = ("gpipe", "1f1b", "eager-1f1b", "zb-h1", "zb-h2", "auto")
# Several stages on each of two ranks: (stages, schedule). dualpipev needs at least 4 micro-batches.
# auto goes there and back with 4 stages, and deals out 6.
LOOPED = (
    (4, "interleaved"), (4, "looped-bfs"), (4, "zb-v"), (4, "v-half"), (4, "v-min"), (4, "dualpipev"),
    (6, "interleaved"), (4, "auto"), (6, "auto"),
)
CHECKPOINTS = ("never", "except_last", "always")

# With several threads in each rank, every model: (stages, schedule, checkpoint, threads).
THREADED = ((1, "gpipe", "never", 2), (1, "gpipe", "always", 3), (2, "1f1b", "never", 2))

# Model: (samples of a batch, optimizer). Batch norm needs two samples in each
# micro-batch: the last layers of resnet18 have one pixel.
MODELS_USED = {"lenet": (32, "sgd"), "resnet18": (16, "sgd"), "unet": (8, "adamw"), "gpt": (8, "adamw")}

QUICK_MODELS = ("lenet", "gpt")

BASE = (1, "gpipe", "never")

# Without --full: with the base of each model and micro-batch count, every pair of
# two options comes up for QUICK_MODELS; for the others, those of 4 micro-batches.
SUBSET = {
    1: [(4, "1f1b", "never"), (2, "gpipe", "always"), (3, "zb-h1", "never")],
    4: [
        (2, "1f1b", "except_last"), (3, "gpipe", "never"), (3, "eager-1f1b", "never"), (4, "1f1b", "always"),
        (3, "1f1b", "always"),
        (4, "zb-h1", "never"), (2, "zb-h2", "always"), *((*looped, "never") for looped in LOOPED),
        (4, "zb-v", "always"), (6, "interleaved", "except_last"), (3, "auto", "never"), (2, "auto", "except_last"),
    ],
    8: [
        (4, "gpipe", "except_last"), (2, "1f1b", "never"), (3, "1f1b", "except_last"), (1, "1f1b", "always"),
        (2, "zb-h1", "except_last"), (3, "zb-h2", "never"),
        (3, "auto", "always"),
    ],
}


def write_data(context, model, batch):
    if model == "lenet":
        return MODELS / "digits" / "digits-train.npz"
    arrays = np.load(context.data(model))
    # As many samples as 2 steps need, all different.
    generator = np.random.default_rng(7)
    inputs = {}
    for name, array in arrays.items():
        shape = (2 * batch, *array.shape[1:])
        if array.dtype == np.int64:
            inputs[name] = generator.integers(0, array.max() + 1, shape)
        elif array.dtype == np.float32:
            inputs[name] = generator.standard_normal(shape, np.float32)
    path = context.path(".npz")
    np.savez(path, **inputs)
    return path


def run_case(context, model, batch, optimizer, data, microbatches, stages, schedule, checkpoint, threads=1, together=1):
    binary = context.training(
        model, optimizer=optimizer, stages=stages, batch=batch, microbatches=microbatches,
        schedule=schedule, checkpoint=checkpoint, threads_per_stage=threads, weights_together=together,
        **({"ranks": 2} if (stages, schedule) in LOOPED else {}),
    )
    ranks = binary.plan()["ranks"]
    expected = 2 if (stages, schedule) in LOOPED else stages
    if len(ranks) != expected:
        raise common.Failure(f"{model}: the plan has {len(ranks)} ranks, expected {expected}")
    snapshot = context.path(".safetensors")
    lines = binary.train(data, "--steps", STEPS, "--epochs", STEPS, "--log-bits", "--save", snapshot)
    losses = [line["loss_bits"] for line in lines if "loss_bits" in line]
    return losses, common.tensor_bytes(snapshot), binary


def differences(base, other):
    names = [n for n in sorted(set(base) | set(other)) if base.get(n) != other.get(n)]
    return f"{len(names)} of {len(base)} tensors, {', '.join(names[:4])}"


def check_resume(context, checks, model, batch, data, binary, expected):
    half, whole = context.path(".safetensors"), context.path(".safetensors")
    binary.train(data, "--steps", STEPS - 1, "--epochs", STEPS, "--save", half)
    binary.train(data, "--resume", half, "--steps", STEPS, "--epochs", STEPS, "--save", whole)
    found = common.tensor_bytes(whole)
    checks.check(found == expected, f"{model}: resume differs in {differences(expected, found)}")


def check_mock(context, checks, where, data, binary, expected):
    snapshot = context.path(".safetensors")
    binary.train(data, "--steps", STEPS, "--epochs", STEPS, "--device", "mock", "--save", snapshot)
    found = common.tensor_bytes(snapshot)
    checks.check(found == expected, f"{where}: on the mock device: differs in {differences(expected, found)}")


def check_short_sums(context, checks, model):
    """Products of bf16 of several micro-batches in one pass over a gradient, where the processor has such kernels."""
    batch, optimizer = MODELS_USED[model]
    data, options = write_data(context, model, batch), {"optimizer": optimizer, "batch": batch, "microbatches": 8, "precision": "bf16"}
    found = {}
    for name, flags in {
        "one after the other": {"stages": 1},
        "8 at once": {"stages": 1, "weights_together": 8},
        "3 at once, 2 threads": {"stages": 1, "weights_together": 3, "threads_per_stage": 2},
        "2 at once, 2 stages": {"stages": 2, "weights_together": 2},
    }.items():
        snapshot = context.path(".safetensors")
        context.training(model, **options, **flags).train(data, "--steps", STEPS, "--epochs", STEPS, "--save", snapshot)
        found[name] = common.tensor_bytes(snapshot)
    base = found["one after the other"]
    for name, tensors in found.items():
        checks.check(tensors == base, f"{model} in bf16, {name}: differs in {differences(base, tensors)}")


def test(context, checks, arguments):
    cases = []
    for model, (batch, optimizer) in MODELS_USED.items():
        if arguments.only and model not in arguments.only:
            continue
        if arguments.quick and model not in QUICK_MODELS:
            continue
        data = write_data(context, model, batch)
        is_short = arguments.quick or not (arguments.full or model in QUICK_MODELS)
        for microbatches in (4,) if is_short else MICROBATCHES:
            others = [*THREADED, *(TOGETHER if microbatches > 1 else ())]
            configurations = [BASE, *SUBSET[microbatches], *others]
            if arguments.full:
                configurations = [*itertools.product(STAGES, SCHEDULES, CHECKPOINTS), *others]
                for looped in LOOPED if microbatches >= 4 else ():
                    configurations += [(*looped, checkpoint) for checkpoint in CHECKPOINTS]
            for configuration in configurations:
                cases.append((model, batch, optimizer, data, microbatches, *configuration))

    def guarded(case):
        try:
            return run_case(context, *case)
        except common.Failure as failure:
            checks.check(False, str(failure))

    results = dict(zip(cases, context.map(guarded, cases)))
    for case, result in results.items():
        model, batch, optimizer, data, microbatches, *configuration = case
        base = results[(*case[:5], *BASE)]
        where = f"{model} M={microbatches} {' '.join(map(str, configuration))}"
        if not base or not result:
            continue
        if tuple(configuration) == BASE:
            finite = all(np.isfinite(np.frombuffer(data, np.float32)).all() for _, data in result[1].values())
            checks.check(finite, f"{where}: the weights are not finite")
            continue
        checks.check(len(result[0]) == STEPS and result[0] == base[0], f"{where}: losses differ")
        checks.check(result[1] == base[1], f"{where}: differs in {differences(base[1], result[1])}")
        if microbatches == 4 and not arguments.full:
            check_mock(context, checks, where, data, result[2], base[1])
        if microbatches == 4 and configuration[0] == 4:
            check_resume(context, checks, model, batch, data, result[2], base[1])
    for model in () if arguments.quick or arguments.only else ("resnet18", "gpt"):
        check_short_sums(context, checks, model)
    print(f"{len(cases)} configurations")


def add_options(parser):
    parser.add_argument("--full", action="store_true", help="every combination")
    parser.add_argument("--only", action="append", help="only this model; may be repeated")


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0], add_options)

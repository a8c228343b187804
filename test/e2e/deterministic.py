#!/usr/bin/env python3
"""The same input gives the same bytes, whole or phase by phase.

Compiles twice, then with one thread, and compares binaries, plans and the IR
after each phase; then stops after each phase, goes on from the printed IR and
compares the plan and the weights after 2 steps.
"""

import common
from common import model_file

PHASES = ["import", "graph", "differentiate", "kernels", "cost", "partition", "schedule", "lower"]
CASES = [
    ("resnet18", "torchscript", {"batch": 8, "microbatches": 2, "stages": 3, "checkpoint": "except_last"}),
    ("gpt_tied", "dynamo", {"batch": 8, "microbatches": 4, "stages": 2, "schedule": "gpipe"}),
    ("unet", "torchscript", {"batch": 8, "microbatches": 2, "stages": 4}),
]


def train(context, binary, data):
    snapshot = context.path(".safetensors")
    binary.train(data, "--no-shuffle", "--steps", 2, "--save", snapshot)
    return common.tensor_bytes(snapshot)


def check_case(context, checks, model, exporter, options):
    where = f"{model}.{exporter}"
    options = {**options, "loss": common.LOSS.get(model, "cross_entropy"), **common.OPTIMIZERS["sgd"]}
    arguments = context.arguments(options)
    source, data = model_file(model, exporter), context.data(model)

    def compile(source, path, *more):
        common.run([context.compiler, source, "-o", path, *arguments, *more])
        return path

    # Other names and folders, so that neither gets into the result.
    (context.scratch / where).mkdir()
    first = compile(source, context.path())
    second = compile(source, context.scratch / where / "b")
    checks.check(first.read_bytes() == second.read_bytes(), f"{where}: two compilations give different binaries")
    alone = compile(source, context.path(), "--mlir-disable-threading")
    checks.check(first.read_bytes() == alone.read_bytes(), f"{where}: one thread gives another binary than several")
    first = common.Binary(first)
    expected = train(context, first, data)

    for phase in PHASES:
        ir = compile(source, context.path(".mlir"), f"--compile-to={phase}")
        again = compile(source, context.path(".mlir"), f"--compile-to={phase}")
        checks.check(ir.read_bytes() == again.read_bytes(), f"{where}: IR after {phase} differs")
        try:
            rest = common.Binary(compile(ir, context.path(), f"--compile-from={phase}"))
            for mode in ("train", "infer"):
                checks.check(rest.plan(mode) == first.plan(mode), f"{where}: plan ({mode}) from {phase} differs")
            checks.check(train(context, rest, data) == expected, f"{where}: weights from {phase} differ")
        except common.Failure as failure:
            checks.check(False, f"{where} from {phase}: {failure}")


def test(context, checks, arguments):
    def guarded(case):
        try:
            check_case(context, checks, *case)
        except common.Failure as failure:
            checks.check(False, str(failure))

    context.map(guarded, CASES[-1:] if arguments.quick else CASES)


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

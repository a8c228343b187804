#!/usr/bin/env python3
"""A plan of pp-plan runs as planned, with the bits of one stage.

Plans models freely and with restrictions, compiles and trains them, and compares
every tensor with a run in one stage with as many micro-batches. Prints predicted
against planned memory.
"""

import json

import common
from common import MODELS, model_file

STEPS = 2
CASES = [
    ("lenet", 32, []),
    ("unet", 8, ["--cores=3", "--min-ranks=3"]),
    ("unet", 8, ["--schedules=auto", "--min-ranks=2", "--microbatches=4"]),
    ("resnet18", 8, ["--min-ranks=2", "--microbatches=4"]),
    ("resnet18", 8, ["--cores=4", "--min-ranks=4", "--microbatches=2", "--schedules=1f1b"]),
    ("gpt", 8, ["--schedules=auto,v-half,v-min,eager-1f1b", "--checkpoints=always", "--min-ranks=2"]),
    ("gpt_tied", 8, ["--min-ranks=2"]),
    # Two devices of so many bytes.
    ("gpt", 8, 2500000),
]
QUICK_CASES = [CASES[0], CASES[6]]


def small_cluster(context, memory):
    path = context.path(".json")
    devices = {"name": "core", "memory_bytes": memory, "count": 2}
    path.write_text(json.dumps({"version": 2, "root": {"link": {"bandwidth": 8e9, "latency": 2e-6}, "members": [devices]}}))
    return path


def check_case(context, checks, model, batch, options):
    memory = None
    if isinstance(options, int):
        memory, options = options, [f"--cluster={small_cluster(context, options)}"]
    where = f"{model} {' '.join(options) if memory is None else f'{memory} bytes'}"
    path, data = model_file(model), context.data(model, batch)
    loss = f"--loss={common.LOSS.get(model, 'cross_entropy')}"
    optimizer = context.arguments(common.OPTIMIZERS["sgd"])
    plan_file = context.path(".json")
    common.run([context.build / "bin" / "pp-plan", path, loss, f"--batch={batch}", *optimizer, *options, "-o", plan_file])
    plan = json.loads(plan_file.read_text())

    binary = context.path()
    common.run([context.compiler, path, loss, *optimizer, f"--plan={plan_file}", "-o", binary])
    binary = common.Binary(binary)
    compiled = binary.plan()
    checks.equal(compiled["microbatches"], plan["microbatches"], f"{where}: micro-batches")
    checks.equal(len(compiled["ranks"]), len(plan["schedule"]["ranks"]), f"{where}: ranks")
    checks.equal(len(compiled["stages"]), len(plan["stages"]), f"{where}: stages")

    snapshots = []
    one = context.training(model, stages=1, batch=batch, microbatches=plan["microbatches"], schedule="gpipe")
    for program in (binary, one):
        snapshots.append(context.path(".safetensors"))
        program.train(data, "--no-shuffle", "--steps", STEPS, "--epochs", STEPS, "--save", snapshots[-1])
    checks.check(common.tensor_bytes(snapshots[0]) == common.tensor_bytes(snapshots[1]), f"{where}: weights differ")

    peaks = [0] * len(compiled["ranks"])
    for rank, entry in enumerate(compiled["ranks"]):
        peaks[rank] = sum(compiled["stages"][s]["memory_bytes"] for s in entry["stages"])
    checks.check(memory is None or max(peaks) <= memory, f"{where}: {peaks} bytes")
    ratios = [p / m for p, m in zip(plan["predicted"]["peak_bytes"], peaks)]
    # pp-plan asks the compiler about the plan that it chose.
    checks.equal(plan["predicted"]["peak_bytes"], peaks, f"{where}: memory")
    errors = [f"{r:.3f}" for r in ratios]
    return f"{where:<80} {plan['schedule']['name']:<40} memory predicted / compiled: {', '.join(errors)}"


def test(context, checks, arguments):
    def guarded(case):
        try:
            return check_case(context, checks, *case)
        except common.Failure as failure:
            checks.check(False, str(failure))

    for line in context.map(guarded, QUICK_CASES if arguments.quick else CASES):
        print(" ", line)


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

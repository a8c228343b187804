#!/usr/bin/env python3
"""The planned memory is what a run allocates, and follows the theory.

The runtime's measured allocation equals the plan's memory_bytes and covers its
areas; residual slots are min(M, S - s) for 1F1B and M for GPipe; recomputation
lowers the memory.
"""

import itertools
import json

import common

STAGES = 4
MICROBATCHES = 8
BATCH = {"mlp": 32, "lenet": 32, "resnet18": 16, "unet": 8, "gpt": 8, "gpt_tied": 8}
QUICK_MODELS = ["lenet"]


def align(value):
    return (value + 63) // 64 * 64


def check_stage(checks, where, stage):
    end = 0
    for name, area in sorted(stage["areas"].items(), key=lambda item: (item[1]["offset"], item[1]["bytes"])):
        checks.check(area["offset"] >= end, f"{where}: area {name} overlaps the one before")
        checks.check(area["offset"] % 64 == 0, f"{where}: area {name} is not aligned")
        end = area["offset"] + area["bytes"]
    checks.equal(stage["memory_bytes"], sum(align(a["bytes"]) for a in stage["areas"].values()), f"{where}: sum of areas")
    residuals = stage["areas"]["residuals"]
    checks.equal(residuals["bytes"], residuals["slots"] * residuals["slot_bytes"], f"{where}: residual bytes")


def check_case(context, checks, model, data, schedule, checkpoint):
    where = f"{model} {schedule} {checkpoint}"
    binary = context.training(
        model, stages=STAGES, batch=BATCH[model], microbatches=MICROBATCHES, schedule=schedule, checkpoint=checkpoint
    )
    plan = binary.plan()
    report = context.path(".json")
    binary.train(data, "--no-shuffle", "--steps", 1, "--report", report)
    report = json.loads(report.read_text())
    for s, (stage, measured) in enumerate(zip(plan["stages"], report["stages"])):
        check_stage(checks, f"{where} stage {s}", stage)
        checks.equal(measured["memory_bytes"], stage["memory_bytes"], f"{where} stage {s}: measured memory")
        slots = stage["areas"]["residuals"]["slots"]
        # With recomputation, a slot lives from R to B: one is enough, but what
        # the last micro-batch of except_last keeps from its forward pass.
        if checkpoint == "never":
            expected = MICROBATCHES if schedule == "gpipe" else min(MICROBATCHES, STAGES - s)
            checks.equal(slots, expected, f"{where} stage {s}: residual slots")
        else:
            checks.check(slots <= 2, f"{where} stage {s}: {slots} residual slots with recomputation")
    for stage in binary.plan("infer")["stages"]:
        check_stage(checks, f"{where} inference {stage['name']}", stage)
        checks.equal(stage["areas"]["gradients"]["bytes"], 0, f"{where} inference: gradients")
    return [stage["memory_bytes"] for stage in plan["stages"]]


def check_together(context, checks, model, data):
    """W that wait for each other keep what they read in further slots."""
    binary = context.training(model, stages=STAGES, batch=BATCH[model], microbatches=MICROBATCHES, weights_together=2)
    plan, report = binary.plan(), context.path(".json")
    binary.train(data, "--no-shuffle", "--steps", 1, "--report", report)
    for s, (stage, measured) in enumerate(zip(plan["stages"], json.loads(report.read_text())["stages"])):
        where = f"{model} with W together, stage {s}"
        check_stage(checks, where, stage)
        checks.equal(measured["memory_bytes"], stage["memory_bytes"], f"{where}: measured memory")
        checks.equal(stage["areas"]["residuals"]["slots"], min(MICROBATCHES, STAGES - s + 1), f"{where}: residual slots")
        checks.equal(stage["weights_together"], 2, f"{where}: W at once")


def test(context, checks, arguments):
    models = QUICK_MODELS if arguments.quick else list(BATCH)
    data = {model: context.data(model, BATCH[model]) for model in models}
    cases = list(itertools.product(models, ("gpipe", "1f1b"), ("never", "except_last", "always")))

    def guarded(case):
        try:
            return check_case(context, checks, case[0], data[case[0]], *case[1:])
        except common.Failure as failure:
            checks.check(False, str(failure))

    memory = dict(zip(cases, context.map(guarded, cases)))
    check_together(context, checks, models[0], data[models[0]])
    print(f"bytes per stage, S={STAGES} M={MICROBATCHES}")
    for case, stages in memory.items():
        if not stages:
            continue
        print(f"  {' '.join(case):<32} {' '.join(f'{b:>10}' for b in stages)}  sum {sum(stages):>10}")
        model, schedule, checkpoint = case
        never, always = memory[(model, schedule, "never")], memory[(model, schedule, "always")]
        # Stages of mlp hold one layer: there is nothing to recompute.
        if checkpoint == "always" and never and schedule == "gpipe" and model != "mlp":
            checks.check(max(always) < max(never), f"{model} {schedule}: recomputation does not lower the peak")
            checks.check(sum(always) < sum(never), f"{model} {schedule}: recomputation does not lower the memory")
        if schedule == "1f1b" and memory[(model, "gpipe", checkpoint)]:
            checks.check(
                sum(stages) <= sum(memory[(model, "gpipe", checkpoint)]),
                f"{model} {checkpoint}: 1f1b takes more memory than gpipe",
            )


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

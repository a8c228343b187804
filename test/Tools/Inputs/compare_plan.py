#!/usr/bin/env python3
"""Checks that compiled IR holds what a plan says.

    compare_plan.py PLAN.json IR.mlir                   the actions of the schedule
    compare_plan.py --hints PLAN.json MODEL.onnx TOOL   the stages that the annotations give
"""

import json
import re
import subprocess
import sys


def fail(text):
    print(text)
    sys.exit(1)


def check_schedule(plan, ir):
    text = open(ir).read()
    found = re.search(r"module @training.*?pp\.schedule .*?ranks\(\[(.*?)\]\)", text, re.S)
    if not found:
        fail("no schedule in the IR")
    ranks = [rank.split(", ") for rank in re.findall(r"^\s*\[(.*?)\]?,?$", found.group(1), re.M)]
    # What a stage prepares comes first on its rank, and is not the plan's business.
    computations = [",".join(a for a in rank if "SEND" not in a and "RECV" not in a and not a.endswith("P"))
                    for rank in ranks]
    if computations != plan["schedule"]["ranks"]:
        fail(f"{computations} is not {plan['schedule']['ranks']}")
    print(f"{len(ranks)} ranks as planned")


def check_hints(plan, model, tool):
    report = subprocess.run(
        [tool, model, "--loss=mse", f"--batch={plan['batch']}", f"--microbatches={plan['microbatches']}", "--dry-run"],
        check=True, capture_output=True, text=True).stdout
    training = report.split("== infer")[0]
    first = re.findall(r"^stage (\d+): (\S+) \.\.\. (\S+)$", training, re.M)
    if len(first) != len(plan["stages"]):
        fail(f"{len(first)} stages, planned {len(plan['stages'])}")
    for number, begin, _ in first:
        kernels = [name for name, stage in plan["kernels"] if stage == int(number)]
        if kernels[0] != begin:
            fail(f"stage {number} begins with {begin}, planned {kernels[0]}")
    print(f"{len(first)} stages as planned")


if sys.argv[1] == "--hints":
    check_hints(json.load(open(sys.argv[2])), *sys.argv[3:])
else:
    check_schedule(json.load(open(sys.argv[1])), sys.argv[2])

"""Breaks a plan: IN OUT WHAT, where WHAT is `cut` (kernels change sides) or
`order` (a rank waits for what waits for it)."""

import json
import sys

source, target, what = sys.argv[1:]
plan = json.load(open(source, encoding="utf-8"))
if what == "cut":
    for kernel in plan["kernels"]:
        kernel[1] = 1 - kernel[1]
else:
    actions = plan["schedule"]["ranks"][1].split(",")
    first, second = actions.index("1F0"), actions.index("1F1")
    backward = actions.index("1B0")
    actions[first], actions[second] = actions[second], actions[first]
    actions.insert(actions.index("1F1"), actions.pop(actions.index("1B1")))
    first_rank = plan["schedule"]["ranks"][0].split(",")
    first_rank.remove("0B0")
    first_rank.insert(first_rank.index("0F1"), "0B0")
    plan["schedule"]["ranks"] = [",".join(first_rank), ",".join(actions)]
json.dump(plan, open(target, "w", encoding="utf-8"))

#!/usr/bin/env python3
"""Gives the stages of a plan of one replica unequal numbers of replicas, in GPipe's order.

    spread_plan.py PLAN OUT COUNT...
"""

import json
import sys

plan = json.load(open(sys.argv[1]))
counts = [int(count) for count in sys.argv[3:]]
ranks, device = [], 0
for stage, count in zip(plan["stages"], counts, strict=True):
    stage["rank"] = device
    stage["devices"] = [f"core{device + copy}" for copy in range(count)]
    for copy in range(count):
        own = range(copy, plan["microbatches"], count)
        ranks.append(",".join([f"{device + copy}F{k}" for k in own] + [f"{device + copy}B{k}" for k in own] + [f"{device + copy}U"]))
    device += count
plan["replicas"], plan["stage_replicas"] = 1, counts
plan["schedule"] = {"name": "gpipe", "ranks": ranks}
del plan["predicted"]
json.dump(plan, open(sys.argv[2], "w"))

#!/usr/bin/env python3
"""Scales the times of a cost file, or compares the times in two IR files.

    scale_costs.py COSTS.json SCALED.json FACTOR
    scale_costs.py --alone COSTS.json SCALED.json FACTOR    those with idle cores only
    scale_costs.py --compare IR.mlir SCALED.mlir FACTOR
"""

import json
import re
import sys

factor = float(sys.argv[-1])
if sys.argv[1] != "--compare":
    source, target = sys.argv[-3:-1]
    costs = json.load(open(source))
    end = " alone" if sys.argv[1] == "--alone" else ""
    costs["kernels"] = {
        key: factor * seconds if key.endswith(end) else seconds for key, seconds in costs["kernels"].items()
    }
    json.dump(costs, open(target, "w"))
    sys.exit()


def times(path):
    """Seconds of every kernel of the training program, in order."""
    text = open(path).read().split("module @inference")[0]
    return [float(s) for s in re.findall(r"#pp\.cost<[^>]*?([0-9.]+(?:e[+-]?[0-9]+)?) : f64>", text, re.I)]


once, scaled = times(sys.argv[2]), times(sys.argv[3])
if not once or len(once) != len(scaled):
    sys.exit(f"{len(once)} and {len(scaled)} kernels")
for number, (a, b) in enumerate(zip(once, scaled)):
    if abs(b - factor * a) > 1e-4 * factor * a + 1e-12:
        sys.exit(f"kernel {number}: {a} and {b}")
print(f"{len(once)} kernels")

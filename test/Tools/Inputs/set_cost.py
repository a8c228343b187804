"""Writes a cost file with another value of a field.

    set_cost.py IN OUT FIELD VALUE
"""

import json
import sys

source, target, field, value = sys.argv[1:]
with open(source) as file:
    costs = json.load(file)
costs[field] = float(value)
with open(target, "w") as file:
    json.dump(costs, file)

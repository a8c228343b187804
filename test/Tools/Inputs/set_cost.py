"""Writes a cost file or a plan with another number in a field.

    set_cost.py IN OUT FIELD VALUE
"""

import json
import sys

source, target, field, value = sys.argv[1:]
with open(source) as file:
    costs = json.load(file)
costs[field] = json.loads(value)
with open(target, "w") as file:
    json.dump(costs, file)

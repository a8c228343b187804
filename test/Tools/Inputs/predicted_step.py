"""Checks that a plan's predicted step takes as long as its kernels.

    predicted_step.py PLAN.json COSTS.mlir MICROBATCHES
"""

import json
import pathlib
import re
import sys

predicted = json.loads(pathlib.Path(sys.argv[1]).read_text())["predicted"]["period_seconds"]
text = pathlib.Path(sys.argv[2]).read_text()
training = text[text.index("@training"):text.index("@inference")]
seconds = sum(float(value) for value in re.findall(r"#pp\.cost<[^>]*seconds = ([0-9.eE+-]+)", training))
expected = seconds * int(sys.argv[3])
if not expected > 0 or abs(predicted / expected - 1) > 1e-3:
    sys.exit(f"predicted {predicted} s, the kernels take {expected} s")

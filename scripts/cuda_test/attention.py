"""Checks of attention in bf16, as one kernel and as products: against PyTorch's own
kernel, and that the one kernel gives the same bits every time.
"""

import compare
from cases import FUSIONS
from harness import check_same_bits

TITLES = dict(zip(FUSIONS, ("one kernel", "products")))


def models_of(harness):
    return list(dict.fromkeys(case["model"] for case in harness.cases("attention")))


def check_model(harness, model):
    compare.make_weights(harness, model)
    for case in harness.cases("attention"):
        if case["model"] != model:
            continue
        fusion = case["fuse_attention"]
        title = f"{model}, {TITLES[fusion]}"
        # In another precision it would be another kernel.
        problem = case["error"] or case["refused"]
        if problem:
            harness.report("FAIL", f"{title}: {case['name']}", f"does not compile: {problem}")
            continue
        data = compare.make_data(harness, case)
        done = harness.attempt(f"{title}: training", compare.train, harness, case, data)
        if not done:
            continue
        harness.attempt(f"{title}: PyTorch here", compare.against_pytorch, harness, title, case, done, data)
        for what, arguments in (("a second run", ()), ("a run without graphs", ("--no-graphs",))):
            again = harness.attempt(f"{title}: {what}", compare.train, harness, case, data, *arguments)
            check_same_bits(harness, f"{title}: bits of {what}", done, again)

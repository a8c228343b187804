#!/usr/bin/env python3
"""A value that skips stages goes from its producer to its consumer, once.

U-Net in 4 stages: the traffic and the trace of a run show that each portal moves
each micro-batch once, between the two stages that it names, and that no stage in
between sends or receives it.
"""

import collections
import json

import common

STEPS = 2


def check_plan(checks, plan, where):
    channels = plan["channels"]
    portals = [c for c in channels if c["kind"] == "portal"]
    backwards = [c for c in channels if c["kind"] == "gradient_portal"]
    checks.check(portals, f"{where}: no portals")
    for c in channels:
        distance = c["to"] - c["from"]
        expected = {"next": 1, "gradient": -1}.get(c["kind"])
        good = distance == expected if expected else abs(distance) > 1
        checks.check(good, f"{where}: {c['kind']} {c['name']} goes from {c['from']} to {c['to']}")
        elements = 1
        for dim in c["shape"]:
            elements *= dim
        checks.equal(c["bytes"], 4 * elements, f"{where}: bytes of {c['name']}")
    # A value has one producer, and one channel to each consumer: whoever receives
    # a value does not hand it on.
    sent = collections.defaultdict(set)
    for c in channels:
        key = (c["name"], c["from_phase"], c["to"])
        checks.check(key not in sent or c["from"] not in sent[key], f"{where}: {key} has two channels")
        sent[(c["name"], c["from_phase"])].add(c["from"])
    for (name, _), senders in sent.items():
        # A gradient is the sum of what its consumers sent back: each sends its own.
        if not name.startswith("F"):
            continue
        checks.check(len(senders) == 1, f"{where}: {name} is sent by stages {sorted(senders)}")
    # What goes forward over a portal has a gradient that comes back over one.
    forth = collections.Counter((c["from"], c["to"]) for c in portals)
    back = collections.Counter((c["to"], c["from"]) for c in backwards)
    checks.equal(back, forth, f"{where}: gradients of portals")


def check_run(context, checks, binary, plan, where, data):
    report, trace = context.path(".json"), context.path(".json")
    binary.train(data, "--no-shuffle", "--steps", STEPS, "--report", report, "--trace", trace)
    report = json.loads(report.read_text())
    events = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X"]
    messages = STEPS * plan["microbatches"]
    checks.equal(len(report["channels"]), len(plan["channels"]), f"{where}: channels in the report")
    for planned, measured in zip(plan["channels"], report["channels"]):
        name = f"{where}: {planned['kind']} {planned['name']}"
        for key in ("name", "kind", "from", "to"):
            checks.equal(measured[key], planned[key], f"{name}: {key}")
        checks.equal(measured["messages"], messages, f"{name}: messages")
        checks.equal(measured["sent_bytes"], messages * planned["bytes"], f"{name}: sent bytes")
        checks.equal(measured["received_bytes"], messages * planned["bytes"], f"{name}: received bytes")
    total = sum(c["bytes"] for c in plan["channels"]) * messages
    checks.equal(sum(c["sent_bytes"] for c in report["channels"]), total, f"{where}: bytes sent in all")
    checks.equal(sum(c["received_bytes"] for c in report["channels"]), total, f"{where}: bytes received in all")

    # Tracks of the trace: three per stage, its computations, sends and receives.
    seen = collections.Counter(
        (e["args"]["channel"], e["cat"], e["tid"] // 3) for e in events if e["cat"] in ("send", "receive")
    )
    expected = collections.Counter()
    for c in plan["channels"]:
        expected[(c["name"], "send", c["from"])] += messages
        expected[(c["name"], "receive", c["to"])] += messages
    checks.equal(seen, expected, f"{where}: transfers in the trace")
    for c in plan["channels"]:
        if c["kind"] not in ("portal", "gradient_portal"):
            continue
        low, high = sorted((c["from"], c["to"]))
        between = [s for (name, _, s) in seen if name == c["name"] and low < s < high and not any(
            other["name"] == name and s in (other["from"], other["to"]) for other in plan["channels"])]
        checks.check(not between, f"{where}: {c['name']} passes through stages {between}")


def test(context, checks, arguments):
    data = context.data("unet")
    for schedule, checkpoint in (("1f1b", "never"), ("gpipe", "never"), ("1f1b", "always")):
        where = f"{schedule} {checkpoint}"
        binary = context.training(
            "unet", stages=4, batch=8, microbatches=4, schedule=schedule, checkpoint=checkpoint
        )
        plan = binary.plan()
        checks.equal(len(plan["stages"]), 4, f"{where}: stages")
        check_plan(checks, plan, where)
        check_run(context, checks, binary, plan, where, data)
    for c in plan["channels"]:
        print(f"  {c['kind']:<16} {c['from']} -> {c['to']}  {c['bytes']:>6} bytes  {c['name']}")


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

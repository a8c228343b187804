#!/usr/bin/env python3
"""A tied parameter crosses the pipe once per step each way.

Each stage with a reader has the parameter; their parts of the gradient are added
once per step. The weights have the same bits for any cut, schedule, recomputation
and number of threads and processes, and what is sent for the tied parameter does
not grow with the number of micro-batches.
"""

import json
import pathlib

import common

STEPS = 4
TIED_BYTES = 96 * 64 * 4  # tokens.weight

# Stages, and options: schedules that keep both readers on one rank too.
CUTS = (
    (1, {}),
    (2, {"schedule": "1f1b"}),
    (2, {"schedule": "gpipe", "checkpoint": "always"}),
    (3, {"schedule": "zb-h1"}),
    (4, {"schedule": "zb-v", "checkpoint": "except_last"}),
    (4, {"schedule": "interleaved", "ranks": 2}),
    (2, {"threads_per_stage": 2}),
)


def train(binary, context, data, *arguments):
    snapshot, report = context.path(".safetensors"), context.path(".json")
    binary.train(data, "--steps", STEPS, "--epochs", STEPS, "--save", snapshot, "--report", report, *arguments)
    return common.tensor_bytes(snapshot), json.loads(pathlib.Path(report).read_text())


def check_traffic(context, checks, data):
    for microbatches in (1, 2, 8):
        binary = context.training("gpt_tied", batch=8, stages=2, microbatches=microbatches)
        _, report = train(binary, context, data)
        sent = [channel["sent_bytes"] for channel in report["channels"] if "tokens.weight" in channel["name"]]
        checks.check(sent == [STEPS * TIED_BYTES] * 2, f"{microbatches} micro-batches: sent {sent} bytes of the tied parameter")


def test(context, checks, arguments):
    data = context.data("gpt_tied", samples=16)
    for more in ({}, {"gradient_lanes": 2}):
        expected = None
        for stages, options in CUTS[:4] if arguments.quick else CUTS:
            where = f"{stages} stages, {options | more}"
            binary = context.training("gpt_tied", optimizer="adamw", batch=8, stages=stages, microbatches=4, **options, **more)
            found, _ = train(binary, context, data)
            expected = expected or found
            checks.check(found == expected, f"{where}: other bits than those of one stage")
            if options.get("schedule") == "1f1b":
                for transport in ("peer", "host-staged"):
                    found, _ = train(binary, context, data, "--processes", 2, "--transport", transport)
                    checks.check(found == expected, f"{where}, 2 processes over {transport}: other bits")
        for stages in (1, 3) if more else ():
            binary = context.training("gpt_tied", optimizer="adamw", batch=8, stages=stages, microbatches=4, replicas=2, **more)
            for device in ("cpu", "mock"):
                found, _ = train(binary, context, data, "--device", device)
                checks.check(found == expected, f"2 replicas of {stages} stages, {device}: other bits")
    check_traffic(context, checks, data)


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

#!/usr/bin/env python3
"""One run, one hash: with --gradient-lanes=4 the weights are the same, bit for
bit, for 1, 2 and 4 replicas too, on any number of stages, under any schedule,
recomputed or not, on threads and processes, through any transport, and after a
stop and a resume at another layout. `verify` says so, and names where other
weights differ. The last batch of the data is not whole.

    one_hash.py BUILD [--long]

At least 40 runs; with --long, which runs every pair of a layout and a schedule
recomputed in every way, at least 300.
"""

import itertools
import subprocess

import common

BATCH, MICROBATCHES, LANES, STEPS = 16, 8, 4, 9
SCHEDULES = ["1f1b", "gpipe", "zb-h1"]

# Model: optimizer. ResNet's batch norms add statistics over micro-batches, too.
MODELS = {"mlp": "adamw", "lenet": "sgd", "resnet18": "sgd"}


MODES = ["never", "always", "except_last"]


def layouts(model, quick, long):
    """Of --long all for the smallest model, and all pairs of two options for the others."""
    if quick or (model != "mlp" and not long):
        return [
            {"stages": 1, "replicas": 1}, {"stages": 2, "replicas": 2, "schedule": "zb-h1"},
            {"stages": 1, "replicas": 4, "checkpoint": "always"},
        ]
    stages = [1, 2] if model == "resnet18" else [1, 2, 4]
    result = []
    for s, r, schedule in itertools.product(stages, [1, 2, 4], SCHEDULES):
        modes = MODES if model == "mlp" and long else [MODES[(s + r + SCHEDULES.index(schedule)) % 3]]
        result += [{"stages": s, "replicas": r, "schedule": schedule, "checkpoint": mode} for mode in modes]
    return result


def train(context, binary, data, *flags, steps=STEPS):
    path = context.path(".safetensors")
    binary.train(data, "--steps", steps, "--epochs", steps, "--save", path, *flags)
    return path


def verify(binary, first, second):
    done = subprocess.run([binary.path, "verify", first, second], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def run_model(context, checks, model, quick, long):
    """How many runs were compared."""
    samples = 2 * BATCH if model == "resnet18" else 2 * BATCH + 5
    data = context.data(model, samples=samples)
    options = {"batch": BATCH, "microbatches": MICROBATCHES}
    expected, count, binaries = None, 0, []
    for layout in layouts(model, quick, long):
        binary = context.training(model, optimizer=MODELS[model], **options, **layout, gradient_lanes=LANES)
        where = f"{model} {layout}"
        ranks = layout["stages"] * layout["replicas"]
        flags = [()]
        if ranks > 1:
            flags += [("--processes", 2)]
        if ranks > 1 and layout.get("schedule") == "1f1b":
            flags += [("--processes", 2, "--transport", "host-staged"), ("--device", "mock")]
        for flag in flags:
            path = train(context, binary, data, *flag)
            expected = expected or path
            code, text = verify(binary, expected, path)
            checks.check(code == 0 and "equal, bit for bit" in text, f"{where} {flag}: {text}")
            count += 1
        binaries.append((where, binary))
    # From each layout to the next.
    for (where, binary), (_, other) in list(zip(binaries, binaries[1:]))[:: 4 if len(binaries) > 3 else 1]:
        snapshot = train(context, binary, data, steps=4)
        path = train(context, other, data, "--resume", snapshot)
        code, text = verify(binary, expected, path)
        checks.check(code == 0, f"{where}, resumed at another layout: {text}")
        count += 1
    # The sums are others than without lanes, and verify can tell.
    plain = context.training(model, optimizer=MODELS[model], **options, stages=1)
    code, text = verify(plain, expected, train(context, plain, data))
    checks.check(code == 1 and "the first one is '" in text and "elements differ" in text, f"{model}: {text}")
    print(f"{model}: {count} runs, {verify(plain, expected, expected)[1].strip()}", flush=True)
    return count


def test(context, checks, arguments):
    models = ["lenet"] if arguments.quick else MODELS
    count = sum(run_model(context, checks, model, arguments.quick, arguments.long) for model in models)
    wanted = 0 if arguments.quick else 300 if arguments.long else 40
    checks.check(count >= wanted, f"only {count} runs, expected {wanted}")
    print(f"{count} runs with one hash for each model", flush=True)


def add_options(parser):
    parser.add_argument("--long", action="store_true", help="at least 300 runs instead of 40")


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0], add_options)

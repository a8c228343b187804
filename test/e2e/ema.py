#!/usr/bin/env python3
"""Averages of parameters (--ema-decay): their values by the formula, the same bits for any cut, and what takes them (--ema)."""

import subprocess

import common
import numpy as np

DECAY = np.float32(0.9)
STEPS = 6


def check_close(checks, what, value, expected, tolerance):
    error = common.relative_error(value, expected)
    checks.check(error <= tolerance, f"{what}: {error:.1e}, at most {tolerance:.1e}")


def averages(tensors):
    return {name.removesuffix("#ema"): value for name, value in tensors.items() if name and name.endswith("#ema")}


def train(context, binary, data, *arguments):
    snapshot = context.path(".safetensors")
    binary.train(data, "--no-shuffle", "--weights", common.MODELS / "lenet", "--save", snapshot, *arguments)
    return snapshot


def expected_averages(context, binary, data, *arguments):
    """From the parameters after each step."""
    weights = context.path(".safetensors")
    binary.train(data, "--no-shuffle", "--weights", common.MODELS / "lenet", "--steps", 1, "--lr", 0, "--set", "weight_decay=0", "--save", weights)
    start = common.read_safetensors(weights)
    result = {name: value.copy() for name, value in start.items() if name and f"{name}#ema" in start}
    for steps in range(1, STEPS + 1):
        now = common.read_safetensors(train(context, binary, data, "--steps", steps, *arguments))
        for name, value in result.items():
            result[name] = value + (np.float32(1) - DECAY) * (now[name] - value)
    return result


def check_formula(context, checks, data):
    options = {"adamw": {}, "sgd": {}, "lamb": {}, "lars": {"momentum": 0.9}, "lion": {}, "rmsprop": {}, "adagrad": {}, "adafactor": {}, "muon": {}}
    for optimizer, more in options.items():
        binary = context.compile(common.model_file("lenet"), loss="cross_entropy", microbatches=4, optimizer=optimizer, ema_decay=DECAY,
                                 learning_rate=0.01, **more)
        expected = expected_averages(context, binary, data)
        got = averages(common.read_safetensors(train(context, binary, data, "--steps", STEPS)))
        checks.check(set(got) == set(expected) and len(got) == 8, f"{optimizer}: {sorted(got)}")
        for name, value in expected.items():
            check_close(checks, f"{optimizer} {name}", got[name], value, 2e-6)


def check_cuts(context, checks, data):
    """Also when a training is resumed in another cut."""
    reference = None
    for options in {"stages": 1}, {"stages": 2}, {"stages": 4, "schedule": "zb-h1"}, {"stages": 2, "threads_per_stage": 2}:
        binary = context.compile(common.model_file("lenet"), loss="cross_entropy", microbatches=4, optimizer="adamw", ema_decay=DECAY, **options)
        whole = common.tensor_bytes(train(context, binary, data, "--steps", STEPS))
        reference = reference or whole
        checks.check(whole == reference, f"{options}: other bits")
        half = train(context, binary, data, "--steps", 3)
        rest = context.path(".safetensors")
        binary.train(data, "--resume", half, "--steps", STEPS, "--save", rest, "--weights", common.MODELS / "lenet")
        checks.check(common.tensor_bytes(rest) == reference, f"{options}: resumed with other bits")
    return binary


def check_uses(context, checks, binary, data):
    snapshot = train(context, binary, data, "--steps", STEPS)
    tensors = common.read_safetensors(snapshot)
    swapped = context.path(".safetensors")
    common.write_safetensors(swapped, {**{name: value for name, value in tensors.items() if name and "#" not in name}, **averages(tensors)})
    average = binary.infer(data, context.path(".npz"), "--load", snapshot, "--ema")
    same = binary.infer(data, context.path(".npz"), "--load", swapped)
    last = binary.infer(data, context.path(".npz"), "--load", snapshot)
    (name, ) = average
    checks.check((average[name] == same[name]).all() and (average[name] != last[name]).any(), "infer --ema")
    measured = [common.run([binary.path, "eval", "--data", data, "--metrics", "cross_entropy", *flags])
                for flags in (["--load", snapshot, "--ema"], ["--load", swapped], ["--load", snapshot])]
    checks.check(measured[0] == measured[1] != measured[2], f"eval --ema: {measured}")
    lines = binary.train(data, "--no-shuffle", "--weights", common.MODELS / "lenet", "--steps", STEPS, "--eval-data", data, "--metrics",
                         "cross_entropy", "--eval-every", 0, "--ema", "--export", context.path(".onnx"))
    checks.check(lines[-1]["cross_entropy"] == common.json.loads(measured[0])["cross_entropy"], f"train --ema: {lines[-1]}")
    # A model that is exported with averages infers with them.
    exported = context.path(".onnx")
    common.run([binary.path, "export", "--load", snapshot, "--ema", "-o", exported, "--model", common.model_file("lenet")])
    again = context.compile(exported)
    check_close(checks, "the exported model", list(again.infer(data, context.path(".npz")).values())[0], average[name], 1e-5)
    # A new training begins its averages with the weights that it loads.
    started = context.path(".safetensors")
    binary.train(data, "--load", swapped, "--steps", 1, "--lr", 0, "--set", "weight_decay=0", "--save", started,
                 "--weights", common.MODELS / "lenet")
    begun = common.read_safetensors(started)
    for parameter, value in averages(begun).items():
        check_close(checks, f"an average that begins, {parameter}", value, begun[parameter], 1e-7)


def check_errors(context, checks, data):
    plain = context.compile(common.model_file("lenet"), loss="cross_entropy", microbatches=4)
    snapshot = train(context, plain, data, "--steps", 1)
    for arguments, code, text in ((["train", "--data", data, "--ema"], 2, "--ema-decay"),
                                  (["infer", "--data", data, "--load", snapshot, "--ema"], 1, "no averages"),
                                  (["infer", "--data", data, "--ema"], 2, "--load"),
                                  (["export", "--load", snapshot, "--ema", "-o", context.path(".onnx")], 1, "no averages")):
        done = subprocess.run([plain.path, *map(str, arguments), *(["--weights", str(common.MODELS / "lenet")] if arguments[0] != "export" else [])],
                              capture_output=True, text=True)
        checks.check(done.returncode == code and text in done.stderr, f"{arguments}: {done.returncode} {done.stderr}")
    done = subprocess.run([context.compiler, common.model_file("lenet"), "--loss=cross_entropy", "--ema-decay=1", "-o", context.path()],
                          capture_output=True, text=True)
    checks.check(done.returncode == 2 and "--ema-decay" in done.stderr, done.stderr)


def check_devices(context, checks, data):
    """A GPU's kernel keeps them too."""
    result = []
    for target in "cpu", "mock":
        binary = context.compile(common.model_file("lenet"), loss="cross_entropy", microbatches=4, optimizer="adamw", ema_decay=DECAY,
                                 target=target, stages=2)
        result.append(averages(common.read_safetensors(train(context, binary, data, "--steps", STEPS))))
    for name, value in result[0].items():
        check_close(checks, f"mock {name}", result[1][name], value, 1e-4)


def test(context, checks, arguments):
    data = context.data("lenet", samples=96)
    check_formula(context, checks, data)
    check_uses(context, checks, check_cuts(context, checks, data), data)
    check_devices(context, checks, data)
    check_errors(context, checks, data)


if __name__ == "__main__":
    common.main(test, __doc__)

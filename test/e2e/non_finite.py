"""A loss or gradient that is not finite ends the training before the update.

    non_finite.py BUILD
"""

import re
import subprocess

import numpy as np

import common

DIGITS = common.MODELS / "digits" / "digits-train.npz"


def train(context, binary, data, *arguments, device="cpu"):
    """Exit code, steps that were made and the messages of a training."""
    command = [binary.path, "train", "--data", data, "--device", device, *arguments]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout.count('"step"'), done.stderr


def check(context, checks, stages, **options):
    binary = context.training("lenet", batch=32, stages=stages, **options)
    where = f"{stages} stages {options}"
    good = dict(np.load(DIGITS))
    bad = {name: array.copy() for name, array in good.items()}
    bad["image"][100].flat[3] = np.nan  # sample 100 is in step 4
    poisoned, clean = context.path(".npz"), context.path(".npz")
    np.savez(poisoned, **bad)
    np.savez(clean, **good)

    # The step is not made, and the last good state stays.
    saved = context.path(".safetensors")
    code, steps, text = train(context, binary, poisoned, "--no-shuffle", "--steps", 10, "--save", saved, "--save-every", 1)
    checks.equal((code, steps), (1, 3), f"{where}: stops at the step")
    checks.check("error: step 4:" in text, f"{where}: names the step: {text}")
    checks.check("array 'image' has nan in sample 100," in text, f"{where}: names the data: {text}")
    reference = context.path(".safetensors")
    train(context, binary, clean, "--no-shuffle", "--steps", 3, "--save", reference)
    checks.equal(common.tensor_bytes(saved), common.tensor_bytes(reference), f"{where}: the state of step 3")

    # Shuffled data are reported by the same number.
    code, _, text = train(context, binary, poisoned, "--epochs", 1)
    checks.check(code == 1 and "array 'image' has nan in sample 100," in text, f"{where}: shuffled: {text}")

    # A diverging training names the first kernel, by its node.
    code, steps, text = train(context, binary, clean, "--resume", saved, "--lr", 1e6, "--steps", 30, "--save", saved)
    checks.equal(code, 1, f"{where}: diverges")
    checks.check("appears first in stage 'stage" in text and "at node '/" in text, f"{where}: names the node: {text}")
    checks.equal(common.tensor_bytes(saved), common.tensor_bytes(reference), f"{where}: still the state of step 3")

    # The other answers.
    code, steps, text = train(context, binary, poisoned, "--no-shuffle", "--steps", 10, "--on-nan", "skip")
    checks.equal((code, steps), (0, 10), f"{where}: --on-nan skip")
    checks.check("warning: step 4 was skipped" in text, f"{where}: says what was skipped: {text}")
    code, steps, text = train(context, binary, poisoned, "--no-shuffle", "--steps", 10, "--on-nan", "continue")
    checks.equal((code, steps), (0, 10), f"{where}: --on-nan continue")
    if stages > 1:
        code, steps, text = train(context, binary, poisoned, "--no-shuffle", "--steps", 10, "--processes", 2)
        checks.equal((code, steps), (1, 3), f"{where}: two processes")
        checks.equal(text.count("error: step 4:"), 1, f"{where}: one message: {text}")


FIRST = re.compile(r"appears first in stage '(\w+)', (\w+) pass of micro-batch (\d+), at node '(.*?)', which")


def check_first_kernel(context, checks, **options):
    """The node that is named does not depend on where the stages run."""
    clean = context.path(".npz")
    np.savez(clean, **dict(np.load(DIGITS)))
    found = {}
    for stages, target in ((1, "cpu"), (2, "cpu"), (1, "mock"), (2, "mock")):
        binary = context.training("lenet", batch=32, stages=stages, microbatches=2, target=target, **options)
        for processes in (1, 2) if stages > 1 else (1,):
            where = f"{options} {stages} stages, {target}, {processes} processes"
            code, _, text = train(context, binary, clean, "--no-shuffle", "--lr", 1e30, "--steps", 30, "--processes",
                                  processes, device=target)
            match = FIRST.search(text)
            checks.check(code == 1 and match is not None, f"{where}: names the first kernel: {text}")
            if match:
                found[where] = match[2], match[4]
    checks.check(len(set(found.values())) == 1, f"the first kernel: {found}")


def check_inference(context, checks, **options):
    """What is not a number reaches the outputs of its sample, and no others: neither a ReLU nor a pool hides it."""
    good = {"image": np.load(DIGITS)["image"][:64]}
    bad = {"image": good["image"].copy()}
    bad["image"][10].flat[20] = np.nan
    binary = context.training("lenet", batch=32, microbatches=4, **options)
    clean, poisoned = context.path(".npz"), context.path(".npz")
    np.savez(clean, **good)
    np.savez(poisoned, **bad)
    (expected,) = binary.infer(clean, context.path(".npz")).values()
    (found,) = binary.infer(poisoned, context.path(".npz")).values()
    others = np.arange(64) != 10
    checks.check(np.isnan(found[10]).all(), f"{options}: infer gives no numbers: {found[10]}")
    checks.equal(found[others].tobytes(), expected[others].tobytes(), f"{options}: infer leaves the other samples")


def check_without_search(context, checks, why, **options):
    """A program whose ranks do not look before an update ends when it knows the loss."""
    binary = context.training("lenet", batch=32, **options)
    data = dict(np.load(DIGITS))
    data["image"][100].flat[3] = np.nan  # in step 4
    poisoned, saved = context.path(".npz"), context.path(".safetensors")
    np.savez(poisoned, **data)
    flags = ["--no-shuffle", "--steps", 10]
    for processes in [()] if "stages" not in options else [(), ("--processes", 2)]:
        where = f"{options} {processes}"
        saving = ["--save", saved, "--save-every", 3]
        code, steps, text = train(context, binary, poisoned, *flags, *saving, *processes)
        checks.equal((code, steps), (1, 3), f"{where}: stops behind the step: {text}")
        for part in ["error: step 4: the loss is ", "array 'image' has nan in sample 100,", "The step was made, ", why]:
            checks.check(part in text, f"{where}: says '{part}': {text}")
        snapshot = common.read_safetensors(saved)
        checks.check(all(np.isfinite(array).all() for name, array in snapshot.items() if name), f"{where}: keeps the last good state")
    code, steps, _ = train(context, binary, poisoned, *flags, "--on-nan", "continue")
    checks.equal((code, steps), (0, 10), f"{options}: --on-nan continue")
    code, _, text = train(context, binary, DIGITS, "--steps", 1, "--on-nan", "skip")
    checks.check(code == 2 and "--on-nan skip" in text and why in text, f"{options}: --on-nan skip: {text}")


def test(context, checks, arguments):
    check_inference(context, checks)
    check_inference(context, checks, stages=2, threads_per_stage=2)
    check(context, checks, 1)
    check(context, checks, 2, microbatches=4)
    check(context, checks, 1, microbatches=4, weights_together=4)
    check_first_kernel(context, checks)
    check_first_kernel(context, checks, precision="bf16")
    if not arguments.quick:
        check(context, checks, 2, microbatches=4, replicas=2)
        check(context, checks, 2, microbatches=4, schedule="zb-h1", optimizer="adamw")
    check_without_search(context, checks, "with --loss-scale=none", loss_scale="none")
    stale = {"stages": 2, "allow_stale": None}
    check_without_search(context, checks, "without a flush", schedule="pipemare", **stale)
    if not arguments.quick:
        check_without_search(context, checks, "without a flush", schedule="pipedream", replicas="2,1", **stale)
        check_without_search(context, checks, "without a flush", schedule="wsp", replicas=2, microbatches=4, **stale)


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

#!/usr/bin/env python3
"""Evaluation every few steps, the best snapshot, and the end where nothing gets better.

What the program does is what the lines that it prints say it should: also after a
pause, and in several processes.
"""

import json
import re

import common
from load import TEST, TRAIN, failure

# So large that the loss rises now and then.
SETTINGS = ("--lr", 0.35, "--eval-data", TEST, "--metrics", "accuracy,cross_entropy")
EVERY, PATIENCE = 4, 5


def evaluations(lines):
    return [line for line in lines if "cross_entropy" in line]


def judged(found, metric, larger, patience):
    """The best evaluation, and after how many the training ends."""
    best, others = None, 0
    for number, line in enumerate(found, 1):
        if best is None or (line[metric] > best[metric] if larger else line[metric] < best[metric]):
            best, others = line, 0
        else:
            others += 1
        if others == patience:
            return best, number
    return best, None


def check_metric(context, checks, binary, metric, larger, *more):
    where = f"{metric} {' '.join(map(str, more))}"
    best, last = context.path(".safetensors"), context.path(".safetensors")
    lines = binary.train(TRAIN, *SETTINGS, "--eval-steps", EVERY, "--epochs", 20, "--best-metric", metric, "--keep-best", best,
                         "--patience", PATIENCE, "--save", last, *more)
    found = evaluations(lines)
    expected, count = judged(found, metric, larger, PATIENCE)
    checks.check(count == len(found) and count, f"{where}: ended after {len(found)} evaluations, expected {count}")
    checks.equal([line["step"] for line in found], [EVERY * (i + 1) for i in range(len(found))], f"{where}: steps")
    metadata = common.read_safetensors(best)[None]
    checks.equal((metadata["best.metric"], metadata["step"]), (metric, str(expected["step"])), f"{where}: the best")
    at_end = common.read_safetensors(last)[None]
    checks.equal((at_end["best.step"], at_end["best.others"]), (str(expected["step"]), str(PATIENCE)), f"{where}: at the end")
    value = json.loads(common.run([binary.path, "eval", "--data", TEST, "--load", best, "--metrics", metric]))[metric]
    checks.check(abs(value - expected[metric]) <= 1e-6 * abs(value), f"{where}: {value}, and not {expected[metric]}")
    return found, common.tensor_bytes(best), common.tensor_bytes(last), at_end


def check_resumed(context, checks, binary, metric, whole):
    found, best, last, at_end = whole
    pause = found[len(found) // 2]["step"]
    half, kept = context.path(".safetensors"), context.path(".safetensors")
    flags = [*SETTINGS, "--eval-steps", EVERY, "--epochs", 20, "--best-metric", metric, "--keep-best", kept, "--patience", PATIENCE]
    binary.train(TRAIN, *flags, "--save", half, "--steps", pause)
    end = context.path(".safetensors")
    lines = binary.train(TRAIN, *flags, "--save", end, "--resume", half)
    rest = [line for line in found if line["step"] > pause]
    checks.equal(evaluations(lines), rest, f"resumed at {pause}: evaluations")
    metadata = common.read_safetensors(end)[None]
    checks.check(common.tensor_bytes(end) == last, "resumed: the end differs")
    checks.equal({k: v for k, v in metadata.items() if k.startswith("best.")},
                 {k: v for k, v in at_end.items() if k.startswith("best.")}, "resumed: the best")
    checks.check(common.tensor_bytes(kept) == best, "resumed: the best snapshot differs")


def check_epochs(context, checks, binary):
    """Without --eval-steps, after each epoch; the first metric decides."""
    best = context.path(".safetensors")
    lines = binary.train(TRAIN, *SETTINGS, "--epochs", 3, "--keep-best", best)
    expected, _ = judged(evaluations(lines), "accuracy", True, 100)
    checks.equal(common.read_safetensors(best)[None]["step"], str(expected["step"]), "by epochs: the best")


def check_refused(context, checks, binary):
    path = context.path(".safetensors")
    for flags, message in (
        (["--keep-best", path], "--keep-best needs --eval-data"),
        (["--patience", 2], "--patience needs --eval-data"),
        (["--eval-steps", 2], "--eval-steps needs --eval-data"),
        ([*SETTINGS, "--keep-best", path, "--save", path], "--keep-best and --save name one file"),
        ([*SETTINGS, "--best-metric", "accuracy"], "--best-metric is for --keep-best and --patience"),
        ([*SETTINGS, "--patience", 2, "--best-metric", "f1"], "--best-metric f1: it is not among --metrics"),
        ([*SETTINGS, "--eval-steps", 2, "--eval-every", 2], "--eval-every"),
    ):
        code, text = failure(binary, "train", "--data", TRAIN, *flags)
        checks.check(code == 2 and re.search(re.escape(message), text), f"{flags}: {code} {text}")


def test(context, checks, arguments):
    options = {"batch": 32, "microbatches": 4, "optimizer": "sgd", "schedule": "1f1b"}
    one, two = (context.training("lenet", stages=stages, **options) for stages in (1, 2))
    for metric, larger in (("cross_entropy", False), ("accuracy", True)):
        whole = check_metric(context, checks, one, metric, larger)
        checks.equal(check_metric(context, checks, two, metric, larger, "--processes", 2)[:3], whole[:3], f"{metric}: two processes")
        check_resumed(context, checks, two, metric, whole)
    check_epochs(context, checks, two)
    check_refused(context, checks, two)


if __name__ == "__main__":
    common.main(test, __doc__)

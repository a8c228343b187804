#!/usr/bin/env python3
"""LeNet in two stages learns to read digits: at least 97 % on unseen ones."""

import common
from common import MODELS, model_file

EPOCHS = 30
REQUIRED = 0.97


def test(context, checks, arguments):
    # As in scripts/quickstart.
    binary = context.compile(
        model_file("lenet"), stages=2, schedule="1f1b", batch=32, microbatches=4, loss="cross_entropy",
        optimizer="sgd", learning_rate=0.05, momentum=0.9,
    )
    digits = MODELS / "digits"
    lines = binary.train(
        digits / "digits-train.npz", "--eval-data", digits / "digits-test.npz", "--epochs", EPOCHS
    )
    accuracies = [line["accuracy"] for line in lines if "accuracy" in line]
    print("accuracy after each epoch:", " ".join(f"{a:.3f}" for a in accuracies))
    checks.equal(len(accuracies), EPOCHS, "evaluations")
    checks.check(accuracies and accuracies[-1] >= REQUIRED, f"accuracy {accuracies[-1:]} is below {REQUIRED}")


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

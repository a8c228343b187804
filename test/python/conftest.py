"""What the tests of the Python package share. test/e2e/python.py runs them with a wheel in an environment of its own."""

import os
import pathlib

import numpy
import pytest

import pp_mlir as pp

# The tools have a sanitizer of their own.
os.environ.pop("LD_PRELOAD", None)

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"


@pytest.fixture(scope="session")
def lenet():
    return MODELS / "lenet" / "lenet.torchscript.onnx"


@pytest.fixture(scope="session")
def compiled(lenet, tmp_path_factory):
    """LeNet in two stages, as a shared object."""
    path = tmp_path_factory.mktemp("lenet") / "lenet.so"
    pp.compile(lenet, loss="cross_entropy", batch=8, stages=2, microbatches=4, optimizer=pp.AdamW(1e-3), output=path).close()
    return path


@pytest.fixture
def digits():
    """64 images and their classes."""
    with numpy.load(MODELS / "lenet" / "reference.npz") as reference:
        x, target = reference["image"], reference["target"]
    random = numpy.random.default_rng(0)
    x = numpy.concatenate([x + random.normal(0, 0.1, x.shape).astype("f4") for _ in range(64 // len(x) + 1)])[:64]
    return x, numpy.resize(target, 64).astype("i8")

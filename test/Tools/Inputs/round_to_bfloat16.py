"""Conversions to and from bf16, compared with integers.

    round_to_bfloat16.py make MODEL DATA      a model with casts, and numbers for it
    round_to_bfloat16.py check DATA RESULTS   what its program made of them
"""

import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "models" / "bad"))
from make import graph, integer, model, node, opset, untyped, value  # noqa: E402

F32, F64, BF16 = 1, 11, 16
COLUMNS = 1031  # vectors and a rest


def make(model_path, data_path):
    body = graph(
        [
            node("Cast", ["x"], ["xs"], name="narrow", attributes=[integer("to", BF16)]),
            node("Cast", ["xs"], ["y"], name="wide", attributes=[integer("to", F32)]),
            node("Cast", ["d"], ["ds"], name="narrow_f64", attributes=[integer("to", BF16)]),
            node("Cast", ["ds"], ["z"], name="wide_f64", attributes=[integer("to", F32)]),
            node("Neg", ["xs"], ["ns"], name="negated"),
            node("Cast", ["ns"], ["n"], name="wide_negated", attributes=[integer("to", F32)]),
        ],
        inputs=[value("x", [4, COLUMNS], F32), value("d", [4, COLUMNS], F64)],
        outputs=[untyped("y"), untyped("z"), untyped("n")],
    )
    pathlib.Path(model_path).write_bytes(model(body, opsets=[opset(20)]))
    random = np.random.default_rng(3)
    bits = random.integers(0, 2**32, (4, COLUMNS), dtype=np.uint32)
    # Ties, to the even one below and above, and what is next to them.
    bits[1] = bits[1] & 0xFFFF0000 | 0x8000
    bits[2] = bits[1] + random.integers(-1, 2, COLUMNS).astype(np.uint32)
    x = bits.view(np.float32)
    x[0, :6] = [np.inf, -np.inf, np.nan, 3.4e38, -3.4e38, 0]
    # Denormals are flushed.
    x[np.abs(x) < 2e-38] = 1
    d = x.astype(np.float64)
    # Just beside the ties of f32, which rounding twice would make ties of bf16.
    d[1:3] *= 1 + random.choice([-1, 1], (2, COLUMNS)) * 2.0**-40
    d[3, :3] = [1e300, -1e300, 1e39]
    np.savez(data_path, x=x, d=d)


def rounded(numbers):
    """The nearest bf16 of an f64, chosen among its two neighbours."""
    single = numbers.astype(np.float32)
    low = (single.view(np.uint32) & 0xFFFF0000).astype(np.int64)
    candidates = np.stack([low - 0x10000, low, low + 0x10000])
    values = (candidates & 0xFFFFFFFF).astype(np.uint32).view(np.float32).astype(np.float64)
    distance = np.abs(values - numbers)
    odd = (candidates >> 16) & 1
    best = np.lexsort((odd, distance), axis=0)[0]
    result = np.take_along_axis(values, best[None], 0)[0]
    largest = 3.3895313892515355e38
    overflows = np.abs(numbers) >= largest + 2.0**119
    result = np.where(overflows, np.copysign(np.inf, numbers), result)
    return np.where(np.isfinite(numbers), result, numbers).astype(np.float32)


def check(data_path, results_path):
    data, results = np.load(data_path), np.load(results_path)
    with np.errstate(all="ignore"):
        x, d = rounded(data["x"].astype(np.float64)), rounded(data["d"])
    for name, expected in (("y", x), ("z", d), ("n", -x)):
        actual = results[name]
        same = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
        assert same.all(), (name, np.argwhere(~same)[:5], actual[~same][:5], expected[~same][:5])
    print(f"{x.size + d.size} numbers are the nearest")


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](*sys.argv[2:])

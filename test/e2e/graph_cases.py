"""Cases of operator_cases.py whose operators have subgraphs, sequences, or as many results as numbers say."""

import math
import pathlib
import sys

import numpy as np

import region_cases

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import graph, integer, message, node, untyped  # noqa: E402

F, I, B = np.float32, np.int64, np.bool_


def body(name, nodes, inputs, outputs):
    """An attribute that is a graph."""
    content = graph(nodes, inputs=[untyped(each) for each in inputs], outputs=[untyped(each) for each in outputs])
    return message((1, name), (6, content), (20, 5))


def sequences(cases):
    x, y = cases.numbers(2, 3), cases.numbers(2, 3)
    inputs, places, one = {"x0": x, "x1": y}, {"front": np.array(0), "back": np.array(1)}, np.array(1)

    def add(op, nodes, want, constants=None, more=()):
        def prefixed(prefix):
            def rename(names):
                return [prefix + name if name else "" for name in names]

            return [node(kind, rename(ins), rename(outs), attributes=list(attributes)) for kind, ins, outs, *attributes in nodes]

        cases.add(op, prefixed, inputs, places if constants is None else constants, [np.asarray(want)])
        cases.TESTED.update(more)

    both = ("SequenceConstruct", ["x0", "x1"], ["s"])
    add("SequenceConstruct", [both, ("SequenceAt", ["s", "front"], ["y0"])], x, more=["SequenceAt"])
    add("SequenceLength", [both, ("SequenceLength", ["s"], ["y0"])], np.array(2))
    add("SequenceErase", [both, ("SequenceErase", ["s", "back"], ["t"]), ("SequenceAt", ["t", "front"], ["y0"])], x)
    inserted = [both, ("SequenceInsert", ["s", "x1", "front"], ["t"]), ("ConcatFromSequence", ["t"], ["y0"], integer("axis", 1))]
    add("SequenceInsert", inserted, np.concatenate([y, x, y], 1))
    stacked = ("ConcatFromSequence", ["s"], ["y0"], integer("axis", 0), integer("new_axis", 1))
    add("ConcatFromSequence", [both, stacked], np.stack([x, y]))
    add("SequenceEmpty", [("SequenceEmpty", [], ["s"]), ("SequenceLength", ["s"], ["y0"])], np.array(0))
    pieces = [("SplitToSequence", ["x0", "back"], ["s"], integer("axis", 0)), ("SequenceAt", ["s", "back"], ["y0"])]
    add("SplitToSequence", pieces, x[1:], constants={"back": one})
    mapped = body("body", [node("Exp", ["element"], ["result"])], ["element"], ["result"])
    add("SequenceMap", [both, ("SequenceMap", ["s"], ["t"], mapped), ("SequenceAt", ["t", "front"], ["y0"])], np.exp(x))
    optional = ("Optional", ["x0"], ["o"])
    add("Optional", [optional, ("OptionalGetElement", ["o"], ["y0"])], x, more=["OptionalGetElement"])
    add("OptionalHasElement", [optional, ("OptionalHasElement", ["o"], ["y0"])], np.array(True))


def control_flow(cases):
    x, y = cases.numbers(3, 4), cases.numbers(3, 4)

    def branches(prefix):
        return [
            body("then_branch", [node("Exp", [prefix + "x1"], ["chosen"])], [], ["chosen"]),
            body("else_branch", [node("Neg", [prefix + "x1"], ["other"])], [], ["other"]),
        ]

    def branch(prefix):
        return [node("If", [prefix + "x0"], [prefix + "y0"], attributes=branches(prefix))]

    for condition in (True, False):
        want = [np.exp(x) if condition else -x]
        # Known, and from the data.
        cases.add("If", branch, {"x1": x}, {"x0": np.array(condition)}, want)
        cases.add("If", branch, {"x0": np.array([condition]), "x1": x}, {}, want)

    def loop(prefix):
        nodes = [
            node("Mul", ["state", prefix + "x3"], ["next"]),
            node("Less", ["turn", prefix + "x0"], ["goes_on"]),
            node("Identity", ["next"], ["shown"]),
        ]
        turns = body("body", nodes, ["turn", "condition", "state"], ["goes_on", "next", "shown"])
        return [node("Loop", [prefix + "x1", prefix + "x2", prefix + "x3"], [prefix + "y0", prefix + "y1"], attributes=[turns])]

    # As long as the number of the turn is below 2.
    want = [x**4, np.stack([x**2, x**3, x**4])]
    cases.add("Loop", loop, {"x3": x}, {"x0": np.array(2), "x1": np.array(9), "x2": np.array(True)}, want, tolerance=1e-5)

    def scan(prefix):
        nodes = [node("Add", ["sum", "part"], ["total"]), node("Identity", ["total"], ["shown"])]
        turns = [body("body", nodes, ["sum", "part"], ["total", "shown"]), integer("num_scan_inputs", 1)]
        return [node("Scan", [prefix + "x0", prefix + "x1"], [prefix + "y0", prefix + "y1"], attributes=turns)]

    start = cases.numbers(4)
    sums = start + np.cumsum(y, 0)
    cases.add("Scan", scan, {"x0": start, "x1": y}, {}, [sums[-1], sums], tolerance=1e-5)


def selections(cases):
    Known, case = cases.Known, cases.case
    x = cases.numbers(3, 4)
    case("Compress", [x, Known([True, False, True], dtype=B)], x[[0, 2]], axis=0)
    case("Compress", [x, Known([False, True, True], dtype=B)], x.ravel()[1:3])
    whole = np.array([[1, 0, 3], [0, 5, 0]])
    case("NonZero", [Known(whole)], np.array(np.nonzero(whole)))
    numbers = np.array([2, 1, 1, 3, 4, 3], F)
    case("Unique", [Known(numbers, dtype=F)], list(np.unique(numbers, True, True, True)))
    rows = np.array([[1, 0, 0], [1, 0, 0], [2, 3, 4]], F)
    case("Unique", [Known(rows, dtype=F)], np.unique(rows, axis=0), axis=0)
    case("Unique", [Known(numbers, dtype=F)], np.array([2, 1, 3, 4], F), sorted=0)
    boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [0, 10.1, 1, 11.1], [0, 100, 1, 101]]], F)
    scores = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3]]], F)
    limits = [Known([3]), Known([0.5], dtype=F), Known([0.0], dtype=F)]
    case("NonMaxSuppression", [Known(boxes, dtype=F), Known(scores, dtype=F), *limits], np.array([[0, 0, 3], [0, 0, 0], [0, 0, 5]]))


def signals(cases):
    Known, case = cases.Known, cases.case
    at = np.arange(7) / 7 * 2 * math.pi
    case("HannWindow", [Known(7)], (0.5 - 0.5 * np.cos(at)).astype(F), tolerance=1e-6)
    case("HammingWindow", [Known(7)], (25 / 46 - 21 / 46 * np.cos(at)).astype(F))
    at = np.arange(7) / 6 * 2 * math.pi
    case("BlackmanWindow", [Known(7)], (0.42 - 0.5 * np.cos(at) + 0.08 * np.cos(2 * at)).astype(F), periodic=0)
    x = cases.numbers(2, 6, 3, 1)

    def parts(z):
        return np.stack([z.real, z.imag], -1).astype(F)

    case("DFT", [x, None, Known(1)], parts(np.fft.fft(x[..., 0], axis=1)), tolerance=1e-5)
    case("DFT", [x, Known(8), Known(1)], parts(np.fft.rfft(x[..., 0], 8, axis=1)), onesided=1, tolerance=1e-5)
    z = cases.numbers(2, 5, 2)
    case("DFT", [z, None, Known(1)], parts(np.fft.ifft(z[..., 0] + 1j * z[..., 1], axis=1)), inverse=1, tolerance=1e-5)
    signal, window = cases.numbers(1, 10, 1), cases.numbers(4)
    frames = np.stack([signal[:, at : at + 4, 0] * window for at in range(0, 7, 3)], 1)
    case("STFT", [signal, Known(3), window], parts(np.fft.rfft(frames)), version=17, tolerance=1e-5)
    # Without an axis for the parts of a number, as ONNX Runtime takes it; frames that end where the signal does not, or apart.
    signal = cases.numbers(2, 23)
    for step in (2, 5, 7):
        frames = np.stack([signal[:, at : at + 5] for at in range(0, 19, step)], 1)
        case("STFT", [signal, Known(step), None, Known(5)], parts(np.fft.rfft(frames)), version=17, tolerance=1e-5)
    edges = np.floor(9 * 700 * (10 ** (np.arange(5) / 5 * math.log10(1 + 8000 / 700)) - 1) / 16000)
    weights = np.zeros((5, 3), F)
    for column, (low, middle, high) in enumerate(zip(edges, edges[1:], edges[2:])):
        for row in range(5):
            if low == middle == row:
                weights[row, column] = 1
            elif low <= row <= middle and low != middle:
                weights[row, column] = (row - low) / (middle - low)
            if middle <= row < high:
                weights[row, column] = (high - row) / (high - middle)
    case("MelWeightMatrix", [Known(3), Known(8), Known(16000), Known(0.0, dtype=F), Known(8000.0, dtype=F)], weights, version=17)


def sampled(cases):
    Known, case = cases.Known, cases.case
    x = cases.numbers(1, 2, 3, 4)
    # Well inside of a pixel, counted from the middle of the first: between two, there is no derivative.
    cells = np.floor(cases.numbers(1, 2, 3, 2, low=0, high=2)) + [0.3, 0.6]
    grid = ((2 * cells + 1) / [4, 3] - 1).astype(F)

    def pixel(row, column):
        return x[0, :, row, column] if 0 <= row < 3 and 0 <= column < 4 else np.zeros(2, F)

    want = np.zeros((1, 2, 2, 3), F)
    for i, j in np.ndindex(2, 3):
        column, row = ((grid[0, i, j] + 1) * [4, 3] - 1) / 2
        for r, c in ((math.floor(row) + a, math.floor(column) + b) for a in (0, 1) for b in (0, 1)):
            want[0, :, i, j] += (1 - abs(row - r)) * (1 - abs(column - c)) * pixel(r, c)
    case("GridSample", [x, grid], want, tolerance=1e-5)
    theta = cases.numbers(1, 2, 3)
    rows, columns = np.meshgrid((2 * np.arange(2) + 1) / 2 - 1, (2 * np.arange(3) + 1) / 3 - 1, indexing="ij")
    base = np.stack([columns, rows, np.ones_like(rows)], -1)
    case("AffineGrid", [theta, Known([1, 1, 2, 3])], (base @ theta[0].T)[None].astype(F), tolerance=1e-5)
    cropped = np.pad(x[:, :, :, 1:3], ((0, 0), (0, 0), (1, 1), (0, 0)))
    case("CenterCropPad", [x, Known([5, 2])], cropped, axes=[2, 3])
    columns = cases.numbers(1, 4, 6)
    image = np.zeros((1, 1, 3, 4), F)
    for element, block in np.ndindex(4, 6):
        image[0, 0, block // 3 + element // 2, block % 3 + element % 2] += columns[0, element, block]
    case("Col2Im", [columns, Known([3, 4]), Known([2, 2])], image, tolerance=1e-5)
    pooled = np.sqrt(sum(np.square(x)[:, :, i : i + 2, j : j + 3] for i in (0, 1) for j in (0, 1)))
    case("LpPool", [x], pooled, kernel_shape=[2, 2], tolerance=1e-5)
    case("GlobalLpPool", [x], np.abs(x).sum((2, 3), keepdims=True), p=1, tolerance=1e-5)


def stateful(cases):
    Known, case = cases.Known, cases.case
    q, k, v = (cases.numbers(1, 3, 4) for _ in range(3))
    decay, beta = cases.numbers(1, 3, 2, low=-1, high=0), cases.numbers(1, 3, 2, low=0, high=1)
    state, outputs = np.zeros((2, 2, 2)), []
    for step in range(3):
        key, value, query = (part[0, step].reshape(2, 2) for part in (k, v, q))
        state = state * np.exp(decay[0, step])[:, None, None]
        value = beta[0, step][:, None] * (value - np.einsum("hkv,hk->hv", state, key))
        state = state + key[:, :, None] * value[:, None]
        outputs.append(np.einsum("hkv,hk->hv", state, query).ravel() / math.sqrt(2))
    want = [np.stack(outputs)[None].astype(F), state[None].astype(F)]
    heads = {"q_num_heads": 2, "kv_num_heads": 2}
    case("LinearAttention", [q, k, v, None, decay, beta], want, version=27, tolerance=1e-5, **heads)
    x, w, past = cases.numbers(1, 2, 5), cases.numbers(2, 1, 3), cases.numbers(1, 2, 2)
    padded = np.concatenate([past, x], 2)
    want = sum(padded[:, :, tap : tap + 5] * w[:, 0, tap, None] for tap in range(3))
    case("CausalConvWithState", [x, w, None, past], [want, padded[:, :, 5:]], version=27, tolerance=1e-5)
    case("CumProd", [x, Known(2)], np.cumprod(x, 2), version=26, tolerance=1e-5)
    case("CumProd", [x, Known(2)], np.flip(np.cumprod(np.flip(x, 2), 2), 2), version=26, tolerance=1e-5, reverse=1)
    case("SwiGLU", [x, x[:, :, ::-1].copy()], x * x[:, :, ::-1] / (1 + np.exp(-x)), version=28, tolerance=1e-5)
    case("BitCast", [x], x.view(np.int32), version=26, to=6)
    case("BitCast", [x.view(np.int32)], x, version=26, to=1)
    case("Mean", [x, x[:, :1]], (x + x[:, :1]) / 2)
    rows = cases.numbers(4, 3)
    reversed_ = np.stack([np.concatenate([column[:n][::-1], column[n:]]) for n, column in zip((2, 4, 1), rows.T)], 1)
    case("ReverseSequence", [rows, np.array([2, 4, 1])], reversed_)
    cache, update = cases.numbers(2, 4, 3), cases.numbers(2, 2, 3)
    written = cache.copy()
    written[0, 1:3], written[1, 2:4] = update[0], update[1]
    case("TensorScatter", [cache, update, np.array([1, 2])], written, version=24)


PARTS = (sequences, control_flow, selections, signals, sampled, stateful, *region_cases.PARTS)

"""Compares operators at the edges of their domains with the ONNX specification.

    operators.py BUILD
"""

import math
import pathlib
import sys

import numpy as np

import common

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import FLOAT, INT64, graph, integer, integers, model, node, opset, tensor, text, untyped, value  # noqa: E402

TYPES = {np.dtype(np.float32): FLOAT, np.dtype(np.int64): INT64}
F = np.float32


def compute(context, nodes, inputs, outputs=("y",), initializers=(), version=19, expect=0, options=()):
    """The outputs of a model of these nodes; the text of the error where the
    compiler or the program ends with another exit code than 0."""
    infos = [value(name, list(array.shape), TYPES[array.dtype]) for name, array in inputs.items()]
    constants = [tensor(name, list(array.shape), raw=array.tobytes(), dtype=TYPES[array.dtype]) for name, array in initializers]
    content = graph(nodes, inputs=infos, outputs=[untyped(name) for name in outputs], initializers=constants)
    folder = context.path()
    folder.mkdir()
    (folder / "m.onnx").write_bytes(model(content, opsets=[opset(version)]))
    common.run([context.compiler, folder / "m.onnx", "-o", folder / "m", *options])
    np.savez(folder / "in.npz", **inputs)
    common.run([folder / "m", "infer", "--data", folder / "in.npz", "--output", folder / "out.npz"], expect=expect)
    return dict(np.load(folder / "out.npz")) if expect == 0 else {}


def same(checks, what, got, want, tolerance=1e-6):
    good = got.shape == want.shape and np.allclose(got, want, rtol=tolerance, atol=0, equal_nan=True)
    if good and got.dtype == np.float32:
        good = np.array_equal(np.signbit(got) | np.isnan(got), np.signbit(want) | np.isnan(want))
    checks.check(good, f"{what}: {got} instead of {want}")


def powers(context, checks):
    numbers = [0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, math.inf, -math.inf, math.nan, 1.5, -1.5, 1e-3, 1e10, 60000.5]
    base, exponent = (a.ravel() for a in np.meshgrid(np.array(numbers, F), np.array(numbers, F)))
    with np.errstate(all="ignore"):
        want = np.power(base, exponent)
    got = compute(context, [node("Pow", ["x", "e"], ["y"])], {"x": base, "e": exponent})["y"]
    same(checks, "Pow", got, want)
    for e in (-2, 0, 2, 3, 4, 5):
        got = compute(context, [node("Pow", ["x", "c"], ["y"])], {"x": np.array(numbers, F)}, initializers=[("c", np.array(e, F))])["y"]
        with np.errstate(all="ignore"):
            same(checks, f"Pow {e}", got, np.power(np.array(numbers, F), F(e)))


def logarithms(context, checks):
    # Denormal numbers are numbers.
    x = np.array([1e-45, 1e-40, 3e-39, 1.2e-38, 0, -0.0, 1, 2, 1e30, -1, math.inf, math.nan], F)
    with np.errstate(all="ignore"):
        want = np.log(x.astype(np.float64)).astype(F)
    same(checks, "Log", compute(context, [node("Log", ["x"], ["y"])], {"x": x})["y"], want)


def polynomials(context, checks):
    """Exp and Erf, in units of the last place, and what is no number, or beyond them."""
    spread = np.concatenate([np.linspace(-5, 5, 50001), np.linspace(-86.9, 88.7, 50001), np.geomspace(1e-30, 80, 20001)]).astype(F)
    edges = np.array([0, -0.0, math.inf, -math.inf, math.nan, 88.8, 1e30, -104, -1e30, 3.93, -3.93], F)
    for name, function, most in (("Exp", math.exp, 1), ("Erf", math.erf, 2.1)):
        x = np.concatenate([spread, -spread[100002:], edges])
        got = compute(context, [node(name, ["x"], ["y"])], {"x": x})["y"]
        want = np.vectorize(function)(np.minimum(x.astype(np.float64), 700))
        with np.errstate(all="ignore"):
            rounded = want.astype(F)
        error = np.abs(got.astype(np.float64) - want) / np.spacing(np.abs(rounded))
        known = np.isfinite(rounded)
        checks.check(error[known].max() <= most, f"{name}: {error[known].max()} units in the last place")
        same(checks, f"{name} at its edges", got[-len(edges):], rounded[-len(edges):], tolerance=5e-7)


def quotients(context, checks):
    """Divisions by constants are rounded as divisions are."""
    random = np.random.default_rng(5)
    divisors = np.concatenate([[math.sqrt(2), 3, 7, -1.1, 255, 1.9999999, 1e20, 8, 1e-30, 1e30], random.uniform(1, 2, 30)]).astype(F)
    x = np.concatenate([random.normal(size=20000), random.uniform(1, 2, 20000), [0, -0.0, math.inf, -math.inf, math.nan, 3e38, 1e-25]]).astype(F)
    names = [f"y{i}" for i in range(len(divisors))]
    got = compute(
        context, [node("Div", ["x", f"c{i}"], [name]) for i, name in enumerate(names)], {"x": x}, names,
        [(f"c{i}", np.array(divisor, F)) for i, divisor in enumerate(divisors)],
    )
    with np.errstate(all="ignore"):
        for name, divisor in zip(names, divisors):
            want = x / divisor
            normal = ~(np.abs(want) < np.finfo(F).tiny) | (want == 0)
            same(checks, f"x / {divisor}", got[name][normal], want[normal], tolerance=0)


COORDINATES = {
    "half_pixel": lambda x, scale, n, m: (x + 0.5) / scale - 0.5,
    "pytorch_half_pixel": lambda x, scale, n, m: (x + 0.5) / scale - 0.5 if m > 1 else 0,
    "align_corners": lambda x, scale, n, m: x * (n - 1) / (m - 1) if m > 1 else 0,
    "asymmetric": lambda x, scale, n, m: x / scale,
}
ROUNDINGS = {
    "round_prefer_floor": lambda x: math.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: math.floor(x + 0.5),
    "floor": math.floor,
    "ceil": math.ceil,
}


def resizes(context, checks):
    x = np.arange(2 * 6 * 7, dtype=F).reshape(1, 2, 6, 7)
    for factors in ((1, 1, 2, 3), (1, 1, 1.75, 0.625), (1, 1, 0.5, 0.5)):
        for coordinate, place in COORDINATES.items():
            for rounding, rounded in ROUNDINGS.items():
                want = x
                for axis, scale in enumerate(factors):
                    n = x.shape[axis]
                    m = math.floor(n * scale)
                    at = [min(max(rounded(place(i, scale, n, m)), 0), n - 1) for i in range(m)]
                    want = np.take(want, at, axis)
                attributes = [text("coordinate_transformation_mode", coordinate), text("nearest_mode", rounding)]
                got = compute(
                    context, [node("Resize", ["x", "", "s"], ["y"], attributes=attributes)], {"x": x},
                    initializers=[("s", np.array(factors, F))],
                )["y"]  # fmt: skip
                same(checks, f"Resize {coordinate} {rounding} {factors}", got, want)


def indices(context, checks):
    table = np.arange(6, dtype=F).reshape(3, 2)
    gather = [node("Gather", ["t", "i"], ["y"])]
    got = compute(context, gather, {"i": np.array([-1, -3, 2, 0])}, initializers=[("t", table)])["y"]
    same(checks, "Gather", got, table[[-1, -3, 2, 0]])
    for wrong in (3, -4, 10**6, 2**40):
        compute(context, gather, {"i": np.array([0, wrong])}, initializers=[("t", table)], expect=1)
    # What the model computes itself is nobody's input: no number of the table.
    computed = [node("Add", ["i", "i"], ["j"]), node("Gather", ["t", "j"], ["y"])]
    got = compute(context, computed, {"i": np.array([1, 2, -1])}, initializers=[("t", table)])["y"]
    same(checks, "Gather of computed", got, np.stack([table[2], np.full(2, math.nan, F), table[-2]]))


def scattered_shapes(context, checks):
    """PyTorch's index_fill puts 1 into a shape that it takes from a tensor."""
    x = np.arange(6, dtype=F).reshape(2, 3)
    nodes = [node("Shape", ["x"], ["s"]), node("ScatterElements", ["s", "axes", "ones"], ["t"]), node("ScatterND", ["t", "place", "sizes"], ["shape"]),
             node("ReduceMax", ["x", "axis"], ["m"]), node("Expand", ["m", "shape"], ["y"])]  # fmt: skip
    # Of an index that comes twice, the last update counts; one may count from the end.
    constants = {"axes": [-2, 1, 1], "ones": [7, 9, 1], "place": [[0]], "sizes": [2], "axis": [1]}
    got = compute(context, nodes, {"x": x}, initializers=[(name, np.array(numbers)) for name, numbers in constants.items()])["y"]
    same(checks, "Expand to a scattered shape", got, x.max(1, keepdims=True))


def integers_of_any_value(context, checks):
    x, y = np.array([7, -7, 5, -(2**63), 9]), np.array([2, 2, -3, -1, 0])
    got = compute(context, [node("Div", ["x", "d"], ["y"])], {"x": x, "d": y})["y"]
    same(checks, "Div", got, np.array([3, -3, -1, -(2**63), 0]))
    means = np.array([[1, 2], [4, -5]])
    got = compute(context, [node("ReduceMean", ["x"], ["y"], attributes=[integers("axes", 0), integer("keepdims", 0)])], {"x": means}, version=13)["y"]
    same(checks, "ReduceMean", got, np.array([2, -1]))


def legacy(context, checks):
    x, b = np.arange(24, dtype=F).reshape(2, 3, 4), np.array([10, 20, 30], F)
    attributes = [integer("broadcast", 1), integer("axis", 1)]
    got = compute(context, [node("Add", ["x", "b"], ["y"], attributes=attributes)], {"x": x}, initializers=[("b", b)], version=6)["y"]
    same(checks, "Add of opset 6", got, x + b[:, None])


def outputs(context, checks):
    x = np.array([1, -2, 3, -4], F)
    constant = np.array([5, 6], F)
    large = np.arange(70000, dtype=F)
    nodes = [
        node("Relu", ["x"], ["y"]), node("Reshape", ["x", "s"], ["view"]), node("Identity", ["y"], ["again"]),
        node("Transpose", ["view"], ["turned"]),
    ]  # fmt: skip
    names = ["y", "x", "view", "again", "turned", "c", "large"]
    constants = [("s", np.array([2, 2])), ("c", constant), ("large", large)]
    got = compute(context, nodes, {"x": x}, outputs=names, initializers=constants)
    want = {
        "y": np.maximum(x, 0), "x": x, "view": x.reshape(2, 2), "again": np.maximum(x, 0),
        "turned": x.reshape(2, 2).T, "c": constant, "large": large,
    }  # fmt: skip
    for name in names:
        same(checks, f"output {name}", got[name], want[name])
    # Nothing but copies.
    got = compute(context, [node("Identity", ["x"], ["y"])], {"x": x})["y"]
    same(checks, "Identity", got, x)


def without_elements(context, checks):
    """Inputs without elements are known, outputs without elements are written."""
    x, nothing = np.array([[1, 2], [3, 4]], F), np.zeros((2, 0), F)
    nodes = [node("Concat", ["x", "p"], ["y"], attributes=[integer("axis", 1)]), node("Slice", ["x", "one", "one"], ["z"])]
    got = compute(context, nodes, {"x": x, "p": nothing}, outputs=["y", "z"], initializers=[("one", np.array([1]))])
    same(checks, "joined with nothing", got["y"], x)
    same(checks, "nothing of a tensor", got["z"], x[1:1])


def sums_of_broadcasts(context, checks):
    x = np.array([[1], [2], [4]], F)
    nodes = [node("Expand", ["x", "s"], ["e"]), node("ReduceSum", ["e", "a"], ["y"], attributes=[integer("keepdims", 0)])]
    got = compute(context, nodes, {"x": x}, initializers=[("s", np.array([3, 50])), ("a", np.array([1]))])["y"]
    same(checks, "sum of a broadcast", got, 50 * x[:, 0])


def microbatches(context, checks):
    """Operators on samples give the same numbers for parts of a mini-batch."""
    rng = np.random.default_rng(3)
    x = rng.uniform(-2, 2, (4, 4, 6)).astype(F)
    i = rng.integers(-6, 6, (4, 4, 6))
    nodes = [
        node("ConstantOfShape", ["shape"], ["zeros"]),
        node("InstanceNormalization", ["x", "s", "s"], ["norm"]),
        node("GatherElements", ["x", "i"], ["picked"], attributes=[integer("axis", 2)]),
        node("ScatterElements", ["x", "i", "x"], ["put"], attributes=[integer("axis", 2)]),
        node("ScatterElements", ["zeros", "i", "x"], ["sums"], attributes=[integer("axis", 2), text("reduction", "add")]),
        node("TopK", ["x", "k"], ["best", "places"]), node("CumSum", ["i", "one"], ["running"]),
        node("ArgMax", ["x"], ["largest"], attributes=[integer("axis", 1)]), node("ReduceProd", ["x", "axes"], ["product"]),
        node("Tile", ["x", "repeats"], ["tiled"]), node("Einsum", ["x", "x"], ["inner"], attributes=[text("equation", "bij,bik->bjk")]),
        node("OneHot", ["i", "depth", "values"], ["hot"]), node("Slice", ["x", "last", "first", "axes", "last"], ["turned"]),
        node("Pad", ["x", "pads"], ["mirrored"], attributes=[text("mode", "reflect")]), node("Mod", ["i", "modulus"], ["rest"]),
        node("GatherND", ["x", "pair"], ["entries"], attributes=[integer("batch_dims", 1)]),
        node("Concat", ["rows", "place"], ["own"], attributes=[integer("axis", 1)]), node("GatherND", ["x", "own"], ["ended"]),
        node("Selu", ["x"], ["selu"]), node("ReduceLogSumExp", ["x", "axes"], ["mass"]), node("Asinh", ["x"], ["asinh"]),
    ]  # fmt: skip
    number = {"k": 2, "repeats": (1, 2, 1), "axes": (1,), "last": (-1,), "first": (-9,), "pads": (0, 1, 2, 0, 2, 0)}
    constants = [("s", np.array([1, -2, 3, 0.5], F)), ("shape", np.array(x.shape)), ("values", np.array([0, 1], F))]
    constants += [(name, np.atleast_1d(np.array(value))) for name, value in number.items()]
    constants += [("rows", np.arange(4)[:, None]), ("one", np.array(1)), ("depth", np.array(6)), ("modulus", np.array([3]))]
    place = np.array([[3], [-1], [0], [2]])
    inputs = {"x": x, "i": i, "pair": rng.integers(0, 4, (4, 3, 2)), "place": place}
    names = "norm picked put sums best places running largest product tiled inner hot turned mirrored rest entries ended selu mass asinh".split()
    whole, parts = (
        compute(context, nodes, inputs, outputs=names, initializers=constants, options=[f"--microbatches={count}"]) for count in (1, 2)
    )
    for name in names:
        same(checks, f"{name} of micro-batches", parts[name], whole[name])
    same(checks, "GatherElements", parts["picked"], np.take_along_axis(x, i, 2))
    same(checks, "GatherND of own rows", parts["ended"], x[range(4), place[:, 0]])


def own_samples(context, checks):
    """What picks from, or puts into, each sample by the number of the sample does so in parts of a mini-batch."""
    rng = np.random.default_rng(4)
    x, v = rng.uniform(-2, 2, (4, 5, 3)).astype(F), rng.uniform(-2, 2, (4, 2, 3)).astype(F)
    i, j = rng.integers(0, 5, (4, 2)), rng.integers(-3, 3, (4, 2))
    few, k = v[:, :, :2].copy(), rng.integers(-5, 5, (4, 2, 2))
    rows = np.broadcast_to(np.arange(4)[:, None], (4, 2))
    added = [text("reduction", "add")]
    nodes = [
        # x[arange(4)[:, None], i]: tuples, and places in the flattened tensor.
        node("Unsqueeze", ["i", "behind"], ["i1"]), node("Unsqueeze", ["j", "behind"], ["j1"]),
        node("Concat", ["rows", "i1"], ["tuples"], attributes=[integer("axis", 2)]), node("GatherND", ["x", "tuples"], ["tupled"]),
        node("Concat", ["rows", "i1", "j1"], ["triples"], attributes=[integer("axis", 2)]), node("GatherND", ["x", "triples"], ["tripled"]),
        node("Mul", ["flat_rows", "five"], ["starts"]), node("Add", ["starts", "i"], ["places"]),
        node("Reshape", ["x", "flat"], ["flattened"]), node("Gather", ["flattened", "places"], ["from_flat"]),
        # The same of another axis: x[arange(4)[:, None], :, j].
        node("Transpose", ["x"], ["turned"], attributes=[integers("perm", 0, 2, 1)]),
        node("Concat", ["rows", "j1"], ["others"], attributes=[integer("axis", 2)]), node("GatherND", ["turned", "others"], ["columns"]),
        node("Reshape", ["turned", "flat_turned"], ["flat_columns"]), node("Mul", ["flat_rows", "three"], ["column_starts"]),
        node("Abs", ["j"], ["sizes"]), node("Min", ["sizes", "two"], ["small"]), node("Add", ["small", "column_starts"], ["column_places"]),
        node("Gather", ["flat_columns", "column_places"], ["from_columns"]),
        node("ScatterND", ["x", "tuples", "v"], ["put"]), node("ScatterND", ["x", "tuples", "v"], ["sums"], attributes=added),
        # x[arange(4)] is x.
        node("GatherND", ["x", "numbers"], ["same"]),
        # Indices for a part of the columns alone.
        node("ScatterElements", ["x", "k", "few"], ["some"], attributes=[integer("axis", 1), *added]),
    ]  # fmt: skip
    number = {"behind": [-1], "five": 5, "three": 3, "two": 2, "flat": [20, 3], "flat_turned": [12, 5], "numbers": np.arange(4)[:, None]}
    constants = [(name, np.array(value)) for name, value in number.items()]
    constants += [("rows", rows[:, :, None].copy()), ("flat_rows", rows.copy())]
    inputs = {"x": x, "v": v, "i": i, "j": j, "few": few, "k": k}
    put, sums, some = x.copy(), x.copy(), x.copy()
    for b in range(4):
        for t in range(2):
            put[b, i[b, t]] = v[b, t]
            sums[b, i[b, t]] += v[b, t]
            for c in range(2):
                some[b, k[b, t, c], c] += few[b, t, c]
    turned = x.transpose(0, 2, 1)
    want = {
        "tupled": x[rows, i], "tripled": x[rows, i, j], "from_flat": x[rows, i], "columns": turned[rows, j], "put": put, "sums": sums, "same": x,
        "some": some, "from_columns": turned[rows, np.minimum(abs(j), 2)],
    }  # fmt: skip
    for count in (1, 2, 4):
        got = compute(context, nodes, inputs, outputs=list(want), initializers=constants, options=[f"--microbatches={count}"])
        for name in want:
            same(checks, f"{name} of own samples in {count} micro-batches", got[name], want[name])


def test(context, checks, arguments):
    for part in (powers, logarithms, polynomials, quotients, resizes, indices, scattered_shapes, integers_of_any_value, legacy, outputs, without_elements, sums_of_broadcasts,
                 microbatches, own_samples):  # fmt: skip
        part(context, checks)


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

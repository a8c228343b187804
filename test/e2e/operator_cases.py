"""Compares every ONNX operator that is imported with NumPy.

    operator_cases.py BUILD

There is at least one case for each row of docs/operators.md. All cases of an
opset are one model, whose inputs and outputs are flattened to one sample.
"""

import collections
import itertools
import math
import pathlib
import re
import sys

import numpy as np

import common
import graph_cases

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "test" / "models" / "bad"))
from make import graph, integer, integers, message, model, node, opset, tensor, text, untyped, value  # noqa: E402

F, I, B = np.float32, np.int64, np.bool_
TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11,
    "uint32": 12, "uint64": 13,
}  # fmt: skip

Case = collections.namedtuple("Case", "nodes inputs constants expected tolerance")
CASES = collections.defaultdict(list)  # by opset
TESTED = set()


def code_of(array):
    return TYPES[array.dtype.name]


def constant_of(name, array):
    return tensor(name, list(array.shape), raw=np.ascontiguousarray(array).tobytes(), dtype=code_of(array))


def attribute_of(name, given):
    if isinstance(given, bool | int):
        return integer(name, int(given))
    if isinstance(given, float):
        return message((1, name), (2, given), (20, 1))
    if isinstance(given, str):
        return text(name, given)
    if isinstance(given, np.ndarray):
        return message((1, name), (5, constant_of("", given)), (20, 4))
    if given and isinstance(given[0], float):
        return message((1, name), (7, list(given)), (20, 6))
    return integers(name, *given)


class Known:
    """An operand that is an initializer: known to the compiler."""

    def __init__(self, *arguments, dtype=I):
        self.array = np.array(*arguments, dtype=dtype)


def case(op, operands, expected, version=20, tolerance=1e-6, **attributes):
    """One node: operands are arrays (inputs), Known ones, or None. The expected
    arrays are those of the node's outputs."""
    expected = expected if isinstance(expected, list) else [expected]
    names = [None if operand is None else f"x{i}" for i, operand in enumerate(operands)]
    inputs = {name: x for name, x in zip(names, operands) if isinstance(x, np.ndarray)}
    constants = {name: x.array for name, x in zip(names, operands) if isinstance(x, Known)}
    # The type says how many bits a number has.
    expected = [np.asarray(y) for y in expected]

    def nodes(prefix):
        listed = [attribute_of(name, given) for name, given in attributes.items()]
        outputs = [f"{prefix}y{i}" for i in range(len(expected))]
        return [node(op, [prefix + name if name else "" for name in names], outputs, attributes=listed)]

    add(op, nodes, inputs, constants, expected, version, tolerance)


def add(op, nodes, inputs, constants, expected, version=20, tolerance=1e-6):
    """`nodes(prefix)` gives the nodes, whose names begin with the prefix."""
    TESTED.add(op)
    CASES[version].append((op, Case(nodes, inputs, constants, expected, tolerance)))


def numbers(*shape, low=-2.0, high=2.0, dtype=F, seed=itertools.count(1)):
    return np.random.default_rng(next(seed)).uniform(low, high, shape).astype(dtype)


erf = np.vectorize(math.erf)


def each(function, x):
    return function(x.astype(np.float64)).astype(x.dtype)


def elementwise():
    x, positive, y = numbers(2, 3), numbers(2, 3, low=0.2, high=4), numbers(2, 3)
    unary = {
        "Abs": np.abs, "Ceil": np.ceil, "Cos": np.cos, "Erf": erf, "Exp": np.exp, "Floor": np.floor, "Neg": np.negative,
        "Reciprocal": lambda x: F(1) / x, "Relu": lambda x: np.maximum(x, 0), "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "Sign": np.sign, "Sin": np.sin, "Tanh": np.tanh,
        "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1), "Identity": lambda x: x,
        "Gelu": lambda x: x * (1 + erf(x / math.sqrt(2))) / 2,
    }  # fmt: skip
    for op, function in unary.items():
        case(op, [x], each(function, x), tolerance=2e-6)
    case("Abs", [np.array([[3, -4]])], np.array([[3, 4]]))
    large = np.array([-200, -20, 0, 20, 200], F)
    case("Softplus", [large], each(lambda x: np.logaddexp(x, 0), large))
    case("Log", [positive], each(np.log, positive))
    case("Sqrt", [positive], each(np.sqrt, positive))
    case("Gelu", [x], each(lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2, x), approximate="tanh")
    case("HardSigmoid", [x], each(lambda x: np.clip(0.3 * x + 0.4, 0, 1), x), alpha=0.3, beta=0.4)
    case("HardSigmoid", [x], each(lambda x: np.clip(0.2 * x + 0.5, 0, 1), x))
    case("LeakyRelu", [x], np.where(x < 0, F(0.01) * x, x))
    case("LeakyRelu", [x], np.where(x < 0, F(0.3) * x, x), alpha=0.3)
    case("Clip", [x, Known(-0.5, dtype=F), Known(0.75, dtype=F)], np.clip(x, -0.5, 0.75))
    case("Clip", [x, None, Known(0.25, dtype=F)], np.minimum(x, F(0.25)))
    row = numbers(3, low=0.5, high=2)
    binary = {
        "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Max": np.maximum, "Min": np.minimum, "Sum": np.add,
    }  # fmt: skip
    for op, function in binary.items():
        case(op, [x, row], function(x, row))
        wide, tall = numbers(2, 1, 3, dtype=np.float64), numbers(4, 1, low=1, dtype=np.float64)
        case(op, [wide, tall], function(wide, tall))
    column = numbers(2, 1, low=1, high=2)
    case("Sub", [column, row], column - row)
    case("Div", [column, row], column / row)
    case("Max", [x, row, column], np.maximum(np.maximum(x, row), column))
    case("Min", [x], x)
    case("Sum", [x, row, y], x + row + y)
    case("Pow", [positive, y], each(lambda a: a ** y.astype(np.float64), positive), tolerance=1e-5)
    bases, exponents = np.array([1, 2, 3, -3, 7, 10]), np.array([4, 5, 6, 7, 11, 12])
    case("Pow", [bases, exponents], bases**exponents)
    case("Pow", [bases, Known(5)], bases**5)
    case("Pow", [x, Known(3.0, dtype=F)], x * x * x)
    wholes, others = np.array([[7, -7, 5], [-3, 9, 0]]), np.array([[2, 2, -7], [-3, 4, 1]])
    case("Sub", [wholes, others], wholes - others)
    case("Mul", [wholes.astype(np.int32), others.astype(np.int32)], (wholes * others).astype(np.int32))
    # Of what the compiler knows.
    case("Mod", [wholes, others], np.mod(wholes, others))
    case("Mod", [wholes, others], np.fmod(wholes, others), fmod=1)
    case("Mod", [x, row], np.fmod(x, row), fmod=1)
    case("Mod", [Known(wholes), Known(others)], np.mod(wholes, others))
    case("Mod", [Known(wholes), Known(others)], np.fmod(wholes, others), fmod=1)
    case("Mod", [Known(5.5, dtype=F), Known([2.0, -3.0], dtype=F)], np.fmod(F(5.5), np.array([2, -3], F)), fmod=1)
    mask, other = numbers(2, 3) > 0, numbers(2, 3) > 0
    z = np.where(mask, x, y)
    comparisons = {
        "Equal": np.equal, "Greater": np.greater, "GreaterOrEqual": np.greater_equal, "Less": np.less, "LessOrEqual": np.less_equal,
    }  # fmt: skip
    for op, function in comparisons.items():
        case(op, [x, z], function(x, z))
        case(op, [wholes, Known(others)], function(wholes, others))
        case(op, [Known(wholes), Known(others)], function(wholes, others))
    case("Equal", [mask, other], mask == other)
    case("Sign", [wholes], np.sign(wholes))
    case("Sign", [np.array([0, 7, 200], np.uint8)], np.array([0, 1, 1], np.uint8))
    case("Relu", [wholes.astype(np.int32)], np.maximum(wholes, 0).astype(np.int32))
    case("And", [mask, other], mask & other)
    case("Or", [mask, other], mask | other)
    case("Not", [mask], ~mask)
    case("Where", [mask, x, row], np.where(mask, x, row))
    case("Where", [Known([True, False, True], dtype=B), wholes, Known(4)], np.where([True, False, True], wholes, 4))
    case("Cast", [x * 9], (x * 9).astype(I), to=7)
    case("Cast", [wholes], wholes.astype(F), to=1)
    case("Cast", [wholes], wholes != 0, to=9)
    case("CastLike", [wholes, x], wholes.astype(F))
    case("Dropout", [x], x)
    case("Dropout", [x, Known(0.4, dtype=F), Known(False, dtype=B)], x)
    # What is the same however it is drawn.
    case("Bernoulli", [np.array([[0, 1, 1, 0]], F)], np.array([[0, 1, 1, 0]], F))
    case("RandomNormal", [], np.full((2, 3), 1.5, F), shape=[2, 3], mean=1.5, scale=0.0)
    case("RandomNormalLike", [x], np.full_like(x, 1.5), mean=1.5, scale=0.0)
    case("RandomUniform", [], np.full((2, 3), 1.5, F), shape=[2, 3], low=1.5, high=1.5)
    case("RandomUniformLike", [x], np.full_like(x, 1.5), low=1.5, high=1.5)


def constants():
    """Numbers that are known at import, and what is folded from them."""
    case("Constant", [], np.array([[1.5, -2.0]], F), value=np.array([[1.5, -2.0]], F))
    case("Constant", [], np.array([True, False]), value=np.array([True, False]))
    case("Constant", [], np.array(2.5, F), value_float=2.5)
    case("Constant", [], np.array([2.5, -1], F), value_floats=[2.5, -1.0])
    case("Constant", [], np.array(-7), value_int=-7)
    case("Constant", [], np.array([3, -7]), value_ints=[3, -7])
    case("ConstantOfShape", [Known([2, 3])], np.zeros((2, 3), F))
    case("ConstantOfShape", [Known([2, 1])], np.full((2, 1), -5), value=np.array([-5]))
    case("Range", [Known(3), Known(11), Known(2)], np.arange(3, 11, 2))
    case("Range", [Known(1.0, dtype=F), Known(-1.0, dtype=F), Known(-0.5, dtype=F)], np.arange(1, -1, -0.5, F))
    case("ReduceProd", [Known([2, 3, -4])], np.array([-24]), version=17)
    case("ReduceProd", [Known([2, 3, -4]), Known([0])], np.array(-24), keepdims=0)
    case("Shape", [numbers(2, 3, 4)], np.array([2, 3, 4]))
    case("Shape", [numbers(2, 3, 4)], np.array([3, 4]), start=1)
    case("Shape", [numbers(2, 3, 4)], np.array([2, 3]), end=-1)
    a, b = np.array([[4, -9, 2], [0, 5, 1]]), np.array([2, 3, -2])
    quotient = np.trunc(a / b).astype(I)
    for op, want in {"Add": a + b, "Sub": a - b, "Mul": a * b, "Div": quotient, "Max": np.maximum(a, b), "Min": np.minimum(a, b)}.items():
        case(op, [Known(a), Known(b)], want)
    c = np.array([0.25, 2.0, 9.0], F)
    functions = {
        "Sqrt": np.sqrt, "Exp": np.exp, "Log": np.log, "Neg": np.negative, "Floor": np.floor, "Ceil": np.ceil, "Abs": np.abs,
        "Reciprocal": lambda x: F(1) / x,
    }  # fmt: skip
    for op, function in functions.items():
        # Only single numbers are constants and not parameters.
        for number in c:
            case(op, [Known(number, dtype=F)], function(number))
    case("Not", [Known([True, False], dtype=B)], np.array([False, True]))
    case("And", [Known([True, False], dtype=B), Known(True, dtype=B)], np.array([True, False]))
    case("Or", [Known([True, False], dtype=B), Known(False, dtype=B)], np.array([True, False]))
    case("Cast", [Known(-2.75, dtype=F)], np.array(-2), to=7)
    case("Cast", [Known([300, -129])], np.array([300, -129]).astype(np.int8), to=3)
    case("Cast", [Known([3, 0])], np.array([True, False]), to=9)
    case("Where", [Known([[True], [False]], dtype=B), Known(b), Known(7)], np.where([[True], [False]], b, 7))
    case("Concat", [Known([1, 2]), Known([], dtype=I), Known([3])], np.array([1, 2, 3]), axis=0)
    case("Concat", [Known(a), Known(a)], np.concatenate([a, a], 1), axis=1)
    case("Gather", [Known(a), Known([[1, 0], [-1, 2]])], a[:, [[1, 0], [-1, 2]]], axis=1)
    case("Gather", [Known(b), Known(-1)], b[-1])
    case("Slice", [Known(b), Known([1]), Known([9]), Known([0]), Known([2])], b[1::2])
    case("Slice", [Known(a), Known([-2]), Known([3]), Known([1])], a[:, -2:])
    case("Reshape", [Known(a), Known([3, -1])], a.reshape(3, 2))
    case("Unsqueeze", [Known(b), Known([0, -1])], b[None, :, None])
    case("Squeeze", [Known(b[None, :, None]), Known([0])], b[:, None])
    case("Expand", [Known(b), Known([2, 1])], np.broadcast_to(b, (2, 3)))
    case("Transpose", [Known(a)], a.T)


def shapes():
    x = numbers(2, 3, 4)
    y = numbers(2, 1, 4)
    case("Concat", [x, y, x], np.concatenate([x, y, x], 1), axis=-2)
    case("Expand", [y, Known([3, 1])], np.broadcast_to(y, (2, 3, 4)))
    case("Flatten", [x], x.reshape(2, 12))
    case("Flatten", [x], x.reshape(6, 4), axis=-1)
    case("Flatten", [x], x.reshape(1, 24), axis=0)
    case("Gather", [x, np.array([[2, 0], [-1, 1]])], x[:, [[2, 0], [-1, 1]]], axis=1)
    case("Gather", [x, Known([3, 0])], x[:, :, [3, 0]], axis=2)
    case("Gather", [x, Known(-1)], x[-1])
    padded = np.pad(x, ((0, 1), (2, 0), (0, 0)))
    case("Pad", [x, Known([0, 2, 0, 1, 0, 0])], padded)
    case("Pad", [x, Known([1, 2]), Known(7.0, dtype=F), Known([-1])], np.pad(x, ((0, 0), (0, 0), (1, 2)), constant_values=7))
    whole = np.array([[3, -1, 4], [1, -5, 9]])
    reductions = {
        "ReduceMax": np.max, "ReduceMin": np.min, "ReduceSum": np.sum, "ReduceMean": np.mean, "ReduceProd": np.prod,
        "ReduceL1": lambda x, **keywords: np.sum(np.abs(x), **keywords),
        "ReduceSumSquare": lambda x, **keywords: np.sum(np.square(x), **keywords),
    }  # fmt: skip
    real = {
        "ReduceL2": lambda x, **keywords: np.sqrt(np.sum(np.square(x), **keywords)),
        "ReduceLogSum": lambda x, **keywords: np.log(np.sum(x, **keywords)),
        "ReduceLogSumExp": lambda x, **keywords: np.log(np.sum(np.exp(x), **keywords)),
    }
    positive = np.abs(x) + F(0.1)
    for op, function in real.items():
        case(op, [positive, Known([1])], function(positive, axis=1, keepdims=True), tolerance=1e-5)
        case(op, [positive, Known([-1, 0])], function(positive, axis=(0, 2)), keepdims=0, tolerance=1e-5)
        case(op, [positive], function(positive, axis=(0, 2)), keepdims=0, axes=[0, 2], version=13, tolerance=1e-5)
    case("ReduceL2", [np.zeros((2, 3), F), Known([1])], np.zeros((2, 1), F))
    case("ReduceLogSumExp", [np.array([1000, 1001, -np.inf], F)], np.array([1000 + np.log1p(np.e)], F))
    for op, function in reductions.items():
        case(op, [x, Known([1])], function(x, axis=1, keepdims=True), tolerance=1e-5)
        case(op, [x, Known([-1, 0])], function(x, axis=(0, 2)), keepdims=0, tolerance=1e-5)
        case(op, [x], function(x, keepdims=True), tolerance=1e-5)
        if op not in ("ReduceL1", "ReduceSumSquare"):
            case(op, [x], x, noop_with_empty_axes=1)
        want = function(whole, axis=1) if op != "ReduceMean" else np.trunc(function(whole, axis=1)).astype(I)
        case(op, [whole, Known([1])], want, keepdims=0)
    case("Reshape", [x, Known([0, -1, 2])], x.reshape(2, 6, 2))
    case("Slice", [x, Known([1, -3]), Known([9, -1]), Known([1, 2])], x[:, 1:, -3:-1])
    case("Slice", [x, Known([0]), Known([4]), Known([2]), Known([3])], x[:, :, ::3])
    case("Split", [x, Known([1, 3])], [x[:, :, :1], x[:, :, 1:]], axis=2)
    case("Split", [x], [x[:1], x[1:]], axis=0, num_outputs=2)
    case("Squeeze", [y, Known([-2])], y[:, 0])
    case("Squeeze", [y], y[:, 0])
    case("Transpose", [x], x.T)
    case("Transpose", [x], x.transpose(1, 2, 0), perm=[1, 2, 0])
    # Of matrices with squares of eight numbers, which end inside of one or not; beside axes that stay.
    for shape, perm in (
        ((8, 8), (1, 0)), ((16, 40), (1, 0)), ((9, 31), (1, 0)), ((150, 17), (1, 0)), ((7, 33), (1, 0)), ((3, 10, 20), (0, 2, 1)),
        ((12, 3, 19), (2, 0, 1)), ((2, 9, 3, 13), (0, 2, 3, 1)), ((9, 2, 11, 8), (3, 1, 0, 2)), ((2, 3, 8, 1, 9), (4, 1, 3, 2, 0)),
    ):  # fmt: skip
        for kind in (F, I, np.uint8, np.float64, np.int16):
            y = np.arange(math.prod(shape)).reshape(shape).astype(kind)
            case("Transpose", [y], y.transpose(perm), perm=list(perm))
    y = np.arange(20 * 9).reshape(20, 9) % 7 > 3
    case("Transpose", [y], y.T)
    case("Trilu", [x], np.triu(x))
    case("Trilu", [x, Known(-1)], np.tril(x, -1), upper=0)
    case("Unsqueeze", [x, Known([0, -1])], x[None, ..., None])

    for op, keep in itertools.product(("SplitToSequence", "SequenceAt"), (0, 1)):

        def nodes(prefix, keep=keep):
            whole = prefix + "sequence"
            return [
                node("SplitToSequence", [prefix + "x"], [whole], attributes=[integer("axis", 1), integer("keepdims", keep)]),
                node("SequenceAt", [whole, prefix + "at"], [prefix + "y0"]),
            ]

        add(op, nodes, {"x": x}, {"at": np.array(-2)}, [x[:, 1:2] if keep else x[:, 1]])

    def pieces(prefix):
        return [
            node("SplitToSequence", [prefix + "x", prefix + "sizes"], [prefix + "s"], attributes=[integer("axis", 2)]),
            node("SequenceAt", [prefix + "s", prefix + "at"], [prefix + "y0"]),
        ]

    add("SplitToSequence", pieces, {"x": x}, {"sizes": np.array([1, 3]), "at": np.array(1)}, [x[:, :, 1:]])
    add("SplitToSequence", pieces, {"x": x}, {"sizes": np.array(3), "at": np.array(1)}, [x[:, :, 3:]])
    image = numbers(1, 2, 2, 3)
    twice = image.repeat(2, 2).repeat(3, 3)
    case("Resize", [image, None, Known([1, 1, 2, 3], dtype=F)], twice, mode="nearest", nearest_mode="floor",
         coordinate_transformation_mode="asymmetric")  # fmt: skip
    case("Resize", [image, None, None, Known([1, 2, 4, 9])], twice, nearest_mode="floor", coordinate_transformation_mode="asymmetric")
    case("Upsample", [image, Known([1, 1, 2, 3], dtype=F)], twice, version=9)


def functions():
    """Functions of a number, and activations."""
    x, near, large = numbers(2, 3), numbers(2, 3, low=-0.99, high=0.99), numbers(2, 3, low=1.01, high=50)
    tiny = np.array([1e-30, -2e-12, 3e-5, -0.0], F)
    for op, function, domain in (
        ("Tan", np.tan, x), ("Asin", np.arcsin, near), ("Acos", np.arccos, near), ("Atan", np.arctan, x), ("Sinh", np.sinh, x),
        ("Cosh", np.cosh, x), ("Asinh", np.arcsinh, x), ("Acosh", np.arccosh, large), ("Atanh", np.arctanh, near), ("Round", np.round, x),
    ):  # fmt: skip
        case(op, [domain], each(function, domain), tolerance=3e-6)
    for op, function in (("Sinh", np.sinh), ("Asinh", np.arcsinh), ("Atanh", np.arctanh)):
        case(op, [tiny], each(function, tiny), tolerance=1e-5)
    ends = np.array([-1, 1], F)
    case("Asin", [ends], each(np.arcsin, ends))
    case("Acos", [ends], each(np.arccos, ends))
    huge = np.array([-3e38, -1e20, 1e10, 3e38], F)
    case("Asinh", [huge], each(np.arcsinh, huge))
    case("Round", [np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2.4], F)], np.array([0, 2, 2, -0.0, -2, 2], F))
    odd = np.array([np.nan, np.inf, -np.inf, 0, 1], F)
    case("IsNaN", [odd], np.isnan(odd))
    case("IsInf", [odd], np.isinf(odd))
    case("IsInf", [odd], np.isposinf(odd), detect_negative=0)
    case("IsInf", [odd], np.isneginf(odd), detect_positive=0)
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    case("Xor", [a, b], a ^ b)
    wide = np.array([-200, -3, -1e-6, 0, 0.4, 3, 200], F)
    low = np.minimum(wide, 0).astype(np.float64)
    for op, want, attributes in (
        ("Elu", np.where(wide > 0, wide, np.expm1(low)), {}),
        ("Elu", np.where(wide > 0, wide, 0.3 * np.expm1(low)), {"alpha": 0.3}),
        ("Celu", np.where(wide > 0, wide, 2 * np.expm1(low / 2)), {"alpha": 2.0}),
        ("Selu", 1.0507009873554805 * np.where(wide > 0, wide, 1.6732632423543772 * np.expm1(low)), {}),
        ("Selu", 3 * np.where(wide > 0, wide, 2 * np.expm1(low)), {"alpha": 2.0, "gamma": 3.0}),
        ("Softsign", wide / (1 + np.abs(wide)), {}),
        ("ThresholdedRelu", np.where(wide > 1, wide, 0), {}),
        ("ThresholdedRelu", np.where(wide > 0.3, wide, 0), {"alpha": 0.3}),
        ("Shrink", np.where(wide > 0.5, wide, 0) + np.where(wide < -0.5, wide, 0), {}),
        ("Shrink", np.where(wide > 1, wide - 0.25, 0) + np.where(wide < -1, wide + 0.25, 0), {"lambd": 1.0, "bias": 0.25}),
    ):
        case(op, [wide], want.astype(F), version=22, tolerance=3e-6, **attributes)
    case("Mish", [wide], (wide * np.tanh(np.logaddexp(wide, 0))).astype(F), version=22, tolerance=3e-6)
    case("Swish", [x], each(lambda x: x / (1 + np.exp(-x)), x), version=24, tolerance=3e-6)
    case("Swish", [x], each(lambda x: x / (1 + np.exp(-0.5 * x)), x), version=24, tolerance=3e-6, alpha=0.5)
    slope = numbers(3)
    case("PRelu", [x, slope], np.where(x < 0, x * slope, x))
    image = numbers(2, 3, 2, 2)
    case("PRelu", [image, slope], np.where(image < 0, image * slope[:, None, None], image), version=6)


def indexed():
    """Operators on indices."""
    x = numbers(3, 4, 5)
    at = np.array([[[0, -1, 2, 1, 0]], [[3, 3, 1, 0, -4]], [[2, 2, 2, 2, 2]]])
    case("GatherElements", [x, at], np.take_along_axis(x, at, 1), axis=1)
    rows = np.array([[1, 0], [3, -1]])
    case("GatherElements", [x[:, :, 0].copy(), rows], np.take_along_axis(x[:2, :, 0], rows, 1), axis=-1)
    case("GatherElements", [Known([[4, 5], [6, 7]]), Known([[1, 0]])], np.array([[6, 5]]), axis=0)
    pairs = np.array([[0, 1], [2, -1], [1, 3]])
    case("GatherND", [x, pairs], x[[0, 2, 1], [1, -1, 3]])
    case("GatherND", [x, np.array([[[1]], [[0]]])], x[[[1], [0]]])
    case("GatherND", [x, np.array([[1], [-1], [0]])], x[[0, 1, 2], [1, -1, 0]], batch_dims=1)
    case("GatherND", [x, np.array([[[1, 2], [0, 0]]] * 3)], x[:, [1, 0], [2, 0]], batch_dims=1)
    want = x.copy()
    updates = numbers(3, 1, 5)
    np.put_along_axis(want, at, updates, 1)
    case("ScatterElements", [x, at, updates], want, axis=1)
    want = x.copy()
    for i, j, k in np.ndindex(at.shape):
        want[i, at[i, j, k], k] += updates[i, j, k]
    case("ScatterElements", [x, at, updates], want, axis=1, reduction="add")
    # Of places that are named twice, ONNX says nothing.
    apart = np.array([[1, 0], [3, -2]])
    want = x[:, :, 0].copy()
    np.put_along_axis(want[:2], apart, updates[:2, 0, :2], 1)
    for op, version in (("ScatterElements", 20), ("Scatter", 9)):
        case(op, [x[:, :, 0].copy(), apart, updates[:2, 0, :2].copy()], want, axis=1, version=version)
    want = x.copy()
    want[[0, 2, 1], [1, -1, 3]] = updates[:, 0]
    case("ScatterND", [x, pairs, updates[:, 0].copy()], want)
    want = x.copy()
    np.add.at(want, ([0, 0], [1, 1]), updates[:2, 0])
    case("ScatterND", [x, np.array([[0, 1], [0, 1]]), updates[:2, 0].copy()], want, reduction="add", tolerance=1e-5)
    case("ScatterND", [x, Known(np.zeros((0, 1))), Known(np.zeros((0, 4, 5)), dtype=F)], x)
    case("ScatterND", [Known([1, 2, 3]), np.array([[2], [0]]), np.array([7, 9])], np.array([9, 2, 7]))
    ties = np.array([[2, 7, 7, 1], [5, 5, 0, 0]], F)
    for op, function in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
        case(op, [x], np.expand_dims(function(x, 1), 1), axis=1)
        case(op, [ties], function(ties, 1), axis=-1, keepdims=0)
        case(op, [ties], 3 - function(ties[:, ::-1], 1), axis=-1, keepdims=0, select_last_index=1)
        case(op, [ties.astype(I)], function(ties, 0), keepdims=0)
    unknown = np.array([3, np.nan, 9], F)
    case("ArgMax", [unknown], np.array([1]))
    case("Hardmax", [ties], np.array([[0, 1, 0, 0], [1, 0, 0, 0]], F))
    case("Hardmax", [ties], np.array([[0, 1, 1, 1], [1, 0, 0, 0]], F), axis=0)
    order = np.argsort(-x, 1, kind="stable")[:, :2]
    case("TopK", [x, Known([2])], [np.take_along_axis(x, order, 1), order], axis=1)
    order = np.argsort(ties, 1, kind="stable")[:, :3]
    case("TopK", [ties, Known([3])], [np.take_along_axis(ties, order, 1), order], largest=0)
    case("TopK", [ties.astype(I), Known([4])], [np.array([[7, 7, 2, 1], [5, 5, 0, 0]]), np.array([[1, 2, 0, 3], [0, 1, 2, 3]])], sorted=0)
    case("TopK", [unknown, Known([2])], [np.array([np.nan, 9], F), np.array([1, 2])])
    # Many numbers, with and without equal ones, in both orders.
    for many in (numbers(3, 100), np.floor(4 * numbers(3, 100)), np.floor(9 * numbers(2, 65)).astype(I)):
        for count, largest in ((many.shape[1], 1), (many.shape[1], 0), (17, 1), (1, 0), (2, 1)):
            order = np.argsort(-many if largest else many, 1, kind="stable")[:, :count]
            case("TopK", [many, Known([count])], [np.take_along_axis(many, order, 1), order], largest=largest)
    case("TopK", [x], [x.max(2, keepdims=True), x.argmax(2)[..., None]], k=1, version=9)
    classes = np.array([[1, -1], [5, 0]])
    want = np.where(np.arange(4) == np.mod(classes, 4)[..., None], 3, -2)
    want[1, 0] = -2
    case("OneHot", [classes, Known(4), Known([-2, 3])], want)
    case("OneHot", [classes.astype(F), Known([4.0], dtype=F), Known([-2, 3], dtype=F)], np.moveaxis(want, -1, 1).astype(F), axis=1)
    sums = np.cumsum(x, 1)
    case("CumSum", [x, Known(1)], sums, tolerance=1e-5)
    case("CumSum", [x, Known(-2)], sums - x, exclusive=1, tolerance=1e-5)
    case("CumSum", [x, Known(1)], np.cumsum(x[:, ::-1], 1)[:, ::-1], reverse=1, tolerance=1e-5)
    case("CumSum", [classes, Known(0)], np.array([[5, 0], [0, 0]]), reverse=1, exclusive=1)
    # With a vector of numbers behind the axis, and some more.
    for y in (numbers(2, 5, 19), np.arange(3 * 17).reshape(3, 17) % 7, numbers(1, 16)):
        axis = y.ndim - 2
        for reverse, exclusive in itertools.product((0, 1), (0, 1)):
            turned = np.flip(y, axis) if reverse else y
            want = np.cumsum(turned, axis, dtype=y.dtype) - (turned if exclusive else 0)
            case("CumSum", [y, Known(axis)], np.flip(want, axis) if reverse else want, reverse=reverse, exclusive=exclusive, tolerance=1e-5)
    case("CumSum", [Known([[1, 2, 3], [4, 5, 6]]), Known(1)], np.array([[6, 5, 3], [15, 11, 6]]), reverse=1)
    case("CumSum", [Known([[1, 2, 3], [4, 5, 6]]), Known(1)], np.array([[0, 1, 3], [0, 4, 9]]), exclusive=1)


def arranged():
    """Operators that arrange elements."""
    x = numbers(2, 3, 4)
    case("Tile", [x, Known([1, 2, 3])], np.tile(x, (1, 2, 3)))
    case("Tile", [Known([[1, 2]]), Known([2, 2])], np.tile([[1, 2]], (2, 2)))
    case("Tile", [x, Known(2.0, dtype=F), Known(1.0, dtype=F)], np.tile(x, (1, 2, 1)), version=5)
    for mode in ("reflect", "edge", "wrap"):
        case("Pad", [x, Known([0, 2, 1, 1, 0, 3])], np.pad(x, ((0, 1), (2, 0), (1, 3)), mode=mode), mode=mode)
    case("Pad", [x, Known([0, -1, 0, 0, 2, -2])], np.pad(x[:, 1:, :-2], ((0, 0), (0, 2), (0, 0))))
    known = np.array([[True, False]])
    case("Pad", [known, Known([0, 1, 1, 0])], np.pad(known, ((0, 1), (1, 0))))
    case("Pad", [known, Known([0, 1, 0, 1]), Known(True, dtype=B)], np.pad(known, ((0, 0), (1, 1)), constant_values=True))
    whole = np.array([[1, 2], [3, 4]])
    case("Pad", [whole, Known([1, 0, 0, 2]), Known(-7)], np.pad(whole, ((1, 0), (0, 2)), constant_values=-7))
    case("Slice", [x, Known([-1, 3]), Known([-9, 0]), Known([1, 2]), Known([-1, -2])], x[:, ::-1, 3:0:-2])
    case("Slice", [Known([1, 2, 3]), Known([9]), Known([-(2**63)]), Known([0]), Known([-1])], np.array([3, 2, 1]))
    image = numbers(2, 8, 2, 3)
    deep = image.reshape(2, 2, 2, 2, 2, 3)
    case("DepthToSpace", [image], deep.transpose(0, 3, 4, 1, 5, 2).reshape(2, 2, 4, 6), blocksize=2)
    case("DepthToSpace", [image], deep.transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 4, 6), blocksize=2, mode="CRD")
    flat = numbers(1, 2, 4, 6)
    case("SpaceToDepth", [flat], flat.reshape(1, 2, 2, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 8, 2, 3), blocksize=2)
    case("Size", [x], np.array(24))
    case("EyeLike", [whole.astype(F)], np.eye(2, dtype=F))
    case("EyeLike", [whole], np.eye(2, k=1, dtype=F), k=1, dtype=1)
    a, b, c = numbers(2, 3, 4), numbers(2, 4, 5), numbers(5)
    for equation, operands in {
        "bij,bjk->bik": [a, b], "bij, bjk": [a, b], "bij->jb": [a], "bij,bjk,k->bi": [a, b, c], "i,j->ij": [c, c], "i,i->": [c, c],
        "...ij,...jk->...ik": [a, b], "bij,cjk->bcik": [a, b], "i,i->i": [c, c], "bij->": [a],
    }.items():  # fmt: skip
        case("Einsum", operands, np.asarray(np.einsum(equation, *operands), F), equation=equation, tolerance=1e-5)
    square = numbers(3, 3)
    for equation in ("ii->i", "ii", "...ii->...i"):
        case("Einsum", [square], np.asarray(np.einsum(equation, square), F), equation=equation)


def attentions():
    q, k, v = numbers(2, 4, 3, 8), numbers(2, 2, 5, 8), numbers(2, 2, 5, 6)

    def attend(q, k, v, bias, scale, cap=0):
        scores = np.einsum("bhid,bhjd->bhij", q, k.repeat(q.shape[1] // k.shape[1], 1)) * scale
        shown = scores.astype(F)
        if cap:
            scores = cap * np.tanh(scores / cap)
        scores = scores + bias
        with np.errstate(invalid="ignore"):
            weights = np.nan_to_num(np.exp(scores - scores.max(-1, keepdims=True)))
        weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-30)
        return np.einsum("bhij,bhjd->bhid", weights, v.repeat(q.shape[1] // v.shape[1], 1)).astype(F), shown

    scale = 1 / math.sqrt(8)
    causal = np.where(np.tri(3, 5, dtype=bool), 0, -np.inf)
    options = {"version": 23, "tolerance": 1e-5}
    case("Attention", [q, k, v], attend(q, k, v, 0, scale)[0], **options)
    case("Attention", [q, k, v], attend(q, k, v, causal, 0.5)[0], is_causal=1, scale=0.5, **options)
    bias = numbers(2, 1, 3, 5)
    want, shown = attend(q, k, v, bias, scale, 0.75)
    case("Attention", [q, k, v, bias], want, softcap=0.75, **options)
    mask = bias > 0
    mask[1, :, 2] = False
    want, _ = attend(q, k, v, np.where(mask, 0, -np.inf), scale)
    case("Attention", [q, k, v, mask], want, **options)

    def flat(x):
        return np.ascontiguousarray(x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1))

    past_k, past_v = numbers(2, 2, 1, 8), numbers(2, 2, 1, 6)
    all_k, all_v = np.concatenate([past_k, k], 2), np.concatenate([past_v, v], 2)
    want, shown = attend(q, all_k, all_v, np.where(np.tri(3, 6, 1, dtype=bool), 0, -np.inf), scale)
    case("Attention", [flat(q), flat(k), flat(v), None, past_k, past_v], [flat(want), all_k, all_v, shown], is_causal=1, q_num_heads=4,
         kv_num_heads=2, **options)  # fmt: skip
    cosine, sine = numbers(7, 3), numbers(7, 3)
    positions = np.array([[3, 0, 1], [6, 2, 2]])
    c, s = cosine[positions][:, None], sine[positions][:, None]
    for interleaved in (0, 1):
        first, second = (q[..., 0:6:2], q[..., 1:6:2]) if interleaved else (q[..., :3], q[..., 3:6])
        real, other = first * c - second * s, first * s + second * c
        turned = np.stack([real, other], -1).reshape(2, 4, 3, 6) if interleaved else np.concatenate([real, other], -1)
        want = np.concatenate([turned, q[..., 6:]], -1)
        case("RotaryEmbedding", [q, cosine, sine, positions], want, interleaved=interleaved, rotary_embedding_dim=6, **options)
    case("RotaryEmbedding", [flat(q), cosine, sine, positions], flat(want), interleaved=1, rotary_embedding_dim=6, num_heads=4, **options)


def losses():
    scores, labels, weights = numbers(4, 3, 2), np.array([[0, 2], [1, 1], [2, 0], [2, 2]]), numbers(3, low=0.5, high=2)
    shifted = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    for op, likelihoods in (("NegativeLogLikelihoodLoss", scores), ("SoftmaxCrossEntropyLoss", shifted)):
        each_loss = -np.take_along_axis(likelihoods, labels[:, None], 1)[:, 0]
        case(op, [scores, labels], each_loss.mean(), tolerance=1e-5)
        case(op, [scores, labels], each_loss.sum(), reduction="sum", tolerance=1e-5)
        own = weights[labels]
        case(op, [scores, labels, weights], each_loss * own, reduction="none", tolerance=1e-5)
        case(op, [scores, labels, weights], (each_loss * own).sum() / own.sum(), tolerance=1e-5)
        counted = labels != 2
        case(op, [scores, labels], (each_loss * counted).sum() / counted.sum(dtype=F), ignore_index=2, tolerance=1e-5)
    case("SoftmaxCrossEntropyLoss", [scores, labels], [each_loss.mean(), shifted], tolerance=1e-5)
    # Not of the standard, but what PyTorch exports where targets are probabilities.
    shares = numbers(4, 3, 2, low=0, high=1)
    each_loss = -(shifted * shares).sum(1)
    case("SoftmaxCrossEntropyLoss", [scores, shares], each_loss.mean(), tolerance=1e-5)
    case("SoftmaxCrossEntropyLoss", [scores, shares], each_loss, reduction="none", tolerance=1e-5)
    weighted = -(shifted * shares * weights[:, None]).sum(1)
    case("SoftmaxCrossEntropyLoss", [scores, shares, weights], weighted.sum(), reduction="sum", tolerance=1e-5)
    case("SoftmaxCrossEntropyLoss", [scores, shares, weights], weighted.mean(), tolerance=1e-5)


def windows(x, kernel, strides, dilations=(1, 1)):
    """The windows of the padded axes behind the first two, as trailing axes."""
    spatial = x.shape[2:]
    out = [(n - (k - 1) * d - 1) // s + 1 for n, k, s, d in zip(spatial, kernel, strides, dilations)]
    result = np.empty((*x.shape[:2], *out, *kernel), np.float64)
    for at in itertools.product(*map(range, out)):
        for inside in itertools.product(*map(range, kernel)):
            place = tuple(a * s + i * d for a, s, i, d in zip(at, strides, inside, dilations))
            result[(slice(None), slice(None), *at, *inside)] = x[(slice(None), slice(None), *place)]
    return result


def linear():
    a, b, c = numbers(2, 4), numbers(4, 3), numbers(3)
    case("MatMul", [a, b], a @ b)
    vector = numbers(4)
    case("MatMul", [vector, b], vector @ b)
    for left, right in (((2, 3), (3, 4)), ((3,), (3,)), ((3,), (2, 3, 4)), ((2, 1, 4, 3), (5, 3, 2)), ((2, 4, 3), (3,))):
        wholes = [numbers(*shape, low=-(2**40), high=2**40).astype(I) for shape in (left, right)]
        case("MatMul", wholes, np.asarray(wholes[0] @ wholes[1]))
    stack, other = numbers(2, 1, 3, 4), numbers(5, 4, 2)
    case("MatMul", [stack, other], stack @ other, tolerance=1e-5)
    case("Gemm", [a, b, c], a @ b + c, tolerance=1e-5)
    case("Gemm", [np.ascontiguousarray(a.T), np.ascontiguousarray(b.T), c], F(0.5) * (a @ b) + F(2) * c, transA=1, transB=1, alpha=0.5,
         beta=2.0, tolerance=1e-5)  # fmt: skip
    x, w, bias = numbers(2, 4, 5, 6), numbers(6, 2, 3, 2), numbers(6)
    strides, dilations, pads = (2, 1), (1, 2), [1, 0, 0, 2]
    padded = np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 2)))
    taken = windows(padded, (3, 2), strides, dilations)
    parts = [np.einsum("nchwij,ocij->nohw", taken[:, 2 * g : 2 * g + 2], w[3 * g : 3 * g + 3]) for g in range(2)]
    want = (np.concatenate(parts, 1) + bias[:, None, None]).astype(F)
    case("Conv", [x, w, bias], want, strides=strides, dilations=dilations, pads=pads, group=2, tolerance=1e-5)
    same = windows(np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 1))), (3, 2), (1, 1))
    want = np.einsum("nchwij,ocij->nohw", same[:, :2], w[:, :]).astype(F)
    case("Conv", [x[:, :2].copy(), w], want, auto_pad="SAME_UPPER", tolerance=1e-5)
    # Each channel alone has three outputs.
    w = numbers(12, 1, 3, 2)
    want = np.einsum("nchwij,cmij->ncmhw", taken, w.reshape(4, 3, 3, 2)).reshape(2, 12, *taken.shape[2:4]).astype(F)
    case("Conv", [x, w], want, strides=strides, dilations=dilations, pads=pads, group=4, tolerance=1e-5)
    line, kernel = numbers(1, 2, 3), numbers(2, 2, 2)
    spread = np.zeros((1, 2, 7), np.float64)
    for at, k in itertools.product(range(3), range(2)):
        spread[:, :, 2 * at + k] += np.einsum("nc,co->no", line[:, :, at], kernel[:, :, k])
    case("ConvTranspose", [line, kernel], spread.astype(F), strides=[2], output_padding=[1], tolerance=1e-5)
    # Numbers that lie apart: where two are largest, there is no derivative.
    apart = (np.random.default_rng(7).permutation(x.size).astype(F) / 60 - F(2.007)).reshape(x.shape)
    taken = windows(np.pad(apart, ((0, 0), (0, 0), (1, 0), (0, 1)), constant_values=-np.inf), (2, 3), (2, 1))
    case("MaxPool", [apart], taken.max((-2, -1)).astype(F), kernel_shape=[2, 3], strides=[2, 1], pads=[1, 0, 0, 1])
    taken = windows(np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 1)), constant_values=np.nan), (2, 3), (2, 1))
    case("AveragePool", [x], np.nanmean(taken, (-2, -1)).astype(F), kernel_shape=[2, 3], strides=[2, 1], pads=[1, 0, 0, 1], tolerance=1e-5)
    want = np.nan_to_num(taken).mean((-2, -1)).astype(F)
    case("AveragePool", [x], want, kernel_shape=[2, 3], strides=[2, 1], pads=[1, 0, 0, 1], count_include_pad=1, tolerance=1e-5)
    case("GlobalAveragePool", [x], x.mean((2, 3), keepdims=True), tolerance=1e-5)
    case("GlobalMaxPool", [apart], apart.max((2, 3), keepdims=True))


def normalizations():
    x = numbers(2, 3, 4)

    def softmax(x, axis):
        e = np.exp(x - x.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)

    case("Softmax", [x], softmax(x, -1))
    case("Softmax", [x], softmax(x, 1), axis=1)
    # Rows that fill no vector, one, and some with a rest; as many as a vector has, or not.
    for rows, columns in ((3, 21), (16, 10), (32, 37), (5, 16)):
        y = 9 * numbers(rows, columns)
        y[0, :] += 100
        y[1, ::2] = -np.inf
        case("Softmax", [y], softmax(y, 1), axis=1, tolerance=1e-5)
        with np.errstate(divide="ignore"):
            case("LogSoftmax", [y], np.log(softmax(y.astype(np.float64), 1)).astype(F), axis=1, tolerance=1e-5)
    case("LogSoftmax", [x], np.log(softmax(x.astype(np.float64), 0)).astype(F), axis=0, tolerance=1e-5)
    case("Softmax", [x], softmax(x.reshape(2, 12), 1).reshape(x.shape), version=11, axis=1)
    scale, shift = numbers(3, 4), numbers(3, 4)

    def normal(x, axes, epsilon):
        x = x.astype(np.float64)
        return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)

    case("LayerNormalization", [x, scale, shift], (normal(x, (1, 2), 1e-3) * scale + shift).astype(F), axis=1, epsilon=1e-3, tolerance=1e-5)
    mean, deviation = x.mean(2, keepdims=True), 1 / np.sqrt(x.var(2, keepdims=True) + F(1e-5))
    want = (normal(x, 2, 1e-5) * scale[0]).astype(F)
    case("LayerNormalization", [x, scale[0]], [want, mean, deviation], tolerance=1e-5)
    case("LayerNormalization", [x, scale[0]], (normal(x, 2, 1e-5) * scale[0]).astype(F), tolerance=1e-5)
    scale, shift, mean = numbers(3), numbers(3), numbers(3)
    variance = numbers(3, low=0.5, high=2)
    column = (slice(None), None)
    want = (x - mean[column]) / np.sqrt(variance[column] + F(1e-2)) * scale[column] + shift[column]
    column = (slice(None), None, None)
    image = numbers(2, 4, 3, 2)
    s, b = numbers(4), numbers(4)
    want = (normal(image, (2, 3), 1e-3) * s[column] + b[column]).astype(F)
    case("InstanceNormalization", [image, s, b], want, epsilon=1e-3, tolerance=1e-5)
    grouped = normal(image.reshape(2, 2, 12), 2, 1e-5).reshape(image.shape)
    case("GroupNormalization", [image, s, b], (grouped * s[column] + b[column]).astype(F), num_groups=2, version=21, tolerance=1e-5)
    want = (image / np.sqrt(np.square(image).mean((2, 3), keepdims=True) + F(1e-5))).astype(F)
    case("RMSNormalization", [image, np.ones((3, 2), F) * F(2)], 2 * want, axis=2, version=23, tolerance=1e-5)
    case("MeanVarianceNormalization", [image], normal(image, (0, 2, 3), 0).astype(F), tolerance=1e-5)
    for p in (1, 2):
        want = image / np.linalg.norm(image.astype(np.float64), p, 1, keepdims=True)
        case("LpNormalization", [image], want.astype(F), p=p, axis=1, tolerance=1e-5)
    square = np.pad(np.square(image), ((0, 0), (1, 1), (0, 0), (0, 0)))
    sums = square[:, :-2] + square[:, 1:-1] + square[:, 2:]
    want = image / (1.5 + F(0.3) / 3 * sums) ** 0.6
    case("LRN", [image], want.astype(F), size=3, alpha=0.3, beta=0.6, bias=1.5, tolerance=1e-5)
    column = (slice(None), None)
    want = (x - mean[column]) / np.sqrt(variance[column] + F(1e-2)) * scale[column] + shift[column]
    case("BatchNormalization", [x, scale, shift, mean, variance], want, epsilon=1e-2, tolerance=1e-5)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def recurrences():
    length, batch, width, hidden = 3, 2, 4, 5
    x = numbers(length, batch, width)

    def operands(gates, directions=1):
        return (
            numbers(directions, gates * hidden, width, low=-0.5, high=0.5),
            numbers(directions, gates * hidden, hidden, low=-0.5, high=0.5),
            numbers(directions, 2 * gates * hidden, low=-0.5, high=0.5),
        )

    def states(step, w, r, b, d, order, start):
        """The outputs of the steps, by place, and the last state."""
        state, ys = start, {}
        for place in order:
            gates = b.shape[1] // 2
            state = step(x[place] @ w[d].T, r[d], b[d, :gates], b[d, gates:], state)
            ys[place] = state[0]
        return np.stack([ys[place] for place in range(length)]), state

    def rnn(wx, r, wb, rb, state):
        return (np.tanh(wx + wb + state[0] @ r.T + rb),)

    def gru(resets_product):
        def step(wx, r, wb, rb, state):
            (h,) = state
            xs, rs, bs = np.split(wx + wb, 3, 1), np.split(r, 3), np.split(rb, 3)
            update, reset = sigmoid(xs[0] + h @ rs[0].T + bs[0]), sigmoid(xs[1] + h @ rs[1].T + bs[1])
            inner = reset * (h @ rs[2].T + bs[2]) if resets_product else (reset * h) @ rs[2].T + bs[2]
            return ((1 - update) * np.tanh(xs[2] + inner) + update * h,)

        return step

    def lstm(wx, r, wb, rb, state):
        h, c = state
        i, o, f, g = np.split(wx + wb + h @ r.T + rb, 4, 1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c

    zero = np.zeros((batch, hidden), F)
    for op, gates, step, more in (("RNN", 1, rnn, {}), ("GRU", 3, gru(False), {}), ("GRU", 3, gru(True), {"linear_before_reset": 1})):
        w, r, b = operands(gates)
        ys, (h,) = states(step, w, r, b, 0, range(length), (zero,))
        case(op, [x, w, r, b], [ys[:, None], h[None]], hidden_size=hidden, tolerance=1e-5, **more)
    w, r, b = operands(4, 2)
    h0, c0 = numbers(2, batch, hidden), numbers(2, batch, hidden)
    ahead, (h, c) = states(lstm, w, r, b, 0, range(length), (h0[0], c0[0]))
    back, (hb, cb) = states(lstm, w, r, b, 1, range(length)[::-1], (h0[1], c0[1]))
    want = [np.stack([ahead, back], 1), np.stack([h, hb]), np.stack([c, cb])]
    case("LSTM", [x, w, r, b, None, h0, c0], want, hidden_size=hidden, direction="bidirectional", tolerance=1e-5)
    # Gates lie in a framework's order, and nodes put them into that of the operator.
    reordered("LSTM", [x, w, r, b, None, h0, c0], want, hidden, [[0, 3, 1, 2], [0, 3, 1, 2]], direction="bidirectional")
    reordered("LSTM", [x, w, r, b, None, h0, c0], want, hidden, [[3, 2, 0, 1], [1, 0, 3, 2]], direction="bidirectional")
    for order in ([1, 0, 2], [2, 0, 1]):
        w, r, b = operands(3)
        ys, (h,) = states(gru(True), w, r, b, 0, range(length), (zero,))
        reordered("GRU", [x, w, r, b], [ys[:, None], h[None]], hidden, [order], linear_before_reset=1)


def reordered(op, operands, expected, hidden, orders, **attributes):
    """Gate i of the operator is gate orders[direction][i] of what the nodes begin with."""
    inputs = {f"x{i}": operand for i, operand in enumerate(operands) if operand is not None and not 1 <= i <= 3}
    constants, axis = {}, np.array([0])
    pieces = []  # of an operand: name, gates, order
    for d, order in enumerate(orders):
        for i in (1, 2, 3):
            for half, array in enumerate(np.split(operands[i][d], 2) if i == 3 else [operands[i][d]]):
                gates = np.split(array, len(order))
                inputs[name := f"g{i}{d}{half}"] = np.concatenate([gates[order.index(k)] for k in range(len(order))])
                pieces.append((name, order))
    for k in range(5):
        constants[f"s{k}"] = np.array([k * hidden])
    constants["axis"] = axis

    def nodes(prefix):
        result = []

        def make(kind, names, output, **more):
            result.append(node(kind, [prefix + each for each in names], [prefix + output], attributes=[attribute_of(*each) for each in more.items()]))

        for name, order in pieces:
            for i, k in enumerate(order):
                make("Slice", [name, f"s{k}", f"s{k + 1}", "axis"], f"{name}p{i}")
            make("Concat", [f"{name}p{i}" for i in range(len(order))], f"{name}c", axis=0)
        for i in (1, 2, 3):
            for d in range(len(orders)):
                if i == 3:
                    make("Concat", [f"g3{d}0c", f"g3{d}1c"], f"g{i}{d}", axis=0)
                make("Unsqueeze", [f"g{i}{d}" if i == 3 else f"g{i}{d}0c", "axis"], f"u{i}{d}")
            make("Concat", [f"u{i}{d}" for d in range(len(orders))], f"x{i}", axis=0)
        listed = [attribute_of(name, given) for name, given in {**attributes, "hidden_size": hidden}.items()]
        names = [prefix + f"x{i}" if operand is not None else "" for i, operand in enumerate(operands)]
        result.append(node(op, names, [f"{prefix}y{i}" for i in range(len(expected))], attributes=listed))
        return result

    add(op, nodes, inputs, constants, expected, tolerance=1e-5)


def phrases():
    """TfIdfVectorizer: the phrases 2, 3, (5 6), (7 8) and (6 7) are columns 0, 2, 3, 4 and 6."""
    words = np.array([[5, 6, 7, 8, 3], [6, 5, 7, 6, 8]], np.int32)
    pool = {"pool_int64s": [2, 3, 5, 6, 7, 8, 6, 7], "ngram_counts": [0, 2], "ngram_indexes": [0, 2, 3, 4, 6], "version": 9}
    together = np.array([[0, 0, 0, 1, 1, 0, 1], [0] * 7], F)
    case("TfIdfVectorizer", [words], together, mode="TF", min_gram_length=2, max_gram_length=2, max_skip_count=0, **pool)
    # Up to one word between: 6 . 7 and 5 . 6 and 7 . 8 of the second list.
    apart = together + np.array([[0] * 7, [0, 0, 0, 1, 1, 0, 1]], F)
    apart[0, 2] = 1
    case("TfIdfVectorizer", [words], apart, mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=1, **pool)
    weights = np.array([0, 0, 3, 4, 5, 0, 6], F)
    case("TfIdfVectorizer", [words[0]], weights * (apart[0] > 0), mode="IDF", min_gram_length=1, max_gram_length=2, max_skip_count=1, weights=[2.0, 3.0, 4.0, 5.0, 6.0], **pool)


def bits():
    for dtype in (np.uint8, np.int16, np.uint32, np.uint64, np.int64):
        x, y = (numbers(2, 3, low=0, high=120).astype(dtype) for _ in range(2))
        case("BitwiseAnd", [x, y], x & y)
        case("BitwiseOr", [x, y], x | y)
        case("BitwiseXor", [x, y], x ^ y)
        case("BitwiseNot", [x], ~x)
        case("Sub", [x, y], x - y)
        case("Mul", [x, x], x * x)
    for dtype in (np.uint8, np.uint64):
        x, count = np.array([1, 5, 255], dtype), np.array([3, 0, 7], dtype)
        case("BitShift", [x, count], x << count, direction="LEFT")
        case("BitShift", [x, count], x >> count, direction="RIGHT")
    high = np.array([2**63 + 5, 7], np.uint64)
    case("Div", [high, np.array([3, 2], np.uint64)], np.array([(2**63 + 5) // 3, 3], np.uint64))
    case("Greater", [high, high[::-1].copy()], np.array([True, False]))
    case("Cast", [high], high.astype(F), to=1)
    half = numbers(2, 3, dtype=np.float16)
    case("Add", [half, half[:1]], half + half[:1])
    case("Cast", [half], half.astype(np.float64), to=11)


def interpolated():
    x = numbers(1, 2, 3, 4)

    def resized(mode, length, axis, y, antialias=False):
        scale = length / y.shape[axis]
        at = (np.arange(length) + 0.5) / scale - 0.5
        shrink = min(scale, 1) if antialias else 1
        reach = math.ceil(2 / shrink)
        rows = np.zeros((length, y.shape[axis]))
        for i, place in enumerate(at):
            for tap in range(math.floor(place) + 1 - reach, math.floor(place) + reach + 1):
                d = abs(place - tap) * shrink
                if mode == "linear":
                    weight = max(0, 1 - d)
                else:
                    weight = 1.25 * d**3 - 2.25 * d**2 + 1 if d < 1 else -0.75 * (d**3 - 5 * d**2 + 8 * d - 4) if d < 2 else 0
                rows[i, min(max(tap, 0), y.shape[axis] - 1)] += weight
        if antialias:
            rows /= rows.sum(1, keepdims=True)
        return np.moveaxis(np.tensordot(rows, y, (1, axis)), 0, axis)

    for mode in ("linear", "cubic"):
        want = resized(mode, 7, 3, resized(mode, 5, 2, x))
        case("Resize", [x, None, None, Known([1, 2, 5, 7])], want.astype(F), mode=mode, tolerance=1e-5)
        # Of long axes, the last one and others, to more places and to fewer; places are counted in f32.
        for shape, axis, length in (((1, 2, 200), 2, 700), ((1, 130, 3), 1, 260), ((2, 1, 1000), 2, 40), ((1, 150, 2, 2), 1, 151), ((1, 1, 3000), 2, 12000)):
            y = numbers(*shape)
            sizes = Known([length if i == axis else size for i, size in enumerate(shape)])
            case("Resize", [y, None, None, sizes], resized(mode, length, axis, y).astype(F), mode=mode, tolerance=3e-4)
            want = resized(mode, length, axis, y, antialias=True).astype(F)
            case("Resize", [y, None, None, sizes], want, mode=mode, antialias=1, version=18, tolerance=3e-4)


def quantized():
    x, scale, zero = numbers(3, 4, low=-9, high=9), F(0.05), np.uint8(120)
    q = np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.uint8)
    case("QuantizeLinear", [x, np.array(scale), np.array(zero)], q)
    case("DequantizeLinear", [q, np.array(scale), np.array(zero)], (q.astype(F) - zero) * scale)
    scales = np.array([0.1, 0.2, 0.3], F)
    s = np.clip(np.rint(x / scales[:, None]), -128, 127).astype(np.int8)
    case("QuantizeLinear", [x, scales, np.zeros(3, np.int8)], s, axis=0)
    case("DequantizeLinear", [s, scales, np.zeros(3, np.int8)], s.astype(F) * scales[:, None], axis=0)
    blocks = numbers(3, 2, low=0.1)
    case("DequantizeLinear", [s, blocks], s.astype(F) * np.repeat(blocks, 2, 1), version=21, axis=1, block_size=2)
    low, high = min(x.min(), 0), max(x.max(), 0)
    step = (high - low) / F(255)
    start = np.clip(np.rint(-low / step), 0, 255).astype(np.uint8)
    want = np.clip(np.rint(x / step) + start, 0, 255).astype(np.uint8)
    case("DynamicQuantizeLinear", [x], [want, step, start])
    a, b = (numbers(*shape, low=0, high=255).astype(np.uint8) for shape in ((3, 300), (300, 2)))
    product = (a.astype(np.int32) - 12) @ (b.astype(np.int32) - 200)
    zeros = [np.array(12, np.uint8), np.array(200, np.uint8)]
    case("MatMulInteger", [a, b, *zeros], product)
    one = np.array(F(0.01))
    to, at = np.array(F(2.5)), np.array(100, np.uint8)
    want = np.clip(np.rint(product * F(0.01) * F(0.01) / to) + at, 0, 255).astype(np.uint8)
    case("QLinearMatMul", [a, one, zeros[0], b, one, zeros[1], to, at], want)
    image = numbers(1, 2, 4, 4, low=0, high=255).astype(np.uint8)
    weight = numbers(3, 2, 1, 1, low=0, high=255).astype(np.uint8)
    sums = np.einsum("bchw,kc->bkhw", image.astype(np.int32) - 12, weight.astype(np.int32)[:, :, 0, 0] - 200)
    case("ConvInteger", [image, weight, *zeros], sums.astype(np.int32))
    want = np.clip(np.rint(sums * F(0.01) * F(0.01) / to) + at, 0, 255).astype(np.uint8)
    case("QLinearConv", [image, one, zeros[0], weight, one, zeros[1], to, at], want)
    # The largest numbers, in sums that f32 holds only in parts: of one length, of several, of batches.
    def whole(*shape, dtype=np.uint8):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return np.where(numbers(*shape) < 1.6, high, low).astype(dtype)

    def product_of(a, b, za=0, zb=0):
        return ((a.astype(np.int64) - za) @ (b.astype(np.int64) - zb)).astype(np.int32)

    for rows, terms, columns in ((3, 1024, 5), (2, 521, 4), (1, 4096, 3), (9, 259, 1)):
        a, b, signed = whole(rows, terms), whole(terms, columns), whole(terms, columns, dtype=np.int8)
        case("MatMulInteger", [a, b], product_of(a, b))
        case("MatMulInteger", [a, Known(signed, dtype=np.int8), np.array(255, np.uint8)], product_of(a, signed, 255))
        case("MatMulInteger", [a, signed, np.array(3, np.uint8), Known(0, dtype=np.int8)], product_of(a, signed, 3))
        case("MatMulInteger", [signed.T.copy(), signed, None, np.array(-128, np.int8)], product_of(signed.T, signed, 0, -128))
    a, b = whole(2, 3, 700), whole(2, 700, 4)
    case("MatMulInteger", [a, b], product_of(a, b))
    case("MatMulInteger", [a, b[0]], product_of(a, b[0]))
    case("MatMulInteger", [a[0, 0], b[0]], product_of(a[0, 0], b[0]))

    def convolution_of(x, w, zero, groups=1):
        x = np.pad(x.astype(np.int64) - zero, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(2, 3)).reshape(x.shape[0], groups, -1, *x.shape[2:] - np.array([2, 2]), 3, 3)
        weights = w.astype(np.int64).reshape(groups, -1, *w.shape[1:])
        return np.einsum("ngchwij,gkcij->ngkhw", windows, weights).reshape(x.shape[0], -1, *windows.shape[3:5]).astype(np.int32)

    # 16 channels each way are what Winograd's algorithm is for, which rounds.
    for channels, outputs, groups in ((16, 16, 1), (80, 16, 1), (31, 3, 1), (128, 4, 2), (6, 12, 6)):
        x, w = whole(1, channels, 6, 6), whole(outputs, channels // groups, 3, 3, dtype=np.int8)
        case("ConvInteger", [x, w, np.array(255, np.uint8)], convolution_of(x, w, 255, groups), pads=[1, 1, 1, 1], group=groups)


PARTS = (
    elementwise, functions, constants, shapes, indexed, arranged, linear, normalizations, attentions, losses, recurrences, phrases, bits, interpolated,
    quantized,
)  # fmt: skip


def run(context, checks, version, cases):
    """Compiles and runs the cases of an opset."""
    # A graph has inputs.
    data = {"unused": np.zeros((1, 1), F)}
    nodes, infos, outputs, initializers = [], [value("unused", [1, 1])], [], [constant_of("flat", np.array([1, -1]))]
    for number, (_, test) in enumerate(cases):
        prefix = f"c{number}_"
        for name, array in test.inputs.items():
            data[prefix + name + "_flat"] = array.reshape(1, -1)
            infos.append(value(prefix + name + "_flat", [1, array.size], code_of(array)))
            initializers.append(constant_of(prefix + name + "_shape", np.array(array.shape, I)))
            nodes.append(node("Reshape", [prefix + name + "_flat", prefix + name + "_shape"], [prefix + name]))
        initializers += [constant_of(prefix + name, array) for name, array in test.constants.items()]
        nodes += test.nodes(prefix)
        for index in range(len(test.expected)):
            nodes.append(node("Reshape", [f"{prefix}y{index}", "flat"], [f"{prefix}out{index}"]))
            outputs.append(untyped(f"{prefix}out{index}"))
    path = context.path(".onnx")
    path.write_bytes(model(graph(nodes, inputs=infos, outputs=outputs, initializers=initializers), opsets=[opset(version)]))
    binary = context.compile(path)
    inputs = context.path(".npz")
    np.savez(inputs, **data)
    got = binary.infer(inputs, context.path(".npz"))
    for number, (op, test) in enumerate(cases):
        for index, want in enumerate(test.expected):
            found = got[f"c{number}_out{index}"].reshape(-1)
            good = found.dtype == want.dtype and np.allclose(found, want.reshape(-1), rtol=test.tolerance, atol=test.tolerance, equal_nan=True)
            checks.check(good, f"{op} of opset {version}, output {index}: {found} instead of {want.reshape(-1)}")


def imported():
    """The operators of the committed page."""
    page = (ROOT / "docs" / "operators.md").read_text()
    return set(re.findall(r"^\| ([A-Z]\w+) \|", page, re.M))


def test(context, checks, arguments):
    for part in PARTS:
        part()
    for part in graph_cases.PARTS:
        part(sys.modules[__name__])
    checks.equal(sorted(imported() - TESTED), [], "operators without a case")
    checks.equal(sorted(TESTED - imported()), [], "operators that are not imported")
    for version, cases in sorted(CASES.items()):
        run(context, checks, version, cases)


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

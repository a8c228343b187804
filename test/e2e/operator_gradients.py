"""Compares the gradients of imported operators with central differences.

    operator_gradients.py BUILD

Of the cases of operator_cases.py and foreign_cases.py: operands of floats become parameters, one step with
learning rate 1 shows their gradients, and inference says what the loss is nearby, in some directions. Every
operator that docs/operators.md gives a derivative is among them.
"""

import math
import pathlib
import re
import sys

import numpy as np

import common
import foreign_cases
import operator_cases as cases

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import graph, integer, model, node, opset, untyped, value  # noqa: E402

F = np.float32
# random_numbers.py compares it, with the masks that are drawn.
ELSEWHERE = {"Dropout"}
# Operators in cases that have another's name.
WITHIN = {"Optional": ["OptionalGetElement"]}
# By operator, operands that are constants of the operator: places in an image, running statistics, and what only says a type.
CONSTANT = {"RoiAlign": {"x1"}, "BatchNormalization": {"x3", "x4"}, "CastLike": {"x1"}}
OPTIONS = {"BatchNormalization": {"batch_norm": "frozen"}}
STEP = 2e-3
PER_OPERATOR = 2


def parameter(name):
    return f"{name}_weight"


def build(context, case, version, varied, trains, **options):
    """The program of a case, whose operands `varied` are parameters if it trains,
    and its data."""
    nodes, infos, data = [], [], {}
    constants = [(name, array) for name, array in case.constants.items()] + [("flat", np.array([1, -1]))]
    if trains:
        # A graph has inputs.
        infos.append(value("one", [1, 1]))
        data["one"] = np.ones((1, 1), F)
    for name, array in case.inputs.items():
        flat = name + "_flat"
        if trains and name in varied:
            constants.append((parameter(name), array.reshape(1, -1)))
            nodes.append(node("Mul", ["one", parameter(name)], [flat]))
        else:
            infos.append(value(flat, [1, array.size], cases.code_of(array)))
            data[flat] = array.reshape(1, -1)
        constants.append((name + "_shape", np.array(array.shape, np.int64)))
        nodes.append(node("Reshape", [flat, name + "_shape"], [name]))
    nodes += [*case.nodes(""), node("Reshape", ["y0", "flat"], ["out"])]
    initializers = [cases.constant_of(name, array) for name, array in constants]
    path = context.path(".onnx")
    opsets = [opset(version), *(opset(1, domain) for domain in foreign_cases.DOMAINS)]
    path.write_bytes(model(graph(nodes, inputs=infos, outputs=[untyped("out")], initializers=initializers), opsets=opsets))
    return context.compile(path, **options), data


def floats(operator, case):
    """The operands that may vary, by name."""
    return {name: array for name, array in case.inputs.items() if array.dtype == F and name not in CONSTANT.get(operator, ())}


def compare(context, checks, operator, version, case):
    varied = floats(operator, case)
    rng = np.random.default_rng(1)
    target = rng.uniform(-1, 1, (1, case.expected[0].size)).astype(F)
    options = OPTIONS.get(operator, {})
    binary, data = build(context, case, version, varied, True, loss="mse", optimizer="sgd", learning_rate=1, train_only="*_weight", **options)
    archive, snapshot = context.path(".npz"), context.path(".safetensors")
    np.savez(archive, **data, target=target)
    binary.train(archive, "--steps", 1, "--save", snapshot)
    trained = common.read_safetensors(snapshot)
    binary, data = build(context, case, version, varied, False)

    def loss(name, at):
        np.savez(archive, **(data | {name + "_flat": at.reshape(1, -1)}))
        got = binary.infer(archive, context.path(".npz"))["out"].astype(np.float64)
        return np.square(got - target).mean()

    for name, x in varied.items():
        # One that no gradient reaches is not in the snapshot.
        gradient = x - trained.get(parameter(name), x).reshape(x.shape)
        direction = rng.choice([-1, 1], size=x.shape).astype(F)
        difference = (loss(name, x + F(STEP) * direction) - loss(name, x - F(STEP) * direction)) / (2 * STEP)
        product = float((gradient * direction).sum())
        near = math.isclose(product, difference, rel_tol=2e-2, abs_tol=3e-3 * max(1, np.abs(gradient).max()))
        checks.check(near, f"{operator} of opset {version}, operand {name}: the gradient says {product}, the difference {difference}")


def check_kinks(context, checks):
    """Where two sides meet, the derivative is PyTorch's: at 0 that from below, at
    the bounds of a clamp none, at those that are tensors half of it."""
    zeros, six, ends, low = (np.full((2, 3), number, F) for number in (0, 6, 3, -1))
    number = lambda value: cases.Known(value, dtype=F)  # noqa: E731
    kinks = [
        ("Relu", [zeros], {}, 0, 0), ("LeakyRelu", [zeros], {"alpha": 0.3}, 0, 0.3), ("Elu", [zeros], {"alpha": 0.5}, 0, 0.5),
        ("Celu", [zeros], {"alpha": 0.5}, 0, 1), ("Selu", [zeros], {"alpha": 0.5, "gamma": 3.0}, 0, 1.5),
        ("PRelu", [zeros, np.full((1,), 0.2, F)], {}, 0, 0.2),
        ("Clip", [zeros, number(0), number(6)], {}, 0, 0), ("Clip", [six, number(0), number(6)], {}, 6, 0),
        ("Clip", [low, number(-1)], {}, -1, 0), ("Clip", [zeros, np.array(0, F)], {}, 0, 0.5),
        ("Max", [zeros, number(0)], {}, 0, 0.5), ("Min", [six, number(6)], {}, 6, 0.5),
        ("HardSigmoid", [ends], {"alpha": 1 / 3, "beta": 0.0}, 1, 0), ("HardSigmoid", [zeros], {"alpha": 1 / 3, "beta": 0.0}, 0, 0),
        ("HardSwish", [ends], {}, 3, 1), ("HardSwish", [-ends], {}, 0, 0),
    ]  # fmt: skip
    for operator, operands, attributes, y, slope in kinks:
        x, target = operands[0], y + np.arange(1, 7, dtype=F).reshape(1, 6)
        cases.case(operator, operands, np.full_like(x, y), version=22, **attributes)
        _, case = cases.CASES[22].pop()
        binary, data = build(context, case, 22, {"x0"}, True, loss="mse", optimizer="sgd", learning_rate=1, train_only="*_weight")
        archive, snapshot = context.path(".npz"), context.path(".safetensors")
        np.savez(archive, **data, target=target)
        binary.train(archive, "--steps", 1, "--save", snapshot)
        moved = common.read_safetensors(snapshot)[parameter("x0")].reshape(1, 6) - x.reshape(1, 6)
        near = np.allclose(moved, 2 * (target - y) / 6 * slope, atol=1e-6)
        checks.check(near, f"{operator} at {x[0, 0]}: the slope {slope} moves by {moved}")


def check_number(context, checks):
    """A parameter without axes, that both stages read, is trained, saved and read."""
    gate, x, target = F(0.25), np.arange(1, 5, dtype=F).reshape(1, 4), np.full((1, 4), 0.5, F)
    nodes = [node("Exp", ["gate"], ["rate"]), node("Mul", ["x", "rate"], ["h"]), node("MatMul", ["h", "same"], ["i"]), node("Mul", ["i", "gate"], ["y"])]
    path, archive, snapshot = context.path(".onnx"), context.path(".npz"), context.path(".safetensors")
    initializers = [cases.constant_of("gate", np.array(gate)), cases.constant_of("same", np.eye(4, dtype=F))]
    path.write_bytes(model(graph(nodes, inputs=[value("x", [1, 4])], outputs=[untyped("y")], initializers=initializers)))
    np.savez(archive, x=x, target=target)
    slope = np.sum((gate * np.exp(gate) * x - target) * x * np.exp(gate) * (1 + gate)) / 2
    for stages in (1, 2):
        binary = context.compile(path, loss="mse", optimizer="sgd", learning_rate=0.01, train_only="gate", stages=stages)
        binary.train(archive, "--steps", 1, "--save", snapshot)
        trained = common.read_safetensors(snapshot)["gate"]
        checks.check(trained.shape == (), f"{stages} stages: a number has the shape {trained.shape}")
        checks.check(np.isclose(trained, gate - F(0.01) * slope), f"{stages} stages: a number of slope {slope} moves to {trained}")
        given = binary.infer(archive, context.path(".npz"), "--load", snapshot)["y"]
        checks.check(np.allclose(given, trained * np.exp(trained) * x), f"{stages} stages: with {trained} loaded, the output is {given}")


def more_cases():
    """Activations between their kinks, and casts."""
    x = cases.numbers(2, 3)
    for op in ("Celu", "Elu", "Mish", "Selu", "Shrink", "Softplus", "Softsign", "ThresholdedRelu"):
        cases.case(op, [x], x, version=22)

    def there_and_back(prefix):
        wide = prefix + "wide"
        return [
            node("Cast", [prefix + "x0"], [wide], attributes=[integer("to", 11)]),
            node("Cast", [wide], [prefix + "y0"], attributes=[integer("to", 1)]),
        ]

    cases.case("CastLike", [x, cases.numbers(1)], x)
    cases.add("Cast", there_and_back, {"x0": x}, {}, [x])


def chosen():
    """Cases of numbers that lie apart from each other and are not at an end."""
    seen, wanted = {}, differentiable() - ELSEWHERE
    for version, listed in sorted(cases.CASES.items()):
        for operator, case in listed:
            varied = list(floats(operator, case).values())
            if version < 7 or not varied or operator not in wanted or np.asarray(case.expected[0]).dtype != F:
                continue
            x = np.sort(varied[0].ravel())
            if not np.all(np.isfinite(x)) or np.abs(x).max() > 60 or np.any(np.diff(x) == 0) or np.any(np.abs(x) == 1):
                continue
            seen[operator] = seen.get(operator, 0) + 1
            if seen[operator] <= PER_OPERATOR:
                yield operator, version, case
    # The version of ONNX's own operators, in graphs.
    yield from ((operator, 22, case) for operator, case in foreign_cases.all_cases(cases) if operator in wanted)


def differentiable():
    """The operators that the committed page gives a derivative."""
    page = (cases.ROOT / "docs" / "operators.md").read_text()
    return set(re.findall(r"^\| ((?:[a-z.]+\.)?[A-Z]\w+) \|[^|]*\|[^|]*\| yes \|", page, re.M))


def test(context, checks, arguments):
    more_cases()
    for part in cases.PARTS:
        part()
    for part in cases.graph_cases.PARTS:
        part(cases)
    every = list(chosen())
    compared = {operator for operator, _, _ in every}
    compared |= {within for operator in compared for within in WITHIN.get(operator, ())}
    checks.equal(sorted(differentiable() - compared - ELSEWHERE), [], "operators with a derivative that is not compared")

    def guarded(one):
        try:
            compare(context, checks, *one)
        except common.Failure as failure:
            checks.check(False, f"{one[0]} of opset {one[1]}: {failure}")

    context.map(guarded, every)
    check_kinks(context, checks)
    check_number(context, checks)


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

"""Compares the gradients of imported operators with central differences.

    operator_gradients.py BUILD

Of the cases of operator_cases.py: the first operand becomes a parameter, one
step with learning rate 1 shows its gradient, and inference says what the loss
is nearby, in some directions.
"""

import math
import pathlib
import sys

import numpy as np

import common
import operator_cases as cases

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import graph, model, node, opset, untyped, value  # noqa: E402

F = np.float32
# Where they are not differentiable, or have no derivative at all.
SKIPPED = {"Bernoulli", "EyeLike", "Hardmax", "OneHot", "RandomNormalLike", "RandomUniformLike", "Round"}
STEP = 2e-3
PER_OPERATOR = 2


def build(context, case, version, varied, trains, **options):
    """The program of a case, whose operand `varied` is a parameter if it trains,
    and its data."""
    nodes, infos, data = [], [], {}
    constants = [(name, array) for name, array in case.constants.items()] + [("flat", np.array([1, -1]))]
    if trains:
        # A graph has inputs.
        infos.append(value("one", [1, 1]))
        data["one"] = np.ones((1, 1), F)
    for name, array in case.inputs.items():
        flat = name + "_flat"
        if trains and name == varied:
            constants.append(("weight", array.reshape(1, -1)))
            nodes.append(node("Mul", ["one", "weight"], [flat]))
        else:
            infos.append(value(flat, [1, array.size], cases.code_of(array)))
            data[flat] = array.reshape(1, -1)
        constants.append((name + "_shape", np.array(array.shape, np.int64)))
        nodes.append(node("Reshape", [flat, name + "_shape"], [name]))
    nodes += [*case.nodes(""), node("Reshape", ["y0", "flat"], ["out"])]
    initializers = [cases.constant_of(name, array) for name, array in constants]
    path = context.path(".onnx")
    path.write_bytes(model(graph(nodes, inputs=infos, outputs=[untyped("out")], initializers=initializers), opsets=[opset(version)]))
    return context.compile(path, **options), data


def compare(context, checks, operator, version, case):
    varied = next(name for name, array in case.inputs.items() if array.dtype == F)
    x = case.inputs[varied]
    rng = np.random.default_rng(1)
    target = rng.uniform(-1, 1, (1, case.expected[0].size)).astype(F)
    binary, data = build(context, case, version, varied, True, loss="mse", optimizer="sgd", learning_rate=1, train_only="weight")
    archive, snapshot = context.path(".npz"), context.path(".safetensors")
    np.savez(archive, **data, target=target)
    binary.train(archive, "--steps", 1, "--save", snapshot)
    gradient = x - common.read_safetensors(snapshot)["weight"].reshape(x.shape)
    binary, data = build(context, case, version, varied, False)

    def loss(at):
        np.savez(archive, **(data | {varied + "_flat": at.reshape(1, -1)}))
        got = binary.infer(archive, context.path(".npz"))["out"].astype(np.float64)
        return np.square(got - target).mean()

    for _ in range(2):
        direction = rng.choice([-1, 1], size=x.shape).astype(F)
        difference = (loss(x + F(STEP) * direction) - loss(x - F(STEP) * direction)) / (2 * STEP)
        product = float((gradient * direction).sum())
        near = math.isclose(product, difference, rel_tol=2e-2, abs_tol=3e-3 * max(1, np.abs(gradient).max()))
        checks.check(near, f"{operator} of opset {version}: the gradient says {product}, the difference {difference}")


def chosen():
    """Cases of numbers that lie apart from each other and are not at an end."""
    seen = {}
    for version, listed in sorted(cases.CASES.items()):
        for operator, case in listed:
            floats = [array for array in case.inputs.values() if array.dtype == F]
            if version < 7 or not floats or operator in SKIPPED or np.asarray(case.expected[0]).dtype != F:
                continue
            x = np.sort(floats[0].ravel())
            if not np.all(np.isfinite(x)) or np.abs(x).max() > 60 or np.any(np.diff(x) == 0) or np.any(np.abs(x) == 1):
                continue
            seen[operator] = seen.get(operator, 0) + 1
            if seen[operator] <= PER_OPERATOR:
                yield operator, version, case


def test(context, checks, arguments):
    for part in (cases.functions, cases.indexed, cases.arranged, cases.attentions, cases.losses, cases.recurrences, cases.interpolated):
        part()
    for part in cases.graph_cases.PARTS:
        part(cases)
    for operator, version, case in chosen():
        compare(context, checks, operator, version, case)


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

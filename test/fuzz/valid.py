"""Models of one right node each, of every operator that is imported.

They are the cases of test/e2e/operator_cases.py and foreign_cases.py, whose operands are of the right types and
sizes: what random operands hardly ever are, where an operator takes many.
"""

import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "e2e"), str(HERE.parent / "models" / "bad")]
import foreign_cases  # noqa: E402
import operator_cases as cases  # noqa: E402
from make import graph, model, node, opset, tensor, untyped, value  # noqa: E402


def find_cases():
    """Triples of an operator, an opset and a case."""
    if not cases.CASES:
        for part in cases.PARTS:
            part()
        for part in cases.graph_cases.PARTS:
            part(cases)
    own = [(operator, version, case) for version, listed in sorted(cases.CASES.items()) for operator, case in listed]
    return own + [(operator, 22, case) for operator, case in foreign_cases.all_cases(cases)]


def to_model(rng, version, case):
    """The model of a case as bytes; by chance with an operand that is trained, or that is not the right one."""
    trained = next((name for name, x in case.inputs.items() if x.dtype.kind == "f"), None)
    if rng.random() < 0.5:
        trained = None
    inputs, constants = [], [cases.constant_of(name, array) for name, array in case.constants.items()]
    names = [*case.inputs, *case.constants]
    swapped = rng.choice(names) if names and rng.random() < 0.15 else None
    nodes = []
    for name, array in case.inputs.items():
        outer = name
        if name == swapped:
            outer = name + "_before"
            nodes.append(node("Identity", [rng.choice(names)], [name]))
        elif name == trained:
            outer = name + "_before"
            constants.append(tensor("factor", [1], raw=array.ravel()[:1].tobytes(), dtype=cases.code_of(array)))
            nodes.append(node("Mul", [outer, "factor"], [name]))
        inputs.append(value(outer, list(array.shape), cases.code_of(array)))
    if not inputs:
        inputs.append(value("unused", [1, 1]))
    outputs = [untyped(f"y{index}") for index in range(len(case.expected))]
    opsets = [opset(version), *(opset(1, domain) for domain in foreign_cases.DOMAINS)]
    return model(graph([*nodes, *case.nodes("")], inputs=inputs, outputs=outputs, initializers=constants), opsets=opsets)

"""Writes models in which dropout is arithmetic with random numbers.

    written_dropout.py FOLDER
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import graph, model, node, opset, tensor, untyped, value  # noqa: E402


def masked(nodes, keep, divisor):
    """x times a mask that `nodes` draw, over the divisor."""
    nodes = [*nodes, node("Div", ["mask", "divisor"], ["scaled"]), node("Mul", ["x", "scaled"], ["y"])]
    constants = [tensor("keep", [], floats=[keep]), tensor("divisor", [], floats=[divisor])]
    return model(graph(nodes, inputs=[value("x", [8, 4])], outputs=[untyped("y")], initializers=constants), opsets=[opset(17)])


# What PyTorch's exporter makes of nn.Dropout.
DROPOUT = [
    node("RandomUniformLike", ["x"], ["drawn"]),
    node("Less", ["drawn", "keep"], ["kept"]),
    node("CastLike", ["kept", "x"], ["mask"]),
]
# And its older one of timm's DropPath.
BERNOULLI = [
    node("Shape", ["x"], ["shape"]),
    node("Expand", ["keep", "shape"], ["probabilities"]),
    node("Bernoulli", ["probabilities"], ["mask"]),
]
FILES = {
    "dropout": masked(DROPOUT, 0.8, 0.8),
    "bernoulli": masked(BERNOULLI, 0.8, 0.8),
    # Its mean is not 1.
    "noise": masked(DROPOUT, 0.8, 0.5),
}


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in FILES.items():
        (folder / f"{name}.onnx").write_bytes(data)


if __name__ == "__main__":
    main()

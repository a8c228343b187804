"""Writes a model whose weights stand in a branch and in the body of a loop.

    subgraphs.py MODEL.onnx
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import graph, message, model, node, opset, tensor, untyped, value  # noqa: E402

BOOL = 9


def body(name, nodes, inputs, outputs, initializers=()):
    """An attribute that is a graph."""
    content = graph(nodes, inputs=[untyped(each) for each in inputs], outputs=[untyped(each) for each in outputs], initializers=initializers)
    return message((1, name), (6, content), (20, 5))


def matrix(name, rows, columns):
    return tensor(name, [rows, columns], floats=[0.5 + i for i in range(rows * columns)])


def main():
    branches = [
        body("then_branch", [node("MatMul", ["x", "w"], ["a"])], [], ["a"], [matrix("w", 4, 3)]),
        # Nobody goes here, and nobody reads what has no weight.
        body("else_branch", [node("ReduceSum", ["x"], ["b"])], [], ["b"]),
    ]
    # The name of the state is that of the input outside.
    nodes = [node("MatMul", ["x", "v"], ["z"]), node("Identity", ["c"], ["d"])]
    turns = body("body", nodes, ["i", "c", "x"], ["d", "z"], [matrix("v", 3, 3)])
    content = graph(
        [node("If", ["yes"], ["h"], attributes=branches), node("Loop", ["count", "", "h"], ["s"], attributes=[turns]), node("ReduceSum", ["x"], ["t"]),
         node("Add", ["s", "t"], ["y"])],
        inputs=[value("x", [2, 4])], outputs=[untyped("y")],
        initializers=[tensor("yes", [], raw=b"\1", dtype=BOOL), tensor("count", [], ints=[3], dtype=7)],
    )  # fmt: skip
    pathlib.Path(sys.argv[1]).write_bytes(model(content, opsets=[opset(17)]))


if __name__ == "__main__":
    main()

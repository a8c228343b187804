"""Writes models with constants.

    weight_nodes.py FOLDER

nodes.onnx: all weights are Constant nodes; both.onnx: one is an initializer;
formula.onnx: no operator takes weights.
"""

import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import FLOAT, graph, message, model, node, tensor, untyped, value  # noqa: E402


def constant(name, dims, floats):
    held = tensor("", dims, raw=struct.pack(f"<{len(floats)}f", *floats), dtype=FLOAT)
    return node("Constant", [], [name], attributes=[message((1, "value"), (5, held), (20, 4))])


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    w = constant("w", [4, 3], [i / 8 for i in range(12)])
    b = constant("b", [3], [1, 2, 3])
    table = constant("table", [3], [4, 5, 6])
    nodes = [
        w, b, table, constant("most", [3], [7, 8, 9]), constant("half", [], [0.5]),
        node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b"], ["i"]), node("Identity", ["table"], ["t"]), node("Mul", ["i", "t"], ["j"]),
        node("Min", ["j", "most"], ["k"]), node("Mul", ["k", "half"], ["y"]),
    ]  # fmt: skip
    inputs, outputs = [value("x", [2, 4])], [untyped("y")]
    (folder / "nodes.onnx").write_bytes(model(graph(nodes, inputs=inputs, outputs=[*outputs, untyped("most")])))
    nodes = [w, node("MatMul", ["x", "w"], ["h"]), node("Add", ["h", "b.weight"], ["y"])]
    (folder / "both.onnx").write_bytes(model(graph(nodes, inputs=inputs, outputs=outputs, initializers=[tensor("b.weight", [3], floats=[1.0, 2.0, 3.0])])))
    nodes = [constant("c", [4], [1, 2, 3, 4]), node("Add", ["x", "c"], ["y"])]
    (folder / "formula.onnx").write_bytes(model(graph(nodes, inputs=inputs, outputs=outputs)))


if __name__ == "__main__":
    main()

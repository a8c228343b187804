"""Writes models whose inputs leave sizes open.

    input_shapes.py FOLDER

unnamed.onnx: x[?, ?, seq], y[?, seq]; shapeless.onnx: x without a shape;
sequence.onnx: x is a sequence; text.onnx: x is of strings. Of samples:
table.onnx: x[4, 6], table[9, 6]; symbol.onnx: the same, x[samples, 6];
second.onnx: x[5, 4, 6], whose second axis has the samples, state[2, 4, 6].
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import FLOAT, graph, integer, message, model, node, untyped  # noqa: E402


def open_value(name, *dims, dtype=FLOAT):
    """Sizes, names, or None for axes that have neither."""
    parts = [message() if dim is None else message((2, dim)) if isinstance(dim, str) else message((1, dim)) for dim in dims]
    return message((1, name), (2, message((1, message((1, dtype), (2, message((1, parts))))))))


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    shapeless = message((1, "x"), (2, message((1, message((1, FLOAT))))))
    sequence = message((1, "x"), (2, message((4, message((1, message((1, message((1, FLOAT))))))))))
    against_table = node("Transpose", ["table"], ["t"]), node("MatMul", ["x", "t"], ["z"])
    for name, inputs, nodes in (
        ("unnamed", [open_value("x", None, None, "seq"), open_value("y", None, "seq")], [node("MatMul", ["x", "t"], ["z"])]),
        ("shapeless", [shapeless], [node("Relu", ["x"], ["z"])]),
        ("sequence", [sequence], [node("SequenceLength", ["x"], ["z"])]),
        ("text", [open_value("x", 2, dtype=8)], [node("Identity", ["x"], ["z"])]),
        ("table", [open_value("x", 4, 6), open_value("table", 9, 6)], list(against_table)),
        ("symbol", [open_value("table", 9, 6), open_value("x", "samples", 6)], list(against_table)),
        ("second", [open_value("x", 5, 4, 6), open_value("state", 2, 4, 6)], [node("Concat", ["x", "state"], ["z"], attributes=[integer("axis", 0)])]),
    ):
        if name == "unnamed":
            nodes.insert(0, node("Transpose", ["y"], ["t"]))
        path = folder / f"{name}.onnx"
        path.write_bytes(model(graph(nodes, inputs=inputs, outputs=[untyped("z")])))


main()

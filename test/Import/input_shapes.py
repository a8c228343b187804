"""Writes models whose inputs leave sizes open.

    input_shapes.py FOLDER

unnamed.onnx: x[?, ?, seq], y[?, seq]; question.onnx: x[?, ?, ?], where two
are called "?"; shapeless.onnx: x without a shape;
sequence.onnx: x is a sequence; text.onnx: x is of strings. Of samples:
table.onnx: x[4, 6], table[9, 6]; symbol.onnx: the same, x[samples, 6];
second.onnx: x[5, 4, 6], whose second axis has the samples, state[2, 4, 6].
values.onnx: x[4, 6] takes the shape that an input says, if a rate is more than
5, else it loses a row; shift is added. stated.onnx: an output's shape is wrong.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import FLOAT, graph, integer, message, model, node, tensor, untyped, value  # noqa: E402

BOOL, INT32, INT64 = 9, 6, 7


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
        ("question", [open_value("x", None, "?", "?")], [node("Relu", ["x"], ["z"])]),
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
    write_values(folder)
    (folder / "stated.onnx").write_bytes(model(graph([node("Relu", ["x"], ["z"])], inputs=[value("x", [2, 4])], outputs=[value("z", [8])])))


def branch(name, nodes, output):
    return message((1, name), (20, 5), (6, graph(nodes, name=name, inputs=[], outputs=[untyped(output)])))


def write_values(folder):
    one = [tensor("one", [1], ints=[1], dtype=INT64), tensor("end", [1], ints=[9], dtype=INT64), tensor("five", [], raw=b"\5\0\0\0", dtype=INT32)]
    nodes = [
        node("Greater", ["rate", "five"], ["isMore"]),
        node("And", ["isMore", "flag"], ["chosen"]),
        node("If", ["chosen"], ["y"], attributes=[branch("then_branch", [node("Reshape", ["x", "shape"], ["a"])], "a"), branch("else_branch", [node("Slice", ["x", "one", "end"], ["b"])], "b")]),
        node("Add", ["y", "shift"], ["z"]),
    ]  # fmt: skip
    inputs = [
        open_value("x", 4, 6), open_value("rate", dtype=INT32), open_value("flag", dtype=BOOL), open_value("shape", None, dtype=INT64), open_value("shift", 1),
    ]  # fmt: skip
    (folder / "values.onnx").write_bytes(model(graph(nodes, inputs=inputs, outputs=[untyped("z")], initializers=one)))


main()

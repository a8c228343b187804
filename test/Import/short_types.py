"""Writes a model whose weights are numbers of 16 bits.

    short_types.py FILE DTYPE (10 is f16, 16 bf16)
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import graph, model, node, opset, tensor, untyped, value  # noqa: E402

path, dtype = sys.argv[1], int(sys.argv[2])
body = graph(
    [node("MatMul", ["x", "w"], ["m"], name="product"), node("Relu", ["m"], ["y"], name="relu")],
    inputs=[value("x", [4, 2], dtype)],
    outputs=[untyped("y")],
    initializers=[tensor("w", [2, 3], raw=b"\x01\x3c" * 6, dtype=dtype)],
)
pathlib.Path(path).write_bytes(model(body, opsets=[opset(20)]))

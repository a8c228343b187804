"""Writes a model whose initializers are not what they seem.

    constants.py FILE
"""

import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import graph, model, node, tensor  # noqa: E402

LOWEST = struct.unpack("<f", b"\xff\xff\x7f\xff")[0]

nodes = [
    node("Mul", ["x", "val_7"], ["a"]), node("Mul", ["a", "temperature"], ["b"]), node("Add", ["b", "val_8"], ["c"]),
    node("Add", ["c", "lowest"], ["d"]), node("Add", ["d", "infinite"], ["y"]),
]
initializers = [
    tensor("val_7", [1], floats=[0.5]), tensor("temperature", [1], floats=[2.0]),
    tensor("val_8", [4], floats=[1.0, 2.0, 3.0, 4.0]), tensor("lowest", [4], floats=[0.0, LOWEST, LOWEST, LOWEST]),
    tensor("infinite", [4], floats=[0.0, 0.0, 0.0, float("-inf")]),
]
pathlib.Path(sys.argv[1]).write_bytes(model(graph(nodes, initializers=initializers)))

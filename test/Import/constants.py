"""Writes a model whose initializers are not what they seem.

    constants.py FILE [PRODUCER]
"""

import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import graph, message, model, node, tensor  # noqa: E402

LOWEST = struct.unpack("<f", b"\xff\xff\x7f\xff")[0]

nodes = [
    node("Mul", ["x", "val_7"], ["a"]), node("Mul", ["a", "temperature"], ["b"]), node("Add", ["b", "val_8"], ["c"]),
    node("Add", ["c", "lowest"], ["d"]), node("Add", ["d", "infinite"], ["e"]), node("Mul", ["e", "gate"], ["f"]),
    node("Mul", ["f", "decoder.scale"], ["g"]), node("Add", ["g", "onnx::Add_3"], ["h"]), node("Pow", ["h", "val_9"], ["i"]),
    node("Mul", ["i", "l.weight_orig"], ["j"]), node("Mul", ["j", "l.weight_u"], ["k"]),
    node("Add", ["k", "ortshared_1_0_1_0_token_3"], ["l"]), node("Mul", ["l", "clamp_1"], ["y"]),
]
initializers = [
    tensor("val_7", [1], floats=[0.5]), tensor("temperature", [1], floats=[2.0]),
    tensor("val_8", [4], floats=[1.0, 2.0, 3.0, 4.0]), tensor("lowest", [4], floats=[0.0, LOWEST, LOWEST, LOWEST]),
    tensor("infinite", [4], floats=[0.0, 0.0, 0.0, float("-inf")]), tensor("gate", [], floats=[0.25]),
    tensor("ortshared_1_0_1_0_token_3", [], floats=[3.0]), tensor("clamp_1", [], floats=[3.0]),
    tensor("l.weight_orig", [4], floats=[1.0] * 4), tensor("l.weight_u", [4], floats=[0.5] * 4),
    tensor("decoder.scale", [], floats=[8.0]), tensor("onnx::Add_3", [], floats=[3.0]), tensor("val_9", [], floats=[2.0]),
]
producer = message((2, sys.argv[2])) if len(sys.argv) > 2 else b""
pathlib.Path(sys.argv[1]).write_bytes(model(graph(nodes, initializers=initializers)) + producer)

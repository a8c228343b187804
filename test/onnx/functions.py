"""Compares operators of com.microsoft, which are imported as functions, with ONNX Runtime.

    functions.py BUILD

All bodies of lib/Import/Onnx/FunctionBodies.txt have a node, in one model.
"""

import pathlib
import re
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.append(str(HERE.parent / "e2e"))
import common  # noqa: E402

MICROSOFT = "com.microsoft"


class Model:
    def __init__(self):
        self.generator = np.random.default_rng(0)
        self.nodes, self.constants, self.inputs, self.outputs, self.used = [], [], {}, [], set()

    def input(self, name, *shape):
        self.inputs[name] = self.generator.standard_normal(shape).astype(np.float32)

    def weight(self, name, *shape, value=None):
        array = self.generator.standard_normal(shape).astype(np.float32) if value is None else value
        self.constants.append(numpy_helper.from_array(array, name))

    def node(self, operator, inputs, outputs=1, domain=MICROSOFT, **attributes):
        names = [f"{operator}_{len(self.nodes)}_{index}" for index in range(outputs)] if isinstance(outputs, int) else outputs
        self.nodes.append(helper.make_node(operator, inputs, names, domain=domain, **attributes))
        self.outputs += [name for name in names if name]
        self.used.add((domain, operator, "".join("x" if name else "-" for name in inputs)))

    def proto(self):
        graph = helper.make_graph(
            self.nodes, "functions", [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in self.inputs.items()],
            [onnx.ValueInfoProto(name=name) for name in self.outputs], self.constants,
        )  # fmt: skip
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def build():
    m = Model()
    m.input("x", 2, 5, 8)
    m.input("skip", 2, 5, 8)
    m.input("square", 2, 8, 5)
    m.input("heads", 2, 3, 5, 8)
    for name, *shape in (("bias", 8), ("scale", 8), ("shift", 8), ("triple", 24), ("weights", 8, 24)):
        m.weight(name, *shape)
    m.inputs["positions"] = np.array([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]])
    angles = np.arange(16)[:, None] * 0.3 ** np.arange(4)
    m.weight("cosines", value=np.cos(angles).astype(np.float32))
    m.weight("sines", value=np.sin(angles).astype(np.float32))
    m.node("Gelu", ["x"])
    m.node("BiasGelu", ["x", "bias"])
    m.node("FastGelu", ["x"])
    m.node("FastGelu", ["x", "bias"])
    m.node("QuickGelu", ["x"])
    m.node("QuickGelu", ["x"], alpha=1.5)
    m.node("FusedMatMul", ["x", "square"], alpha=0.5)
    m.node("FusedMatMul", ["x", "skip"], transB=1)
    m.node("FusedMatMul", ["square", "skip"], transA=1, transB=1)
    m.node("SimplifiedLayerNormalization", ["x", "scale"], domain="", epsilon=0.5)
    m.node("SkipSimplifiedLayerNormalization", ["x", "skip", "scale"], epsilon=0.25)
    m.node("SkipSimplifiedLayerNormalization", ["x", "skip", "scale", "bias"], ["simplified", "", "", "simplified_sum"])
    m.node("SkipLayerNormalization", ["x", "skip", "scale"])
    m.node("SkipLayerNormalization", ["x", "skip", "scale", "shift"], epsilon=0.25)
    m.node("SkipLayerNormalization", ["x", "skip", "scale", "shift", "bias"], ["normal", "", "", "normal_sum"])
    m.node("SkipLayerNormalization", ["x", "skip", "scale", "", "bias"])
    m.node("RotaryEmbedding", ["heads", "positions", "cosines", "sines"])
    m.node("RotaryEmbedding", ["heads", "positions", "cosines", "sines"], interleaved=1)
    m.node("MultiHeadAttention", ["x", "skip", "x"], num_heads=2)
    m.node("MultiHeadAttention", ["x", "skip", "skip", "triple"], num_heads=4, scale=0.3)
    m.node("Attention", ["x", "weights", "triple"], num_heads=2, unidirectional=1)
    return m


def written():
    """Operators and inputs of the bodies."""
    text = (ROOT / "lib" / "Import" / "Onnx" / "FunctionBodies.txt").read_text()
    found = re.findall(r'^<domain: "(.*?)".*>\n(\w+) .*?\(([^()]*)\) =>', text, re.M)
    return {(domain, name, "".join("-" if each.strip().startswith("_") else "x" for each in inputs.split(","))) for domain, name, inputs in found}


def test(context, checks, options):
    m = build()
    # ONNX Runtime wants the bias of Attention.
    checks.equal(sorted(written() - m.used), [(MICROSOFT, "Attention", "xx")], "bodies without a node")
    path, archive = context.path(".onnx"), context.path(".npz")
    onnx.save(m.proto(), path)
    np.savez(archive, **m.inputs)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    wanted = dict(zip(m.outputs, session.run(m.outputs, m.inputs)))
    for microbatches in (1, 2):
        found = context.compile(path, microbatches=microbatches).infer(archive, context.path(".npz"))
        for name, value in wanted.items():
            error = common.relative_error(found[name], value)
            checks.check(error < 1e-5, f"{name}: relative error {error:.1e}")


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

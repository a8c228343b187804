"""Compares operators of com.microsoft with ONNX Runtime.

    functions.py BUILD

All bodies of lib/Import/Onnx/FunctionBodies.txt have a node, and so have the handlers of
lib/Import/MicrosoftHandlers.cpp, with their inputs in many combinations.
"""

import itertools
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

    def integers(self, name, values):
        self.inputs[name] = np.array(values, np.int32)

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
    add_fused(m)
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
    add_attention(m)
    add_grouped(m)
    add_packed_weights(m)
    return m


def add_fused(m):
    """Operators with an activation behind them, of models that ONNX Runtime has optimized and saved."""
    m.input("image", 2, 3, 6, 6)
    m.input("added", 2, 4, 4, 4)
    m.input("rows", 2, 8)
    for name, *shape in (("filters", 4, 3, 3, 3), ("channels", 4), ("tall", 8, 4), ("flat", 4, 8), ("row", 4)):
        m.weight(name, *shape)
    m.node("FusedConv", ["image", "filters"], activation="Relu")
    m.node("FusedConv", ["image", "filters", "channels"], activation="Tanh", pads=[1, 1, 1, 1], strides=[2, 2])
    m.node("FusedConv", ["image", "filters", "channels", "added"], activation="Relu")
    m.node("FusedConv", ["image", "filters", "channels"], activation="LeakyRelu", activation_params=[0.25])
    m.node("FusedConv", ["image", "filters", "channels"], activation="Clip", activation_params=[-0.5, 0.75])
    m.node("FusedConv", ["image", "filters", "channels"], activation="HardSigmoid", activation_params=[0.3, 0.4])
    m.node("FusedGemm", ["rows", "tall", "row"], activation="Relu", alpha=0.5, beta=2.0)
    m.node("FusedGemm", ["rows", "flat", "row"], activation="LeakyRelu", activation_alpha=0.25, transB=1)
    m.node("FusedGemm", ["rows", "tall"], activation="Sigmoid")


def add_attention(m):
    """MultiHeadAttention and Attention with masks, caches and packed inputs."""
    m.input("past_keys", 2, 2, 3, 4)
    m.input("past_values", 2, 2, 3, 4)
    m.input("bias_of_scores", 2, 2, 5, 5)
    m.weight("shared_bias", 1, 2, 5, 8)
    m.integers("mask", [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    m.integers("wide_mask", [[1, 1, 0, 1, 1, 1, 1, 0], [1] * 8])
    m.integers("square_mask", np.tril(np.ones((2, 5, 5))))
    m.integers("lengths", [3, 5])
    m.node("MultiHeadAttention", ["x", "skip", "x", "", "mask"], num_heads=2)
    m.node("MultiHeadAttention", ["x", "skip", "x", "triple", "mask", "bias_of_scores"], num_heads=2, mask_filter_value=-3.0)
    m.node("MultiHeadAttention", ["x", "skip", "x", "", "square_mask"], num_heads=2)
    m.node("MultiHeadAttention", ["x", "skip", "x", "", "lengths"], num_heads=2)
    m.node("MultiHeadAttention", ["x", "skip", "x", "triple", "", "", "past_keys", "past_values"], 3, num_heads=2, unidirectional=1)
    m.node("MultiHeadAttention", ["x", "skip", "x", "", "wide_mask", "shared_bias", "past_keys", "past_values"], 3, num_heads=2)
    m.node("Attention", ["x", "weights", "triple", "mask"], num_heads=2)
    m.node("Attention", ["x", "weights", "triple", "mask", "", "bias_of_scores"], num_heads=2, scale=0.4)
    m.weight("uneven", 8, 20)
    m.weight("uneven_bias", 20)
    m.node("Attention", ["x", "uneven", "uneven_bias"], num_heads=2, qkv_hidden_sizes=[8, 8, 4])


def add_angles(m):
    angles = np.arange(16)[:, None] * 0.3 ** np.arange(8)
    m.weight("wide_cosines", value=np.cos(angles).astype(np.float32))
    m.weight("wide_sines", value=np.sin(angles).astype(np.float32))


def add_grouped(m):
    """GroupQueryAttention: first rows, which are padded on the right, and rows behind a cache."""
    m.input("q", 2, 5, 64)
    m.input("k", 2, 5, 32)
    m.input("v", 2, 5, 32)
    m.input("all_three", 2, 5, 128)
    m.input("one", 2, 1, 64)
    m.input("one_k", 2, 1, 32)
    m.input("one_v", 2, 1, 32)
    m.input("cache_k", 2, 2, 6, 16)
    m.input("cache_v", 2, 2, 6, 16)
    m.weight("total_5", value=np.array(5, np.int32))
    m.weight("total_7", value=np.array(7, np.int32))
    m.integers("full", [4, 4])
    m.integers("behind", [6, 3])
    add_angles(m)
    m.weight("sinks", 4)
    heads = {"num_heads": 4, "kv_num_heads": 2}
    angles = ["wide_cosines", "wide_sines"]
    m.node("GroupQueryAttention", ["q", "k", "v", "", "", "full", "total_5"], 3, **heads)
    m.node("GroupQueryAttention", ["all_three", "", "", "", "", "full", "total_5", *angles], 3, do_rotary=1, **heads)
    m.node("GroupQueryAttention", ["q", "k", "v", "", "", "full", "total_5", *angles], 3, do_rotary=1, rotary_interleaved=1, softcap=2.0, scale=0.5, **heads)
    m.node("GroupQueryAttention", ["q", "k", "v", "", "", "full", "total_5"], 3, local_window_size=2, **heads)
    m.node("GroupQueryAttention", ["q", "k", "v", "", "", "full", "total_5"], 3, smooth_softmax=1, **heads)
    m.node("GroupQueryAttention", ["q", "k", "v", "", "", "full", "total_5", "", "", "", "", "sinks"], 3, **heads)
    m.node("GroupQueryAttention", ["one", "one_k", "one_v", "cache_k", "cache_v", "behind", "total_7", *angles], 3, do_rotary=1, **heads)
    m.node("GroupQueryAttention", ["one", "one_k", "one_v", "cache_k", "cache_v", "behind", "total_7"], 3, local_window_size=3, **heads)


def add_packed_weights(m):
    """MatMulNBits of all numbers of bits: blocks that are not full, zero points of bytes and of floats."""
    for bits, columns, block in (4, 40, 32), (8, 32, 16), (2, 32, 16):
        blocks = -(-columns // block)
        width = blocks * block * bits // 8 // blocks
        sizes = {"K": columns, "N": 6, "bits": bits, "block_size": block}
        name = f"{bits}"
        m.input(f"a{name}", 2, 3, columns)
        m.weight(f"b{name}", value=m.generator.integers(0, 256, (6, blocks, width), dtype=np.uint8))
        m.weight(f"scales{name}", value=m.generator.uniform(0.1, 1, (6, blocks)).astype(np.float32))
        m.weight(f"zeros{name}", value=m.generator.integers(0, 256, (6, -(-blocks * bits // 8)), dtype=np.uint8))
        m.node("MatMulNBits", [f"a{name}", f"b{name}", f"scales{name}"], **sizes)
        m.node("MatMulNBits", [f"a{name}", f"b{name}", f"scales{name}", f"zeros{name}"], **sizes)
    # Blocks of which there is a kernel, of another size.
    m.input("a_long", 2, 3, 150)
    m.weight("b_long", value=m.generator.integers(0, 256, (6, 3, 32), dtype=np.uint8))
    m.weight("scales_long", value=m.generator.uniform(0.1, 1, (6, 3)).astype(np.float32))
    m.weight("zeros_long", value=m.generator.integers(0, 256, (6, 2), dtype=np.uint8))
    m.node("MatMulNBits", ["a_long", "b_long", "scales_long"], K=150, N=6, bits=4, block_size=64)
    m.node("MatMulNBits", ["a_long", "b_long", "scales_long", "zeros_long"], K=150, N=6, bits=4, block_size=64)
    m.weight("bias_of_columns", 6)
    m.node("MatMulNBits", ["a4", "b4", "scales4", "zeros4", "", "bias_of_columns"], K=40, N=6, bits=4, block_size=32)


def build_whole():
    """With samples on another axis than the first."""
    m = Model()
    m.input("x", 2, 5, 8)
    m.weight("weights", 8, 24)
    m.weight("triple", 24)
    m.input("past", 2, 2, 2, 3, 4)
    m.input("heads", 2, 3, 5, 8)
    m.weight("more_heads", 8, 3, 5, 4)
    m.node("FusedMatMul", ["heads", "more_heads"], transBatchA=1, transBatchB=1)
    m.node("FusedMatMul", ["heads", "heads"], transBatchA=1, transA=1, transBatchB=1, alpha=0.5)
    m.node("Attention", ["x", "weights", "triple", "", "past"], 2, num_heads=2, unidirectional=1)
    return m


def build_single():
    """Of one sample, ONNX Runtime takes several rows behind a cache."""
    m = Model()
    for name, *shape in (("q", 5, 64), ("k", 5, 32), ("v", 5, 32), ("cache_k", 2, 6, 16), ("cache_v", 2, 6, 16)):
        m.input(name, 1, *shape)
    m.integers("behind", [10])
    m.weight("total_11", value=np.array(11, np.int32))
    add_angles(m)
    m.node(
        "GroupQueryAttention", ["q", "k", "v", "cache_k", "cache_v", "behind", "total_11", "wide_cosines", "wide_sines"], 3,
        do_rotary=1, num_heads=4, kv_num_heads=2,
    )  # fmt: skip
    return m


def build_quantized():
    """Operators on numbers of 8 and 16 bits."""
    m = Model()

    def whole(name, *shape, dtype=np.uint8, value=None):
        limits = np.iinfo(dtype)
        array = m.generator.integers(limits.min, limits.max + 1, shape).astype(dtype) if value is None else np.array(value, dtype)
        m.weight(name, value=array)
        return name

    def real(name, value):
        m.weight(name, value=np.array(value, np.float32))
        return name

    def number(name, *shape, limit=256):
        m.inputs[name] = m.generator.integers(0, limit, shape).astype(np.uint8)

    number("a", 2, 5, 8)
    number("b", 2, 5, 8)
    number("image", 2, 3, 6, 6)
    # On processors without VNNI, ONNX Runtime adds two products in 16 bits.
    number("rows", 6, 8, limit=128)
    m.input("x", 2, 5, 8)
    fine, coarse, zero, middle = real("fine", 0.01), real("coarse", 0.05), whole("zero", value=3), whole("middle", value=128)
    left, right, to = ["a", fine, zero], ["b", coarse, middle], [coarse, middle]
    m.node("QLinearAdd", [*left, *right, *to])
    m.node("QLinearMul", [*left, *right, *to])
    m.node("QLinearSigmoid", [*right, fine, zero])
    m.node("QLinearLeakyRelu", [*right, *to], alpha=0.3)
    m.node("QLinearSoftmax", [*right, fine, zero], axis=1, opset=17)
    m.node("QLinearSoftmax", [*right, fine, zero], axis=1, opset=11)
    m.node("QLinearGlobalAveragePool", ["image", fine, zero, fine, zero])
    m.node("QLinearGlobalAveragePool", ["image", fine, zero, fine, zero], channels_last=1)
    # Another scale, so that few means lie in the middle between two numbers.
    m.node("QLinearAveragePool", ["image", fine, zero, real("other", 0.0123), zero], kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])
    # Of 7 bits: on processors without VNNI ONNX Runtime adds two products in 16 bits, which larger ones leave.
    weights, turned = (whole(name, dtype=np.int8, value=m.generator.integers(-64, 64, shape)) for name, shape in (("w", (8, 4)), ("v", (4, 8))))
    scales, zeros = real("scales", [0.01, 0.02, 0.03, 0.04]), whole("zeros", value=[0] * 4, dtype=np.int8)
    bias, large = whole("bias", value=[500, -900, 0, 70], dtype=np.int32), real("large", 0.2)
    m.node("QGemm", ["rows", fine, zero, weights, scales, zeros, bias, large, middle])
    m.node("QGemm", ["rows", fine, zero, weights, scales, zeros, "", large, middle])
    m.node("QGemm", ["rows", fine, zero, turned, scales, zeros, bias, large, middle], transB=1, alpha=0.5)
    long = whole("long", value=40000, dtype=np.uint16)
    m.node("QuantizeLinear", ["x", real("tiny", 0.0001), long], ["short"])
    m.node("DequantizeLinear", ["short", "tiny", long])
    m.node("DequantizeLinear", ["a", fine])
    m.input("real_rows", 6, 8)
    none = whole("none", value=0, dtype=np.int8)
    for turn, (has_zero, has_zeros, has_bias) in enumerate(itertools.product((True, False), repeat=3)):
        scale, own = (scales, zeros) if turn % 2 else (coarse, none)
        behind = [own if has_zeros else "", *(["scale_of_bias"] if has_bias else [])]
        m.node("MatMulIntegerToFloat", ["rows", weights, fine, scale, zero if has_zero else "", *behind])
        if has_zero:
            m.node("DynamicQuantizeMatMul", ["real_rows", weights, scale, *behind])
    real("scale_of_bias", [0.5, -1.5, 0, 2])
    return m


def build_recurrent():
    """Quantized LSTMs with all choices of their inputs."""
    m = Model()
    m.input("x", 5, 2, 8)
    m.weight("lengths", value=np.array([5, 3], np.int32))
    for name, directions, axis in (("one", 1, ()), ("two", 2, (16,))):
        for weight, size in (("w", 8), ("r", 4)):
            m.weight(f"{name}_{weight}", value=m.generator.integers(-64, 64, (directions, size, 16)).astype(np.int8))
            m.weight(f"{name}_{weight}_scale", value=m.generator.uniform(0.005, 0.01, (directions, *axis)).astype(np.float32))
            m.weight(f"{name}_{weight}_zero", value=np.zeros((directions, *axis), np.int8))
        for other, *shape in (("b", 32), ("h", 2, 4), ("c", 2, 4), ("p", 12)):
            m.weight(f"{name}_{other}", directions, *shape)
        for choice in itertools.product((True, False), repeat=5):
            others = [f"{name}_{other}" if is_there else "" for other, is_there in zip(("b", "", "h", "c", "p"), choice)]
            others[1] = "lengths" if choice[1] else ""
            quantities = [f"{name}_{weight}_{part}" for weight in "wr" for part in ("scale", "zero")]
            direction = "bidirectional" if name == "two" else "reverse" if choice[0] else "forward"
            m.node("DynamicQuantizeLSTM", ["x", f"{name}_w", f"{name}_r", *others, *quantities], 3, hidden_size=4, direction=direction)
    return m


def compare_quantized(context, checks, m, tolerance=1e-4):
    """Numbers that lie in the middle between two others may be rounded to either."""
    path, archive = context.path(".onnx"), context.path(".npz")
    onnx.save(m.proto(), path)
    np.savez(archive, **m.inputs)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    wanted = dict(zip(m.outputs, session.run(m.outputs, m.inputs)))
    found = context.compile(path).infer(archive, context.path(".npz"))
    for name, value in wanted.items():
        if value.dtype.kind == "f":
            checks.check(np.allclose(found[name], value, rtol=1e-5, atol=tolerance), f"{name}: {found[name]} instead of {value}")
            continue
        difference = np.abs(found[name].astype(np.int64) - value)
        checks.check(found[name].dtype == value.dtype and difference.max() <= 1 and difference.mean() < 0.02, f"{name}: differences {difference}")


def written():
    """Operators and inputs of the bodies."""
    text = (ROOT / "lib" / "Import" / "Onnx" / "FunctionBodies.txt").read_text()
    found = re.findall(r'^<domain: "(.*?)".*>\n(\w+) .*?\(([^()]*)\) =>', text, re.M)
    result = set()
    for domain, name, inputs in found:
        marks = ["-" if each.strip().startswith("_") else "x-" if each.strip().startswith("maybe_") else "x" for each in inputs.split(",")]
        result |= {(domain, name, "".join(choice)) for choice in itertools.product(*marks)}
    return result


def test(context, checks, options):
    m = build()
    quantized, recurrent = build_quantized(), build_recurrent()
    checks.equal(sorted(written() - m.used - quantized.used - recurrent.used), [], "bodies without a node")
    compare_quantized(context, checks, quantized)
    # ONNX Runtime rounds the input and the states to 8 bits, too.
    compare_quantized(context, checks, recurrent, tolerance=0.05)
    compare(context, checks, m, (1, 2))
    compare(context, checks, build_whole(), (1,))
    compare(context, checks, build_single(), (1,))
    compare_packed(context, checks)


def compare_packed(context, checks):
    """ONNX Runtime packs queries, keys and values on GPUs only: what is packed is what is not."""
    m = Model()
    for name in "qkv":
        m.input(name, 2, 5, 8)
        m.nodes.append(helper.make_node("Reshape", [name, "apart"], [f"{name}_apart"]))
    m.weight("apart", value=np.array([0, 0, 2, 1, 4], np.int64))
    m.nodes.append(helper.make_node("Concat", ["q_apart", "k_apart", "v_apart"], ["all"], axis=3))
    m.nodes.append(helper.make_node("Concat", ["k_apart", "v_apart"], ["pairs"], axis=3))
    m.node("MultiHeadAttention", ["q", "k", "v"], ["separate"], num_heads=2)
    m.node("MultiHeadAttention", ["all"], ["packed"], num_heads=2)
    m.node("MultiHeadAttention", ["q", "pairs"], ["half_packed"], num_heads=2)
    path, archive = context.path(".onnx"), context.path(".npz")
    onnx.save(m.proto(), path)
    np.savez(archive, **m.inputs)
    found = context.compile(path, microbatches=2).infer(archive, context.path(".npz"))
    for name in ("packed", "half_packed"):
        error = common.relative_error(found[name], found["separate"])
        checks.check(error < 1e-6, f"{name}: relative error {error:.1e}")


def compare(context, checks, m, counts):
    path, archive = context.path(".onnx"), context.path(".npz")
    onnx.save(m.proto(), path)
    np.savez(archive, **m.inputs)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    wanted = dict(zip(m.outputs, session.run(m.outputs, m.inputs)))
    for microbatches in counts:
        found = context.compile(path, microbatches=microbatches).infer(archive, context.path(".npz"))
        for name, value in wanted.items():
            error = common.relative_error(found[name], value)
            checks.check(error < 1e-5, f"{name}: relative error {error:.1e}")


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

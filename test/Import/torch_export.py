"""Writes models with the metadata of PyTorch's exporter.

    torch_export.py FOLDER
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import INT64, graph, integer, message, model, node, tensor, untyped, value  # noqa: E402

BOOL = 9
SIGNATURE = """
# inputs
p_a_weight: PARAMETER target='a.weight'
p_a_bias: PARAMETER target='a.bias'
p_b_weight: PARAMETER target='b.weight'
p_b_bias: PARAMETER target='b.bias'
p_l_weight: PARAMETER target='l.weight'
b_mask: BUFFER target='mask' persistent=True
c_k: CONSTANT_TENSOR target='k'
x: USER_INPUT

# outputs
y: USER_OUTPUT
"""


def entry(key, text):
    return message((1, key), (2, text))


def called(nodes, call=None, rule=None, result="v", trace=None):
    """A node with what the exporter says of it."""
    metadata = []
    if trace:
        metadata.append((9, entry("pkg.torch.onnx.stack_trace", trace)))
    if call:
        metadata.append((9, entry("pkg.torch.onnx.fx_node", f"%{result} : [num_users=1] = call_function[target=torch.ops.aten.{call}], kwargs = {{}})")))
    if rule:
        metadata.append((9, entry("pkg.onnxscript.rewriter.rule_name", rule)))
    return nodes + message(*metadata)


def folded(name, sources):
    return message((1, name), (4, entry("pkg.onnxscript.optimizer.folded_from", str(sources))))


def exported(nodes, initializers, values=(), signature=SIGNATURE):
    body = graph(nodes, inputs=[value("x", [2, 3, 4])], outputs=[untyped("y")], initializers=initializers)
    body += message((13, list(values)), (16, entry("pkg.torch.export.ExportedProgram.graph_signature", signature)))
    producer = message((2, "pytorch"))
    return model(body) + producer


def vector(name, size=4, start=0.0):
    return tensor(name, [size], floats=[start + i for i in range(size)])


NORM_A = called(node("LayerNormalization", ["x", "a.weight", "a.bias"], ["h"]), "layer_norm.default](args = (%x, [4], %p_a_weight, %p_a_bias, 1e-05, False)")


def inlined(number, line):
    """The trace of a node in a function that was inlined."""
    return f'File "<eval_with_key>.{number}", line 5, in forward\n    {line}'


def region(norm, relu):
    """A norm and a ReLU with such traces, between nodes of the model's own code."""
    own = 'File "model.py", line 7, in forward\n    y = x * self.p_a_weight'
    return exported(
        [
            called(node("Mul", ["x", "a.weight"], ["h"], name="node_mul"), trace=own),
            called(node("LayerNormalization", ["h", "b.weight", "b.bias"], ["norm"], name="node_norm"), trace=norm),
            # The optimizer's nodes have no trace.
            called(node("Neg", ["norm"], ["i"], name="node_neg")),
            called(node("Relu", ["i"], ["relu"], name="node_relu"), trace=relu),
            called(node("Abs", ["relu"], ["abs"], name="node_abs"), trace=relu),
            called(node("Add", ["relu", "abs"], ["j"], name="node_add"), trace=own),
            called(node("Add", ["j", "h"], ["y"], name="node_sum"), trace=own),
        ],
        [vector("a.weight"), vector("b.weight"), vector("b.bias")],
    )


def batch_norm(x, y, call="_native_batch_norm_legit_functional.default](args = (%x,)", mean="m", variance="v"):
    return called(node("BatchNormalization", [x, "s", "b", mean, variance], [y], name="node_" + y), call)


NORM_TENSORS = [vector(name, 3) for name in ("s", "b", "m", "v", "m_2", "v_2")]


def norms(second, more=()):
    """A batch norm in eval mode and one behind it."""
    nodes = [batch_norm("x", "h", "_native_batch_norm_legit_no_training.default](args = (%x,)"), batch_norm("h", "i" if more else "y", second, "m_2", "v_2")]
    tensors = [*NORM_TENSORS, tensor("ratio", [], floats=[0.5]), tensor("yes", [], raw=b"\1", dtype=BOOL)]
    return exported(nodes + list(more), tensors)


FILES = {
    # b.weight, b.bias and mask had the values of a's and were merged with them.
    "merged": exported(
        [
            NORM_A,
            called(node("LayerNormalization", ["h", "a.weight", "a.bias"], ["i"]), "layer_norm.default](args = (%h, [4], %p_b_weight, %p_b_bias, 1e-05, False)"),
            called(node("Add", ["i", "a.bias"], ["y"]), "add.Tensor](args = (%i, %b_mask)"),
        ],
        [vector("a.weight"), vector("a.bias", start=1.0)],
    ),
    # A linear layer's weight of 3 x 4 is stored as 4 x 3.
    "transposed": exported(
        [called(node("MatMul", ["x", "val_0"], ["y"]), "linear.default](args = (%x, %p_l_weight)")],
        [tensor("val_0", [4, 3], floats=[float(i) for i in range(12)])],
        [folded("val_0", ["l.weight"])],
    ),
    # Buffers and constants are computed with freely.
    "constants": exported(
        [NORM_A, node("Mul", ["h", "mask"], ["i"]), node("Mul", ["i", "k"], ["j"]), node("Add", ["j", "val_1"], ["y"])],
        [vector("a.weight"), vector("a.bias"), vector("mask"), vector("k"), vector("val_1")],
        [folded("val_1", ["mask", "k"])],
    ),
    "batch_norm": exported(
        [called(node("Mul", ["x", "a.weight"], ["h"]), rule="FuseBatchNormIntoGemm"), node("Add", ["h", "val_1"], ["y"])],
        [vector("a.weight"), vector("val_1")],
        [folded("val_1", ["a.bias", "b.bias"])],
    ),
    # Nothing says which of two tensors of equal value is which.
    "ambiguous": exported(
        [called(node("Mul", ["a.weight", "x"], ["h"]), "foo.default](args = (%x, %p_b_weight, %p_b_bias)"), node("Add", ["h", "a.bias"], ["y"])],
        [vector("a.weight"), vector("a.bias")],
    ),
    # Two layer norms of x, with the same values, are one node.
    "one_node": exported(
        [
            called(node("LayerNormalization", ["x", "a.weight", "a.bias"], ["layer_norm"], name="node_layer_norm"), "layer_norm.default](args = (%x, [4], %p_a_weight, %p_a_bias, 1e-05, False)", result="layer_norm"),
            called(node("Add", ["layer_norm", "layer_norm"], ["y"]), "add.Tensor](args = (%layer_norm, %layer_norm_1)", result="add"),
        ],
        [vector("a.weight"), vector("a.bias"), tensor("l.weight", [3, 4], floats=[0.0] * 12)],
    ),
    # Gradients stop at detach(), which an optimized file does not have.
    "detach": exported(
        [
            NORM_A,
            called(node("Identity", ["h"], ["detach"]), "detach.default](args = (%layer_norm,)", result="detach"),
            called(node("Mul", ["h", "detach"], ["y"]), "mul.Tensor](args = (%layer_norm, %detach)", result="mul"),
        ],
        [vector("a.weight"), vector("a.bias")],
    ),
    "lost_detach": exported(
        [
            called(node("LayerNormalization", ["x", "a.weight", "a.bias"], ["layer_norm"]), "layer_norm.default](args = (%x, [4], %p_a_weight, %p_a_bias, 1e-05, False)", result="layer_norm"),
            # Of a constant: nothing is lost.
            called(node("Add", ["layer_norm", "val_2"], ["add"]), "add.Tensor](args = (%layer_norm, %detach_1)", result="add"),
            called(node("Mul", ["add", "layer_norm"], ["y"], name="node_mul"), "mul.Tensor](args = (%add, %detach)", result="mul"),
        ],
        [vector("a.weight"), vector("a.bias"), vector("val_2")],
        [folded("val_2", ["k"])],
    ),
    # What runs under torch.no_grad() or torch.autocast() is in the code of functions.
    "no_grad": region(inlined(36, "norm = layer_norm(mul, [4], p_b_weight, p_b_bias);  p_b_weight = None"), inlined(36, "relu = torch.ops.aten.relu.default(neg)")),
    "autocast": region(inlined(37, "norm = layer_norm(mul, [4], arg4_1, arg5_1);  arg4_1 = None"), inlined(37, "relu = torch.ops.aten.relu.default(neg)")),
    "either": region(inlined(38, "norm = layer_norm(mul, [4]);  mul = None"), inlined(38, "relu = torch.ops.aten.relu.default(neg)")),
    # An autocast in no_grad has the outer function first.
    # The result of a call may have an input's name.
    "like_input": region(inlined(41, "x = layer_norm(mul, [4]);  mul = None"), inlined(41, "relu = torch.ops.aten.relu.default(x)")),
    "input": region(inlined(42, "norm = layer_norm(x, [4]);  x = None"), inlined(42, "relu = torch.ops.aten.relu.default(norm)")),
    "nested": region(inlined(39, "wrap = wrap_with_autocast(norm, p_b_weight);  p_b_weight = None") + "\n  " + inlined(40, "norm = layer_norm(mul, [4], arg4_1, arg5_1)"), inlined(39, "relu = relu(norm)")),
    # Norms that were in eval mode, beside another that trains, beside dropout, and alone.
    "norm_modes": norms("_native_batch_norm_legit_functional.default](args = (%h,)"),
    "norm_and_dropout": norms("_native_batch_norm_legit_no_training.default](args = (%h,)", [node("Dropout", ["i", "ratio", "yes"], ["y"])]),
    "eval_mode": norms("_native_batch_norm_legit_no_training.default](args = (%h,)"),
    # Buffers that the forward pass writes; running statistics belong to their norm.
    "mutated": exported(
        [batch_norm("x", "h"), node("Mul", ["h", "mask"], ["y"])], [*NORM_TENSORS, vector("mask")],
        signature=SIGNATURE.replace("y: USER", "add: BUFFER_MUTATION target='mask'\nadd_1: BUFFER_MUTATION target='k'\nadd_2: BUFFER_MUTATION target='m'\ny: USER"),
    ),
    # One norm twice.
    "shared_norm": exported([batch_norm("x", "h"), batch_norm("h", "y")], NORM_TENSORS),
    "half_shared_norm": exported([batch_norm("x", "h"), batch_norm("h", "y", variance="v_2")], NORM_TENSORS),
    # Embeddings: one whose row 1 is for padding, and one without such a row.
    "embedding": exported(
        [
            node("Cast", ["x"], ["i"], attributes=[integer("to", INT64)]),
            called(node("Gather", ["l.weight", "i"], ["h"]), "embedding.default](args = (%p_l_weight, %i, 1)"),
            called(node("Gather", ["a.weight", "i"], ["j"], name="node_j"), "embedding.default](args = (%p_a_weight, %i, -1, True)"),
            called(node("Concat", ["h", "h"], ["y"], attributes=[integer("axis", 0)]), "cat.default](args = ([%h, %h],)"),
        ],
        [tensor("l.weight", [3, 4], floats=[0.0] * 12), vector("a.weight"), vector("a.bias")],
    ),
    # A parameter that nothing reads has no value, and here nothing is lost.
    "unused": exported(
        [
            called(node("LayerNormalization", ["x", "a.weight", "a.bias"], ["layer_norm"]), "layer_norm.default](args = (%x, [4], %p_a_weight, %p_a_bias, 1e-05, False)", result="layer_norm"),
            called(node("Relu", ["layer_norm"], ["y"]), "relu.default](args = (%layer_norm,)", result="relu"),
        ],
        [vector("a.weight"), vector("a.bias")],
    ),
    # What the older exporter loses.
    "lost_names": exported(
        [
            node("Identity", ["onnx::Mul_1"], ["onnx::Add_2"]), node("Identity", ["onnx::Mul_1"], ["onnx::Add_3"]),
            *(node("Add", [f"h{i}", f"onnx::Add_{i + 10}"], [f"h{i + 1}"]) for i in range(9)),
            node("Mul", ["x", "onnx::Mul_1"], ["g"]), node("Add", ["g", "onnx::Add_2"], ["f"]), node("Add", ["f", "onnx::Add_3"], ["h0"]),
            node("Relu", ["h9"], ["y"]),
        ],
        [vector("onnx::Mul_1"), *(vector(f"onnx::Add_{i + 10}") for i in range(9))],
        signature="",
    ),
    # clamp() by numbers, by numbers that the exporter made tensors, and by tensors.
    "clamp": exported(
        [
            NORM_A,
            called(node("Clip", ["h", "bound"], ["i"]), "clamp.default](args = (%h, 1.0)"),
            called(node("Max", ["i", "bound"], ["j"]), "clamp.Tensor](args = (%i, %scalar_tensor_default, %scalar_tensor_default_1)"),
            called(node("Min", ["j", "bound"], ["k"]), "clamp.Tensor](args = (%j, None, %c_k)"),
            called(node("Clip", ["k", "bound"], ["l"]), "clamp_min.Tensor](args = (%k, %c_k)"),
            called(node("Max", ["l", "bound"], ["y"]), "maximum.default](args = (%l, %c_k)"),
        ],
        [vector("a.weight"), vector("a.bias"), tensor("bound", [], floats=[1.0])],
    ),
}  # fmt: skip


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in FILES.items():
        (folder / f"{name}.onnx").write_bytes(data)


if __name__ == "__main__":
    main()

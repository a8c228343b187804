"""Gives the importer nodes that it must refuse, with the reason and the node's name.

    refused_nodes.py
"""

import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import FLOAT, INT64, graph, integer, integers, message, model, node, opset, tensor, text, untyped, value  # noqa: E402

INT32, BOOL = 6, 9


def ints(name, *values, dims=None, dtype=INT64):
    return tensor(name, [len(values)] if dims is None else dims, ints=list(values) if dtype == INT64 else None,
                  raw=None if dtype == INT64 else b"".join(v.to_bytes(4, "little") for v in values), dtype=dtype)  # fmt: skip


def floats(name, *values, dims=None):
    return tensor(name, [len(values)] if dims is None else dims, floats=list(values))


def one(operator, inputs, *initializers, outputs=("y",), attributes=(), version=18, dims=(2, 12), dtype=FLOAT, more=()):
    """A model with one node; `x` is an input of the graph, and `n` one of integers."""
    body = graph(
        [node(operator, inputs, list(outputs), name="here", attributes=attributes)],
        inputs=[value("x", list(dims), dtype), value("n", [2], INT64), *more], outputs=[untyped("y")], initializers=initializers,
    )  # fmt: skip
    return model(body, opsets=[opset(version)])


def microsoft(operator, inputs, attributes=()):
    """A model with one node of com.microsoft."""
    content = graph(
        [node(operator, inputs, ["y"], name="here", domain="com.microsoft", attributes=attributes)],
        inputs=[value("x", [2, 8])], outputs=[untyped("y")],
    )  # fmt: skip
    return model(content, opsets=[opset(17), opset(1, "com.microsoft")])


def body(name, nodes, inputs, outputs, initializers=()):
    """An attribute that is a graph."""
    content = graph(nodes, inputs=[untyped(each) for each in inputs], outputs=[untyped(each) for each in outputs], initializers=initializers)
    return message((1, name), (6, content), (20, 5))


def counting(goes_on, *nodes):
    """The body of a loop over x, whose condition is the value `goes_on`."""
    return body("body", [node("Identity", ["s"], ["t"]), *nodes], ["i", "c", "s"], [goes_on, "t"])


def truth(name, *values, dims=None):
    return tensor(name, [len(values)] if dims is None else dims, raw=bytes(values), dtype=BOOL)


FOREVER, ONCE = ints("m", 1 << 40, dims=[]), ints("m", 1, dims=[])
YES = truth("go", 1, dims=[])
ODD = [node("Equal", ["i", "n"], ["more"]), node("ReduceMax", ["n"], ["least"])]

CASES = {
    # Operators that are functions of others.
    "QuickGelu, attribute": (microsoft("QuickGelu", ["x"], [integer("beta", 1)]), "attribute 'beta' is not supported"),
    "FastGelu, inputs": (microsoft("FastGelu", ["x", "x", "x"]), "operator 'com.microsoft.FastGelu' is not supported with these inputs"),
    "BeamSearch": (microsoft("BeamSearch", ["x", "x", "x"]), "operator com.microsoft.BeamSearch (opset 1) is not supported"),
    "MatMulNBits, attributes": (microsoft("MatMulNBits", ["x", "x", "x"]), "attribute 'K' is missing; the operator requires it"),
    # An axis that is named twice, once counted from the end.
    "ReduceSum, axis twice": (one("ReduceSum", ["x", "a"], ints("a", 1, -1)), "names axis 1 twice"),
    "ReduceMax, axis twice": (one("ReduceMax", ["x"], attributes=[integers("axes", 0, -2)], version=17), "names axis 0 twice"),
    "ReduceMean, axis twice": (one("ReduceMean", ["x", "a"], ints("a", 0, 0)), "names axis 0 twice"),
    "Pad, axis twice": (one("Pad", ["x", "p", "", "a"], ints("p", 1, 1, 1, 1), ints("a", 1, -1)), "names axis 1 twice"),
    "Slice, axis twice": (
        one("Slice", ["x", "s", "e", "a"], ints("s", 0, 1), ints("e", 1, 2), ints("a", 0, -2)), "names axis 0 twice",
    ),
    "Unsqueeze, axis twice": (one("Unsqueeze", ["x", "a"], ints("a", 0, -4)), "names axis 0 twice"),
    # Operands that the operator takes and operations of nn do not.
    # Constants of the wrong type, size or form, or computed.
    "Dropout, float training_mode": (
        one("Dropout", ["x", "r", "t"], floats("r", 0.5, dims=[]), floats("t", 1.0, dims=[])),
        "input #2 (training_mode) has elements of type FLOAT, which Dropout of opset 18 does not take",
    ),
    "Dropout, integer ratio": (one("Dropout", ["x", "r"], ints("r", 1, dims=[])), "input #1 (ratio) has elements of type INT64"),
    "Dropout, negative ratio": (
        one("Dropout", ["x", "r"], floats("r", -0.5, dims=[])), "ratio is -0.500000, which is outside of [0, 1]",
    ),
    "RandomNormalLike of INT32": (
        one("RandomNormalLike", ["x"], attributes=[integer("dtype", 6)]), "draws numbers of a type that is not supported",
    ),
    "RandomUniform, negative size": (one("RandomUniform", [], attributes=[integers("shape", 2, -1)]), "attribute shape has a negative size"),
    "RandomUniform, too large": (
        one("RandomUniform", [], attributes=[integers("shape", 1 << 30, 1 << 30)]), "draws more than 1099511627776 numbers",
    ),
    "Range, mixed types": (
        one("Range", ["a", "b", "c"], floats("a", 0.0, dims=[]), ints("b", 4, dims=[]), floats("c", 1.0, dims=[])),
        "input #1 (limit) has elements of type INT64 and input #0 of type FLOAT; both must have the same",
    ),
    "Range, no limit": (
        one("Range", ["a", "b", "c"], ints("a", 0, dims=[]), ints("b"), ints("c", 1, dims=[])),
        "input 'b' (limit) has 0 elements; it must have one",
    ),
    "Range, by nothing": (
        one("Range", ["a", "b", "c"], ints("a", 0, dims=[]), ints("b", 4, dims=[]), ints("c", 0, dims=[])), "counts in steps of 0",
    ),
    "Range, computed": (
        one("Range", ["a", "n", "c"], ints("a", 0, dims=[]), ints("c", 1, dims=[])), "input 'n' (limit) depends on the data",
    ),
    "Slice, float steps": (
        one("Slice", ["x", "s", "e", "a", "t"], ints("s", 0), ints("e", 1), ints("a", 0), floats("t", 1.0)),
        "input #4 (steps) has elements of type FLOAT, which Slice of opset 18 does not take",
    ),
    "Slice, no steps": (
        one("Slice", ["x", "s", "e", "a", "t"], ints("s", 0), ints("e", 1), ints("a", 0), ints("t")),
        "starts, ends, axes and steps of different length",
    ),
    "Slice, matrix of starts": (
        one("Slice", ["x", "s", "e"], ints("s", 0, 0, dims=[1, 2]), ints("e", 1, 1)), "input 's' (starts) has rank 2; it must be a list",
    ),
    "Reshape, computed shape": (one("Reshape", ["x", "n"]), "input 'n' (shape) depends on the data; it must be known at compile time"),
    "SequenceAt, no position": (one("SequenceAt", ["x", "p"], ints("p")), "input 'p' (position) has 0 elements; it must have one"),
    "SequenceAt of a tensor": (one("SequenceAt", ["x", "p"], ints("p", 0, dims=[])), "input #0 (input_sequence) has elements of type"),
    "SplitToSequence, float sizes": (one("SplitToSequence", ["x", "s"], floats("s", 1.0)), "input #1 (split) has elements of type FLOAT"),
    "ReduceSum, float axes": (one("ReduceSum", ["x", "a"], floats("a", 1.0)), "input #1 (axes) has elements of type FLOAT"),
    "Trilu, two diagonals": (one("Trilu", ["x", "k"], ints("k", 1, 2)), "input 'k' (k) has 2 elements; it must have one"),
    "Pad, no value": (one("Pad", ["x", "p", "v"], ints("p", 0, 1, 0, 1), floats("v")), "input 'v' (constant_value) has 0 elements"),
    "Resize, integer scales": (one("Resize", ["x", "", "s"], ints("s", 1, 2)), "input #2 (scales) has elements of type INT64"),
    "Resize, empty sizes": (one("Resize", ["x", "", "", "s"], ints("s")), "has 0 sizes for 2 axes"),
    "ConstantOfShape, negative": (one("ConstantOfShape", ["s"], ints("s", -1)), "makes a tensor with an axis of size -1"),
    "Div by zero": (one("Div", ["a", "b"], ints("a", 4), ints("b", 0)), "divides whole numbers by zero"),
    "Mod by zero": (one("Mod", ["a", "b"], ints("a", 4), ints("b", 0)), "divides whole numbers by zero"),
    # Words and outputs.
    "Pad, mode": (one("Pad", ["x", "p"], ints("p", 0, 1, 0, 1), attributes=[text("mode", "circular")]), "attribute mode is 'circular', which is not supported"),
    "Resize, few places of too many": (
        one("Resize", ["x", "", "", "s"], ints("s", 2, 64), attributes=[text("mode", "linear")], dims=(2, 1 << 23)),
        "resizes axis 1 from 8388608 to 64, which is too large",
    ),
    "Resize, mode": (one("Resize", ["x", "", "", "s"], ints("s", 2, 24), attributes=[text("mode", "area")]), "attribute mode is 'area'"),
    "MaxPool, large window": (
        one("MaxPool", ["x"], outputs=("y", "i"), attributes=[integers("kernel_shape", 1025)], dims=(1, 2, 1030)),
        "tells the places of maxima in windows of more than 1024 elements",
    ),
    "MaxUnpool, places": (
        one("MaxUnpool", ["x", "n"], attributes=[integers("kernel_shape", 2)], dims=(1, 2, 4)), "has places of another shape than its input",
    ),
    "MaxUnpool, output": (
        one("MaxUnpool", ["x", "i", "s"], ints("i", 0, 1, dims=[1, 2, 1]), ints("s", 1, 2, 1), attributes=[integers("kernel_shape", 2)], dims=(1, 2, 1)),
        "has an output_shape that is smaller than what it makes",
    ),
    "RoiAlign, samples": (
        one("RoiAlign", ["x", "r", "i"], floats("r", 0.0, 0.0, 1.0, 1.0, dims=[1, 4]), ints("i", 0, 0), dims=(1, 2, 4, 4)),
        "has an image, regions and indices of samples that do not fit each other",
    ),
    "RoiAlign, adaptive": (
        one("RoiAlign", ["x", "r", "i"], ints("i", 0), attributes=[], dims=(1, 1, 4, 4), more=[value("r", [1, 4], FLOAT)]),
        "takes as many samples as its regions are large, and they depend on the data",
    ),
    "DeformConv, offsets": (
        one("DeformConv", ["x", "w", "x"], floats("w", 0.0, 1.0, 2.0, 3.0, dims=[1, 1, 2, 2]), version=19, dims=(1, 1, 4, 4)),
        "has offsets of another shape than its output says",
    ),
    "DeformConv, groups": (
        one("DeformConv", ["x", "w", "x"], floats("w", 0.0, 1.0, 2.0, 3.0, dims=[1, 1, 2, 2]), version=19, dims=(1, 3, 4, 4)),
        "has 3 input channels, which its weight does not take in 1 groups, or its offsets in 1",
    ),
    "Det, not square": (one("Det", ["x"]), "has no square matrices of up to 64 rows"),
    "Pad, nothing left": (one("Pad", ["x", "p"], ints("p", -1, 0, -1, 0)), "takes away all elements of axis 0"),
    "Slice, no step": (
        one("Slice", ["x", "s", "e", "a", "t"], ints("s", 0), ints("e", 1), ints("a", 0), ints("t", 0)), "has steps of 0",
    ),
    "Tile, repetitions": (one("Tile", ["x", "r"], ints("r", 2)), "has 1 repetitions for a tensor of rank 2"),
    "Tile, no repetition": (one("Tile", ["x", "r"], ints("r", 2, 0)), "repeats an axis 0 times"),
    "TopK of too few": (one("TopK", ["x", "k"], ints("k", 13), outputs=("y", "i")), "takes 13 elements of an axis of 12"),
    "CumSum, computed axis": (one("CumSum", ["x", "n"]), "input 'n' (axis) depends on the data"),
    "CumSum, axis": (one("CumSum", ["x", "a"], ints("a", 2, dims=[])), "axis 2 is outside of a tensor of rank 2"),
    "OneHot, values": (one("OneHot", ["n", "d", "v"], ints("d", 4), floats("v", 1.0)), "has 1 values; it must have"),
    "GatherElements, rank": (one("GatherElements", ["x", "n"]), "has indices of rank 1 for a tensor of rank 2"),
    "GatherElements outside": (one("GatherElements", ["x", "i"], ints("i", 2, 0, dims=[1, 2])), "index 2 is outside of an axis of size 2"),
    "GatherElements, more": (
        one("GatherElements", ["x", "i"], ints("i", 0, 0, 0, dims=[3, 1]), attributes=[integer("axis", 1)]), "has 3 indices along axis 0",
    ),
    "GatherND, tuples": (one("GatherND", ["x", "i"], ints("i", 0, 0, 0)), "has tuples of 3 indices into a tensor of rank 2"),
    "ScatterND, updates": (one("ScatterND", ["x", "i", "x"], ints("i", 0, 0)), "has updates of another shape"),
    "ScatterND, reduction": (
        one("ScatterND", ["x", "i", "x"], ints("i", 0, 1, dims=[2, 1]), attributes=[text("reduction", "mean")]),
        "attribute reduction is 'mean', which is not supported",
    ),
    "ScatterElements, shape": (one("ScatterElements", ["x", "n", "x"]), "has indices and updates of another shape or rank"),
    "DepthToSpace, rank": (one("DepthToSpace", ["x"], attributes=[integer("blocksize", 2)]), "has an input of rank 2; it must be 4"),
    "SpaceToDepth, blocks": (
        one("SpaceToDepth", ["x"], attributes=[integer("blocksize", 2)], dims=(1, 1, 3, 4)), "has an image of 3 x 4, which blocks of 2",
    ),
    "Conv, groups whose channels overflow": (
        one("Conv", ["x", "w"], tensor("w", [4, 4, 1, 1], floats=[1.0] * 16), attributes=[integer("group", 2**62)], dims=(1, 4, 4, 4)),
        "4611686018427387904 groups does not take",
    ),
    "GroupNormalization, groups": (
        one("GroupNormalization", ["x", "s", "s"], floats("s", 1.0, 1.0, 1.0), attributes=[integer("num_groups", 2)], dims=(1, 3, 4),
            version=21), "has 2 groups for 3 channels",
    ),
    "InstanceNormalization, scale": (
        one("InstanceNormalization", ["x", "s", "s"], floats("s", 1.0), dims=(1, 3, 4)), "does not fit its 3 channels",
    ),
    "PRelu, slope": (one("PRelu", ["x", "s"], floats("s", *[1.0] * 24, dims=[2, 1, 12])), "has a slope of a larger shape than its input"),
    "LRN, size": (one("LRN", ["x"], attributes=[integer("size", 0)]), "attribute size is 0"),
    "Einsum, operands": (one("Einsum", ["x"], attributes=[text("equation", "ij,jk->ik")]), "attribute equation has 2 operands, the node 1"),
    "Einsum, axes": (one("Einsum", ["x"], attributes=[text("equation", "ijk->i")]), "attribute equation names 3 axes of a tensor of rank 2"),
    "Einsum, result": (one("Einsum", ["x"], attributes=[text("equation", "ij->ik")]), "names an axis of the result that no operand has"),
    "Einsum, sizes": (one("Einsum", ["x"], attributes=[text("equation", "ii->i")]), "gives axes of sizes 2 and 12 the same name"),
    "Einsum, letters": (one("Einsum", ["x"], attributes=[text("equation", "i?->i")]), "attribute equation has '?' in 'i?'"),
    "NegativeLogLikelihoodLoss, labels": (one("NegativeLogLikelihoodLoss", ["x", "m"], ints("m", 0, 1, 0)), "has labels of another shape"),
    # Subgraphs, sequences and what must be known.
    "Loop without end": (
        one("Loop", ["m", "go", "x"], FOREVER, YES, attributes=[counting("c")]), "loops unroll to more than 131072 nodes",
    ),
    "Loop, condition of the data": (
        one("Loop", ["m", "go", "x"], ONCE, YES, attributes=[counting("more", ODD[0])]), "goes on for as long as the data says",
    ),
    "Loop, no end": (one("Loop", ["", "", "x"], attributes=[counting("c")]), "has neither a number of iterations nor a condition"),
    "Loop, computed number": (one("Loop", ["n", "", "x"], attributes=[counting("c")]), "input 'n' (M) depends on the data"),
    "Loop, inputs of the body": (
        one("Loop", ["m", "go"], ONCE, YES, attributes=[counting("c")]), "has a subgraph with 3 inputs; it takes 2",
    ),
    "Loop, outputs": (one("Loop", ["m", "go", "x", "x"], ONCE, YES, attributes=[counting("c")]), "has a body with 2 outputs"),
    "Scan, inputs": (
        one("Scan", ["x"], attributes=[body("body", [], ["p"], ["p"]), integer("num_scan_inputs", 2)]), "attribute num_scan_inputs is 2",
    ),
    "Scan, lengths": (
        one("Scan", ["x", "n", "w"], floats("w", 1.0, 2.0, 3.0),
            attributes=[body("body", [node("Add", ["p", "q"], ["t"])], ["s", "p", "q"], ["s", "t"]), integer("num_scan_inputs", 2)]),
        "scans axes of sizes 2 and 3",
    ),
    "Scan, axes": (
        one("Scan", ["x"], attributes=[body("body", [node("Neg", ["p"], ["t"])], ["p"], ["t"]), integer("num_scan_inputs", 1),
                                       integers("scan_input_axes", 0, 1)]), "attribute scan_input_axes has 2 numbers for 1 values",
    ),
    "If, shapes of the data's branches": (
        one("If", ["x"], dims=(1,), dtype=BOOL, attributes=[
            body("then_branch", [node("Identity", ["n"], ["a"])], [], ["a"]), body("else_branch", [node("ReduceMax", ["n"], ["b"])], [], ["b"]),
        ]), "has branches with results of different types or shapes",
    ),
    "If, no output": (
        one("If", ["go"], YES, attributes=[
            body("then_branch", [], [], []), body("else_branch", [node("ReduceMax", ["n"], ["b"])], [], ["b"]),
        ]), "has a branch with fewer outputs than the node",
    ),
    "NonZero, computed": (one("NonZero", ["x"]), "input 'x' (X) depends on the data"),
    "Compress, computed": (one("Compress", ["x", "x"], dtype=BOOL), "input 'x' (condition) depends on the data"),
    "Compress outside": (one("Compress", ["x", "c"], truth("c", 0, 0, 1), attributes=[integer("axis", 0)]), "chooses element 2 of an axis of size 2"),
    "NonMaxSuppression, scores": (
        one("NonMaxSuppression", ["b", "s"], floats("b", *[0.0] * 8, dims=[1, 2, 4]), floats("s", 1.0, dims=[1, 1, 1])),
        "has scores that do not fit its boxes",
    ),
    "HannWindow, size": (one("HannWindow", ["s"], ints("s", -1, dims=[])), "has a size that is not between 0 and 65536"),
    "DFT, parts": (one("DFT", ["x"], dims=(1, 4, 3)), "neither of real nor of complex numbers"),
    "DFT, too long": (
        one("DFT", ["x", "l"], ints("l", 1 << 20, dims=[]), dims=(1, 4, 1)), "is a product with a matrix of 1048576 x 1048576 elements",
    ),
    "STFT, frames": (
        one("STFT", ["x", "s", "", "f"], ints("s", 2, dims=[]), ints("f", 9, dims=[]), dims=(1, 8, 1)), "has frames of 9 elements, one each 2, of 8",
    ),
    "STFT, rank": (one("STFT", ["x", "s", "", "f"], ints("s", 2, dims=[]), ints("f", 4, dims=[]), dims=(8,)), "has a signal of rank 1; it must be 2, or 3"),
    "STFT, pieces": (
        one("STFT", ["x", "s", "", "f"], ints("s", 1, dims=[]), ints("f", 1024, dims=[]), dims=(1, 1024, 1)), "has frames of 1024 steps or more",
    ),
    "GridSample, grid": (one("GridSample", ["x", "x"], dims=(1, 1, 4, 4), version=20), "has a grid that does not fit its image"),
    "AffineGrid, size": (one("AffineGrid", ["x", "s"], ints("s", 1, 1, 4, 4), version=20), "has maps that do not fit the size of the image"),
    "Col2Im, blocks": (one("Col2Im", ["x", "i", "b"], ints("i", 4, 4), ints("b", 2, 2), dims=(1, 4, 8)), "has columns that are not the 9 blocks"),
    "CenterCropPad, sizes": (one("CenterCropPad", ["x", "s"], ints("s", 4)), "has 1 sizes for 2 axes"),
    "LpPool, exponent": (
        one("LpPool", ["x"], attributes=[integers("kernel_shape", 2), integer("p", 0)], dims=(1, 1, 4)), "takes a norm with the exponent 0",
    ),
    "CumProd, axis": (one("CumProd", ["x", "a"], ints("a", 2, dims=[]), version=26), "axis 2 is outside of a tensor of rank 2"),
    "BitCast, width": (one("BitCast", ["x"], attributes=[integer("to", 7)], version=26), "reads elements of 4 bytes as some of 8"),
    "ReverseSequence, lengths": (one("ReverseSequence", ["x", "l"], ints("l", 1, 2, 3)), "has lengths that are not one for each sample"),
    "TensorScatter, update": (one("TensorScatter", ["x", "n"], version=24, dims=(2, 3, 4), dtype=INT64), "has an update that does not fit its cache"),
    "LinearAttention, heads": (
        one("LinearAttention", ["x", "x", "x"], outputs=("y", "z"), dims=(1, 2, 12), attributes=[integer("q_num_heads", 3), integer("kv_num_heads", 2)], version=27),
        "has 3 heads of queries for 2 of keys and values",
    ),
    "CausalConvWithState, weight": (one("CausalConvWithState", ["x", "x"], outputs=("y", "z"), dims=(1, 2, 3), version=27), "is not one row for each channel"),
    "OptionalGetElement of nothing": (one("OptionalGetElement", [""]), "is missing; the operator requires it"),
    "Cast to a string": (one("Cast", ["x"], attributes=[integer("to", 8)]), "its target type is not supported"),
    "Gather outside": (one("Gather", ["x", "i"], ints("i", 2), attributes=[integer("axis", 0)]), "index 2 is outside of axis 0"),
}  # fmt: skip


def main():
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (contents, expected) in CASES.items():
            path = pathlib.Path(folder) / "model.onnx"
            path.write_bytes(contents)
            done = subprocess.run(["pp-opt", str(path)], capture_output=True, text=True, timeout=120)
            lines = [line for line in done.stderr.splitlines() if ": error: " in line]
            named = any(expected in line and 'node "here"' in line for line in lines)
            if done.returncode not in (1, 3) or not named:
                failures += 1
                print(f"{name}: exit code {done.returncode}, expected '{expected}', got {lines or done.stderr[-500:]}")
    print(f"{len(CASES)} nodes, {failures} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()

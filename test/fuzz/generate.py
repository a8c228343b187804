"""Small models with every operator that the importer knows, mostly valid.

Operands and attributes are what the operator takes, now and then one that it
does not; what follows is a chain of a few more operators.
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "models" / "bad"))
from make import (  # noqa: E402
    INT64, graph, integer, integers, message, model, node, opset, tensor, text, untyped, value,
)  # fmt: skip

BOOL = 9
OPSETS = [7, 9, 10, 11, 12, 13, 14, 16, 17, 17, 17, 18, 18, 20, 20, 22]
INPUTS = [
    value("image", [2, 4, 8, 8]), value("row", [2, 12]), value("sequence", [2, 3, 12]),
    value("numbers", [2, 3], INT64), value("bools", [2, 12], BOOL),
]  # fmt: skip
FLOATS = {
    "weight": [4, 4, 3, 3], "matrix": [12, 12], "wide": [12, 5], "bias": [4], "line": [12], "table": [9, 12],
    "one": [], "single": [1], "half": [], "scales": [4],
}  # fmt: skip
CONSTANTS = {
    "shape2": [2, -1], "shape4": [2, 2, 2, -1], "axes0": [0], "axes1": [1], "axes2": [2], "axis": [-1], "pads": [0, 0, 1, 1],
    "pads8": [0, 0, 1, 1, 0, 0, 2, 2], "starts": [0], "ends": [6], "steps": [2], "sizes": [2, 4, 16, 16], "like": [2, 12],
    "splits": [4, 8], "repeats": [3, 2, 12],
}  # fmt: skip
SCALARS = {"zero": 0, "index": 1, "last": -1, "limit": 9, "diagonal": 1}

UNARY = (
    "Abs Ceil Cos Erf Exp Floor Gelu HardSigmoid HardSwish Identity LeakyRelu Log Neg Reciprocal Relu Sigmoid Sign Sin "
    "Sqrt Tanh Dropout Bernoulli RandomNormalLike RandomUniformLike Shape Softmax LogSoftmax Flatten Transpose Cast Trilu Clip"
).split()
BINARY = "Add Div Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mul Pow Sub Sum CastLike Mod".split()
LOGICAL = "And Or".split()
FLOAT_INPUTS = ["image", "row", "sequence", "matrix", "line", "table", "one", "single"]
#: Operator -> lists of operands that it takes.
OPERANDS = {
    "Not": [["bools"]],
    "Where": [["bools", "row", "line"], ["bools", "one", "row"]],
    "AveragePool": [["image"]], "MaxPool": [["image"]], "GlobalAveragePool": [["image"]], "GlobalMaxPool": [["image"]],
    "Conv": [["image", "weight"], ["image", "weight", "bias"]],
    "ConvTranspose": [["image", "weight"], ["image", "weight", "bias"]],
    "Gemm": [["row", "matrix"], ["row", "matrix", "line"], ["row", "wide"]],
    "MatMul": [["row", "matrix"], ["sequence", "matrix"], ["row", "line"]],
    "BatchNormalization": [["image", "bias", "bias", "bias", "bias"], ["row", "line", "line", "line", "line"]],
    "LayerNormalization": [["row", "line", "line"], ["sequence", "line"]],
    "Resize": [["image", "", "scales"], ["image", "", "", "sizes"], ["image", "scales"]],
    "Upsample": [["image", "scales"], ["image"]],
    "Concat": [["row", "row"], ["row", "matrix"], ["axes0", "axis"], ["image"]],
    "Constant": [[]],
    "ConstantOfShape": [["like"], ["sizes"], ["axes0"]],
    "Expand": [["row", "repeats"], ["line", "like"]],
    "Gather": [["table", "numbers"], ["row", "index"], ["like", "zero"], ["sequence", "last"]],
    "Pad": [["row", "pads"], ["image", "pads8"], ["image", "pads8", "half"], ["row"]],
    "Range": [["zero", "limit", "index"]],
    "Reshape": [["row", "shape2"], ["image", "shape4"], ["like", "axis"], ["image", "shape2"]],
    "Slice": [["row", "starts", "ends", "axes1"], ["row", "starts", "ends", "axes1", "steps"], ["like", "starts", "ends"], ["row"]],
    "Split": [["row"], ["row", "splits"]],
    "SplitToSequence": [["row", "splits"], ["row", "index"], ["row"]],
    "SequenceAt": [["row", "zero"], ["row", "last"]],
    "Squeeze": [["single"], ["single", "axes0"], ["image", "axes0"]],
    "Unsqueeze": [["row", "axes0"], ["row", "axis"], ["one", "axes0"], ["row"]],
    "Trilu": [["matrix"], ["matrix", "diagonal"]],
    "Clip": [["row"], ["row", "one"], ["row", "one", "half"], ["row", "", "half"]],
    "Dropout": [["row"], ["row", "half"]],
    "Cast": [["row"], ["numbers"], ["like"], ["bools"]],
}  # fmt: skip
for reduction in ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceSum"):
    OPERANDS[reduction] = [["row"], ["row", "axes1"], ["image"], ["sequence", "axes2"], ["like"]]


def number(name, number_):
    return message((1, name), (2, float(number_)), (20, 1))


def numbers(name, values):
    return message((1, name), (7, [float(v) for v in values]), (20, 6))


def constant(name, data):
    return message((1, name), (5, data), (20, 4))


def attributes(rng, operator):
    """What the operator needs, and by chance what it may have."""
    may = {
        "Cast": [integer("to", rng.choice([1, 6, 7, 9, 10, 11, 16]))],
        "Flatten": [integer("axis", rng.choice([0, 1, 2, -1]))],
        "Softmax": [integer("axis", rng.choice([1, -1, 0]))],
        "LogSoftmax": [integer("axis", rng.choice([1, -1, 0]))],
        "Transpose": [integers("perm", *rng.choice([[1, 0], [0, 2, 1], [0, 2, 3, 1]]))],
        "LeakyRelu": [number("alpha", rng.choice([0.1, 0, -1]))],
        "Clip": [number("min", -1), number("max", 1)],
        "RandomNormalLike": [number("mean", 1), number("seed", 3), integer("dtype", rng.choice([1, 6, 11]))],
        "Dropout": [number("ratio", rng.choice([0, 0.5, 1]))],
        "Gelu": [text("approximate", rng.choice(["tanh", "none", "erf"]))],
        "Gemm": [integer("transB", 1), integer("transA", 0), number("alpha", 0.5), number("beta", 2)],
        "Conv": [integers("pads", 1, 1, 1, 1), integers("strides", 2, 2), integer("group", rng.choice([1, 1, 2, 4])),
                 integers("dilations", 2, 2), text("auto_pad", rng.choice(["SAME_UPPER", "VALID", "NOTSET"]))],
        "ConvTranspose": [integers("pads", 1, 1, 1, 1), integers("strides", 2, 2), integers("output_padding", 1, 1),
                          integers("output_shape", 16, 16)],
        "BatchNormalization": [integer("training_mode", rng.choice([0, 1])), number("momentum", 0.9)],
        "LayerNormalization": [integer("axis", rng.choice([-1, 1])), number("epsilon", 1e-5)],
        "Resize": [text("mode", rng.choice(["nearest", "linear", "cubic"])), text("nearest_mode", "floor"),
                   text("coordinate_transformation_mode", rng.choice(["asymmetric", "half_pixel", "align_corners"]))],
        "Upsample": [text("mode", rng.choice(["nearest", "linear"])), numbers("scales", [1, 1, 2, 2])],
        "Gather": [integer("axis", rng.choice([0, 1, -1]))],
        "Pad": [text("mode", rng.choice(["constant", "reflect", "edge"])), integers("pads", 0, 1, 0, 1), number("value", 1)],
        "Slice": [integers("starts", 0), integers("ends", 2), integers("axes", 1)],
        "Split": [integer("axis", rng.choice([1, -1, 0])), integer("num_outputs", 2), integers("split", 4, 8)],
        "SplitToSequence": [integer("axis", rng.choice([0, 1])), integer("keepdims", rng.choice([0, 1]))],
        "Squeeze": [integers("axes", 0)], "Unsqueeze": [integers("axes", rng.choice([0, 1, -1]))],
        "Trilu": [integer("upper", rng.choice([0, 1]))], "Mod": [integer("fmod", rng.choice([0, 1]))],
        "ConstantOfShape": [constant("value", tensor("", [1], floats=[2.0]))],
        "Constant": [constant("value", tensor("", [2], floats=[2.0, 3.0]))],
        "Shape": [integer("start", rng.choice([0, 1, -1])), integer("end", rng.choice([1, -1]))],
    }.get(operator, [])  # fmt: skip
    must = {
        "MaxPool": [integers("kernel_shape", 2, 2)], "AveragePool": [integers("kernel_shape", 2, 2)],
        "Concat": [integer("axis", rng.choice([0, 1, -1]))],
    }.get(operator, [])  # fmt: skip
    if operator in ("MaxPool", "AveragePool"):
        may = [integers("strides", 2, 2), integers("pads", 1, 1, 1, 1), integer("ceil_mode", 1),
               integer("count_include_pad", 1), integers("dilations", 2, 2), text("auto_pad", "SAME_LOWER")]  # fmt: skip
    if operator.startswith("Reduce"):
        may = [integers("axes", rng.choice([1, -1, 0])), integer("keepdims", rng.choice([0, 1])),
               integer("noop_with_empty_axes", 1)]  # fmt: skip
    keep = 0.9 if len(may) == 1 else 0.4
    return must + [each for each in may if rng.random() < keep]


def operands(rng, operator):
    if operator in OPERANDS:
        return list(rng.choice(OPERANDS[operator]))
    if operator in BINARY:
        one = rng.choice(FLOAT_INPUTS[:3])
        like = [one, one, "one", "single"] + ([] if one == "image" else ["line"])
        return [one, rng.choice(like if rng.random() < 0.9 else FLOAT_INPUTS)]
    if operator in LOGICAL:
        return ["bools", "bools"]
    return [rng.choice(FLOAT_INPUTS)]


def initializers():
    made = []
    for name, dims in FLOATS.items():
        count = 1
        for dim in dims:
            count *= dim
        values = [2.0] * 4 if name == "scales" else [(i * 7 % 11 - 5) / 8 for i in range(count)]
        made.append(tensor(name, dims, floats=[1.0, 1.0, 2.0, 2.0] if name == "scales" else values))
    made += [tensor(name, [len(v)], ints=v, dtype=INT64) for name, v in CONSTANTS.items()]
    made += [tensor(name, [], ints=[v], dtype=INT64) for name, v in SCALARS.items()]
    return made


def operators():
    """Those that are imported: the page is generated from the importer's table."""
    page = (HERE.parents[1] / "docs" / "operators.md").read_text()
    names = re.findall(r"^\| (\w+) \| \d", page, re.M)
    assert names, "docs/operators.md lists no operators"
    return sorted(names)


def generate(rng, names, first=None):
    """A model of a few nodes, as bytes."""
    nodes, values = [], []
    # With a factor that is trained, so that there is something to differentiate.
    trained = rng.choice([None, *FLOAT_INPUTS[:3]])
    if trained:
        nodes.append(node("Mul", [trained, "single"], ["trained"], name="trained"))
    for i in range(rng.choice([1, 1, 2, 3, 4, 6])):
        operator = first if first and i == 0 else rng.choice(names)
        takes = operands(rng, operator)
        if trained in takes:
            takes[takes.index(trained)] = "trained"
        # Chains: what an earlier node made instead of an input.
        if values and takes and rng.random() < 0.5:
            takes[rng.randrange(len(takes)) if rng.random() < 0.3 else 0] = rng.choice(values)
        if takes and rng.random() < 0.05:
            takes[rng.randrange(len(takes))] = rng.choice(["", *FLOATS, *CONSTANTS, *SCALARS])
        if operator == "SequenceAt":
            nodes.append(node("SplitToSequence", ["row", "index"], [f"s{i}"], attributes=[integer("axis", 1)]))
            takes[0] = f"s{i}"
        outputs = [f"y{i}"]
        if operator in ("Split", "Dropout", "MaxPool") and rng.random() < 0.4:
            outputs += [f"z{i}"]
        values += outputs
        nodes.append(node(operator, takes, outputs, name=f"n{i}", attributes=attributes(rng, operator)))
    results = [untyped(name) for name in sorted({values[-1], rng.choice(values[-2:])})]
    body = graph(nodes, inputs=INPUTS, outputs=results, initializers=initializers())
    return model(body, opsets=[opset(rng.choice(OPSETS))])

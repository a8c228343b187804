"""Gives every operator that the importer knows operands that it does not take.

    operands.py

Each file must be imported or refused with a message; nothing may crash or hang.
"""

import concurrent.futures
import itertools
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import INT64, graph, integer, integers, message, model, node, opset, tensor, text, untyped, value  # noqa: E402

BOOL, DOUBLE, INT32, UINT8 = 9, 11, 6, 2


def decimal(name, number):
    return message((1, name), (2, number), (20, 1))


MOST_INPUTS = 5

INPUTS = [
    value("matrix", [2, 3]), value("image", [1, 2, 4, 4]), value("numbers", [2], INT64),
    value("bools", [2], BOOL), value("wide", [2, 3], DOUBLE), value("scalar", []),
    value("rows", [1, 2, 4]), value("cache", [1, 1, 3, 4]), value("lengths", [1], INT32), value("bytes", [1, 1, 2], UINT8),
]  # fmt: skip
INITIALIZERS = [
    tensor("none", [0], floats=[]), tensor("list", [2], ints=[-7, 9], dtype=INT64),
    tensor("weight", [2, 2, 1, 1], floats=[1.0, 2.0, 3.0, 4.0]), tensor("zero", [], ints=[0], dtype=INT64),
    tensor("nothing", [0], ints=[], dtype=INT64), tensor("total", [], raw=b"\2\0\0\0", dtype=INT32), tensor("pair", [2, 4], floats=[0.5] * 8),
]  # fmt: skip
OPERANDS = ["", "matrix", "image", "numbers", "bools", "wide", "scalar", "none", "list", "weight", "zero", "nothing"]
# Of other domains, by operator: what they must have, in right and in strange sizes; and operands that fit in some places.
FOREIGN = {
    "Attention": [[integer("num_heads", heads)] for heads in (1, 2, 0, -3, 2**62)]
    + [[integer("num_heads", 1), integers("qkv_hidden_sizes", *sizes)] for sizes in ((1, 1, 1), (2**62, 2**62, 3), (0,))],
    "FusedConv": [[text("activation", "Relu")], [text("activation", "Clip"), message((1, "activation_params"), (7, [0.5]), (20, 6))], [text("activation", "")], [text("activation", "Wave")]],
    "FusedGemm": [[text("activation", "Relu")], [text("activation", "LeakyRelu"), integer("transA", 1)], [text("activation", "Wave")]],
    "GroupQueryAttention": [
        [integer("num_heads", heads), integer("kv_num_heads", shared), integer("do_rotary", 1), integer("local_window_size", 2**62)]
        for heads, shared in ((1, 1), (2, 1), (1, 2), (0, 1), (2**62, 2**62), (-1, -1))
    ],
    "MatMulNBits": [
        [integer("N", n), integer("K", k), integer("block_size", block), integer("bits", bits)]
        for n, k, block, bits in ((1, 4, 4, 4), (2**40, 2**40, 2**40, 4), (0, 0, 0, 0), (2, 3, 16, 8), (2**62, 3, 16, 2), (-1, 4, 4, 4), (1, 4, 4, 3))
    ],
    "MultiHeadAttention": [[integer("num_heads", heads), integer("unidirectional", 1)] for heads in (1, 2, 0, -3, 2**62)],
}  # fmt: skip
# With what the optimizers need.
OTHERS = [[], [text("mode", "nesterov"), decimal("alpha", 0.5), decimal("beta", 0.5), decimal("norm_coefficient", 0.1)], [integer("softmax_precision", 99)]]
FOREIGN_OPERANDS = [*OPERANDS, "rows", "cache", "lengths", "bytes", "total", "pair"]
MOST_FOREIGN_INPUTS = 9
DOMAINS = ["com.microsoft", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"]
ATTRIBUTES = [
    [], [integer("axis", -9)], [], [text("axis", "zero")], [integers("axes", 5, 5)], [], [integer("to", 999)],
    [integers("kernel_shape")], [], [integers("pads", -1)], [integer("no_such_attribute", 1)],
]  # fmt: skip
OPSETS = [1, 6, 9, 17, 22, 28]
GROUPS = 8  # of operators, each in one file


def operators():
    table = subprocess.run(["pp-opt", "--show-onnx-operators"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^\| ((?:[a-z.]+\.)?[A-Z]\w+) \|", table, re.M)


def cases(operator):
    """Lists of operands and of attributes: every operand in every place, the
    others taking turns."""
    domain, _, name = operator.rpartition(".")
    attributes = FOREIGN.get(name, OTHERS) if domain else ATTRIBUTES
    every, most = (FOREIGN_OPERANDS, MOST_FOREIGN_INPUTS) if domain else (OPERANDS, MOST_INPUTS)
    turn = itertools.count()
    for count in range(most + 1):
        for place in range(max(count, 1)):
            for operand in every if count else [""]:
                operands = [every[(next(turn) * 5 + 1) % len(every)] for _ in range(count)]
                if count:
                    operands[place] = operand
                yield operands, attributes[next(turn) % len(attributes)]
    if domain:
        random.seed(0)
        # Operands of types that fit are rare among all of them.
        for _ in range(1000):
            fitting = random.choices(["", "rows", "cache", "lengths", "bytes", "total", "pair", "scalar"], k=random.randint(1, most))
            yield fitting, random.choice(attributes)


def survives(path, version, chosen):
    """Whether a file with a node for each (operator, operands, attributes) is
    imported or refused: the importer goes on after a node with errors."""
    nodes = [
        node(operator.rpartition(".")[2], operands, [f"y{i}"], name=f"n{i}", domain=operator.rpartition(".")[0], attributes=attributes)
        for i, (operator, operands, attributes) in enumerate(chosen)
    ]
    outputs = [untyped(f"y{i}") for i in range(len(nodes))]
    content = graph(nodes, inputs=INPUTS, outputs=outputs, initializers=INITIALIZERS)
    path.write_bytes(model(content, opsets=[opset(version), *(opset(1, domain) for domain in DOMAINS)]))
    done = subprocess.run(["pp-opt", str(path)], capture_output=True, timeout=300)
    explained = done.returncode == 0 or b": error: " in done.stderr
    return done.returncode in (0, 1, 3) and explained


def culprits(path, version, chosen):
    """The nodes that the importer does not survive; all together where no half
    of them is to blame."""
    if survives(path, version, chosen):
        return []
    if len(chosen) == 1:
        return chosen
    middle = len(chosen) // 2
    halves = [chosen[:middle], chosen[middle:]]
    return [found for half in halves for found in culprits(path, version, half)] or [chosen]


def check(folder, operators):
    """The number of nodes, and those that the importer does not survive."""
    every = [(operator, *case) for operator in operators for case in cases(operator)]
    faults = []
    for version in OPSETS:
        path = folder / f"{operators[0]}-{version}.onnx"
        faults += [f"{found} of opset {version}" for found in culprits(path, version, every)]
    return len(OPSETS) * len(every), faults


def main():
    names = operators()
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        groups = [names[i::GROUPS] for i in range(GROUPS)]
        results = list(pool.map(lambda group: check(pathlib.Path(folder), group), groups))
    faults = [fault for _, found in results for fault in found]
    print("\n".join(faults))
    print(f"{len(names)} operators, {sum(n for n, _ in results)} nodes, {len(faults)} faults")
    sys.exit(1 if faults or len(names) < 70 else 0)


if __name__ == "__main__":
    main()

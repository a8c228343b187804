#!/usr/bin/env python3
"""Writes mutated ONNX files.

    mutate.py FOLDER --count N [--seed S] [--smallest-only]

The same count and seed give the same files. They come from the models of
test/models, from generated ones (generate.py) and from nodes that are right (valid.py); what is changed are bytes,
fields of the wire format, or names, shapes, attributes and operands.
"""

import argparse
import copy
import pathlib
import random
import struct

import generate
import valid
import wire

MODELS = pathlib.Path(__file__).resolve().parents[1] / "models"
INTEGERS = [0, 1, 2, 3, 5, 7, 9, 11, 64, 127, 128, 255, 65536, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63,
            2**64 - 1, 2**64 - 2, 2**64 - 100, 2**64 - 2**31]  # fmt: skip
FLOATS = [0.0, -0.0, 1e-45, 3e38, float("inf"), float("-inf"), float("nan"), -1.0, 0.5]
TEXTS = [b"", b"\xff\xfe", b"\xed\xa0\x80", b"\x00", b"a\x00b", b"\x1b[31m", b"x" * 5000, b"\n\r\t\"\\{}", b"%s%n", b"@main",
         "\u00e9\u202e".encode(), b"y0", b"row", b"image", b"0", b"../x"]  # fmt: skip
ENTRIES = [
    (b"pkg.torch.onnx.fx_node", b"%x : [num_users=1] = call_function[target=torch.ops.aten.relu.default](args = (%y,))"),
    (b"pkg.torch.onnx.fx_node", b"%"), (b"pkg.torch.onnx.fx_node", b""),
    (b"pkg.onnxscript.optimizer.folded_from", b"['a', 'b']"), (b"pkg.onnxscript.optimizer.folded_from", b"["),
    (b"pkg.onnxscript.rewriter.rule_name", b"FuseBatchNormIntoConv"),
    (b"pkg.torch.export.graph_signature.InputSpec.kind", b"PARAMETER"),
    (b"pkg.torch.export.graph_signature.InputSpec.kind", b"BUFFER"),
    (b"pkg.torch.export.ExportedProgram.graph_signature", b"ExportGraphSignature(input_specs=["),
    (b"location", b"weights.bin"), (b"offset", b"18446744073709551615"), (b"length", b"-1"),
]  # fmt: skip
GRAPH, NODES, INITIALIZERS = 7, 1, 5


# Bytes.


def change_bytes(rng, data):
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4, 16])):
        at = rng.randrange(len(data) + 1)
        how = rng.randrange(6)
        if how == 0 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif how == 1 and at < len(data):
            data[at] = rng.choice([0, 1, 127, 128, 255])
        elif how == 2:
            del data[at : at + rng.choice([1, 2, 9, 100])]
        elif how == 3:
            data[at:at] = rng.randbytes(rng.choice([1, 2, 9]))
        elif how == 4:
            data[at:at] = data[at : at + rng.choice([1, 10, 200])]
        else:
            data[at : at + 10] = b"\xff" * 9 + b"\x01"
    return bytes(data)


def cut(rng, data):
    return data[: rng.randrange(len(data))]


def splice(rng, data, other):
    return data[: rng.randrange(len(data))] + other[rng.randrange(len(other)) :]


# Fields of the wire format, whatever they mean.


def random_scalar(rng, field):
    number, kind, value = field
    if kind == wire.VARINT:
        return rng.choice(INTEGERS)
    if kind == wire.FIXED32:
        return struct.pack("<f", rng.choice(FLOATS))
    if kind == wire.FIXED64:
        return struct.pack("<d", rng.choice(FLOATS))
    return rng.choice(TEXTS)


def message_of(rng, tree):
    """A message with fields; the few with few fields are as likely."""
    messages = [m for m in wire.walk(tree) if m[0]]
    kinds = sorted({kind for _, kind in messages})
    chosen = rng.choice(kinds)
    return rng.choice([m for m in messages if m[1] == chosen])


def change_field(rng, tree):
    fields, _ = message_of(rng, tree)
    at = rng.randrange(len(fields))
    field = fields[at]
    how = rng.randrange(9)
    if how == 0:
        del fields[at]
    elif how == 1:
        fields[at:at] = [field] * rng.choice([1, 1, 2, 100])
    elif how == 2:
        fields.insert(rng.randrange(len(fields)), fields.pop(at))
    elif how in (3, 4, 5) and not isinstance(field[2], list):
        fields[at] = [field[0], field[1], random_scalar(rng, field)]
    elif how == 6:
        fields[at] = [rng.choice([1, 2, 5, 6, 7, 20, 31, 2**29 - 1, 0]), field[1], field[2]]
    elif how == 7:
        # A length that lies, or another wire type.
        value = wire.encode(field[2]) if isinstance(field[2], list) else field[2]
        value = wire.varint(value) if isinstance(value, int) else value
        lie = rng.choice([wire.varint(2**31), wire.varint(2**63), wire.varint(len(value) + 1), b""])
        fields[at] = [field[0], rng.choice([wire.BYTES, 3, 4, 6, wire.FIXED32]), lie + value]
        if fields[at][1] == wire.BYTES:
            fields[at][1] = wire.FIXED32
    else:
        other, _ = message_of(rng, tree)
        fields[at] = [field[0], *copy.deepcopy(rng.choice(other)[1:])]


# What a model says.


def parts(fields, number):
    return [value for n, _, value in fields if n == number and isinstance(value, list)]


def texts(fields, *numbers):
    return [f for f in fields if f[0] in numbers and isinstance(f[2], bytes)]


def graphs(tree):
    return [m for m, kind in wire.walk(tree) if kind == "Graph"]


def change_operands(rng, tree):
    nodes = [n for g in graphs(tree) for n in parts(g, NODES)]
    if not nodes:
        return
    names = [f[2] for n in nodes for f in texts(n, 1, 2)] + [f[2] for g in graphs(tree) for i in parts(g, 5) for f in texts(i, 8)]
    chosen = rng.choice(nodes)
    operands = texts(chosen, 1, 2)
    how = rng.randrange(6)
    if not operands or how == 0:
        chosen.insert(0, [1, wire.BYTES, rng.choice(names or [b""])])
    elif how == 1:
        chosen.remove(rng.choice(operands))
    elif how == 2:
        rng.choice(operands)[2] = b""
    elif how == 3:
        one, two = rng.choice(operands), rng.choice(operands)
        one[2], two[2] = two[2], one[2]
    else:
        rng.choice(operands)[2] = rng.choice(names)


def change_operator(rng, tree):
    types = [f for g in graphs(tree) for n in parts(g, NODES) for f in texts(n, 4)]
    if types:
        names = generate.operators()
        rng.choice(types)[2] = rng.choice([*names, *names, "If", "Loop", "Nothing", ""]).encode()


def change_attribute(rng, tree):
    attributes = [m for m, kind in wire.walk(tree) if kind == "Attribute"]
    nodes = [n for g in graphs(tree) for n in parts(g, NODES)]
    if nodes and (not attributes or rng.random() < 0.3):
        made = generate.attributes(rng, rng.choice(list(generate.OPERANDS)))
        made += [generate.integer("axis", rng.choice(INTEGERS)), generate.integers("axes", 0, 0), generate.text("mode", "x")]
        rng.choice(nodes).append([5, wire.BYTES, wire.decode(rng.choice(made), "Attribute")])
        return
    if not attributes:
        return
    attribute = rng.choice(attributes)
    scalars = [f for f in attribute if f[0] in (2, 3, 7, 8, 20)]
    how = rng.randrange(5)
    if how == 0 and len(attributes) > 1:
        other = rng.choice(attributes)
        attribute[:] = [f for f in attribute if f[0] == 1] + [f for f in other if f[0] != 1]
    elif how == 1:
        attribute[:] = [f for f in attribute if f[0] != 20] + [[20, wire.VARINT, rng.randrange(16)]]
    elif how == 2:
        attribute.append([8, wire.VARINT, rng.choice(INTEGERS)])
    elif scalars:
        chosen = rng.choice(scalars)
        chosen[2] = random_scalar(rng, chosen)


def change_shape(rng, tree):
    dims = [f for m, kind in wire.walk(tree) if kind == "Dim" for f in m]
    tensors = [m for m, kind in wire.walk(tree) if kind == "Tensor"]
    how = rng.randrange(6)
    if how < 2 and dims:
        rng.choice(dims)[:] = rng.choice([[1, wire.VARINT, rng.choice(INTEGERS)], [2, wire.BYTES, rng.choice(TEXTS)]])
    elif how == 2:
        shapes = [m for m, kind in wire.walk(tree) if kind == "Shape"]
        if shapes:
            shape = rng.choice(shapes)
            shape[:] = rng.choice([[], shape[1:], shape * 2, shape[::-1]])
    elif how == 3:
        types = [f for m, kind in wire.walk(tree) if kind == "TensorType" for f in m if f[0] == 1]
        if types:
            rng.choice(types)[2] = rng.choice(range(24))
    elif tensors:
        tensor = rng.choice(tensors)
        own = [f for f in tensor if f[0] in (1, 2)]
        if own:
            chosen = rng.choice(own)
            chosen[1:] = [wire.VARINT, rng.choice(INTEGERS[:12]) if rng.random() < 0.6 else rng.choice(INTEGERS)]


def change_name(rng, tree):
    """Of a value everywhere, or in one place."""
    named = [f for m, kind in wire.walk(tree) if kind in ("Node", "Tensor", "Value", "Attribute", "Graph") for f in texts(m, 1, 2, 3, 8)]
    if not named:
        return
    chosen = rng.choice(named)[2]
    to = rng.choice([*TEXTS, rng.choice(named)[2]])
    for field in named if rng.random() < 0.5 else [rng.choice(named)]:
        if field[2] == chosen or rng.random() < 0.02:
            field[2] = to


def change_header(rng, tree):
    how = rng.randrange(3)
    opsets = parts(tree, 8)
    if how == 0 and opsets:
        rng.choice(opsets)[:] = [[2, wire.VARINT, rng.choice([*range(1, 26), *INTEGERS])]]
    elif how == 1:
        tree.append([1, wire.VARINT, rng.choice([3, 4, 7, 10, 13, 14, *INTEGERS])])
    else:
        tree.append([8, wire.BYTES, [[1, wire.BYTES, rng.choice(TEXTS)], [2, wire.VARINT, rng.choice(INTEGERS)]]])


def change_metadata(rng, tree):
    """What PyTorch's exporter and planners write."""
    places = {"Graph": 16, "Node": 9, "Tensor": 16, "Value": 4, "Model": 14}
    messages = [m for m in wire.walk(tree) if m[1] in places]
    fields, kind = rng.choice(messages)
    if kind == "Node" and rng.random() < 0.3:
        fields.append([10, wire.BYTES, [[1, wire.BYTES, b"c"], [3, wire.VARINT, rng.choice(INTEGERS)]]])
        return
    key, value = rng.choice(ENTRIES)
    if kind == "Tensor" and rng.random() < 0.5:
        fields += [[13, wire.BYTES, [[1, wire.BYTES, key], [2, wire.BYTES, value]]], [14, wire.VARINT, 1]]
        return
    fields.append([places[kind], wire.BYTES, [[1, wire.BYTES, key], [2, wire.BYTES, value]]])


def move_nodes(rng, tree):
    graph = rng.choice(graphs(tree) or [tree])
    nodes = [f for f in graph if f[0] == NODES]
    if not nodes:
        return
    chosen = rng.choice(nodes)
    how = rng.randrange(4)
    if how == 0:
        graph.remove(chosen)
    elif how == 1:
        graph.append(chosen)
    elif how == 2:
        other = rng.choice(nodes)
        chosen[2], other[2] = other[2], chosen[2]
    else:
        results = texts(chosen[2], 2) if isinstance(chosen[2], list) else []
        if results:
            graph.append([12, wire.BYTES, [[1, wire.BYTES, rng.choice(results)[2]]]])


STRUCTURE = [change_operands, change_operands, change_operator, change_attribute, change_attribute, change_shape, change_shape,
             change_name, change_header, change_metadata, move_nodes]  # fmt: skip


class Sources:
    """The models to mutate: the smaller, the more often."""

    def __init__(self, smallest_only):
        paths = [p for p in sorted(MODELS.glob("*/*.onnx")) if p.parent.name != "bad"]
        limits = [20_000] if smallest_only else [20_000, 150_000, 10_000_000]
        self.groups = [[p.read_bytes() for p in paths if p.stat().st_size < limit] for limit in limits]
        self.groups.append([p.read_bytes() for p in sorted((MODELS / "bad").glob("*.onnx")) if p.stat().st_size])
        self.names = generate.operators()
        self.cases = valid.find_cases()

    def pick(self, rng):
        kind = rng.random()
        if kind < 0.4:
            return generate.generate(rng, self.names)
        if kind < 0.8:
            return valid.to_model(rng, *rng.choice(self.cases)[1:])
        weights = [4, 2, 1][: len(self.groups) - 1] + [1]
        return rng.choice(rng.choices(self.groups, weights)[0])


def mutate(rng, sources):
    data = sources.pick(rng)
    how = rng.random()
    if how < 0.08:
        return change_bytes(rng, data)
    if how < 0.11:
        return cut(rng, data)
    if how < 0.14:
        return splice(rng, data, sources.pick(rng))
    try:
        tree = wire.decode(data)
    except (IndexError, ValueError):
        return change_bytes(rng, data)
    if not tree:
        return change_bytes(rng, data)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        (change_field if rng.random() < 0.3 else rng.choice(STRUCTURE))(rng, tree)
        # What was put somewhere else must not be changed there as well.
        try:
            tree = wire.decode(wire.encode(tree))
        except (IndexError, ValueError):
            return wire.encode(tree)
        if not tree:
            break
    return wire.encode(tree)


def write(folder, count, seed, smallest_only=False):
    """The paths of the files, with what external data refers to beside them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "weights.bin").write_bytes(bytes(64))
    sources = Sources(smallest_only)
    paths = []
    for i in range(count):
        path = folder / f"{seed}-{i:05}.onnx"
        path.write_bytes(mutate(random.Random(f"{seed} {i}"), sources))
        paths.append(path)
    return paths


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smallest-only", action="store_true", help="of test/models, only files below 20 kB")
    arguments = parser.parse_args()
    write(arguments.folder, arguments.count, arguments.seed, arguments.smallest_only)


if __name__ == "__main__":
    main()

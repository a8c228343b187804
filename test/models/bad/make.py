#!/usr/bin/env python3
"""Makes ONNX files that the reader must reject without harm.

    python make.py [FOLDER]

Writes the files of this folder, or, with FOLDER, all of them including those
that git cannot hold (links and a FIFO). Standard library only: the protobuf
wire format is simple enough to write by hand, and no library would write most
of these. `expected.json` says what the reader answers; entries with
"stage": "import" are read without error and are for the importer to reject.

The numbers (B01, ...) are those of the project's bad-input checklist.
"""

import json
import os
import pathlib
import random
import struct
import sys

FLOAT, INT64, STRING = 1, 7, 8
HERE = pathlib.Path(__file__).resolve().parent


# The protobuf wire format.


def varint(value):
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytearray([value]))


def message(*fields):
    """Encodes (number, value) pairs; a list value is a repeated field."""
    out = b""
    for number, value in fields:
        for v in value if isinstance(value, list) else [value]:
            if v is None:
                continue
            if isinstance(v, int):
                out += varint(number << 3) + varint(v)
            elif isinstance(v, float):
                out += varint(number << 3 | 5) + struct.pack("<f", v)
            else:
                v = v.encode() if isinstance(v, str) else v
                out += varint(number << 3 | 2) + varint(len(v)) + v
    return out


# ONNX messages.


def tensor(name, dims, raw=None, floats=None, dtype=FLOAT, external=None, strings=None, ints=None):
    entries = [message((1, k), (2, v)) for k, v in external or []]
    return message(
        (1, dims), (2, dtype), (4, floats or []), (6, strings or []), (7, ints or []), (8, name),
        (9, raw), (13, entries), (14, 1 if external is not None else None),
    )  # fmt: skip


def integers(name, *values):
    return message((1, name), (8, list(values)), (20, 7))


def integer(name, value):
    return message((1, name), (3, value), (20, 2))


def text(name, value):
    return message((1, name), (4, value), (20, 3))


def untyped(name):
    """A graph output of which the file says nothing."""
    return message((1, name))


def node(op, inputs, outputs, name=None, domain=None, attributes=()):
    name = f"node_{outputs[0]}" if name is None else name
    return message(
        (1, inputs), (2, outputs), (3, name), (4, op), (5, list(attributes)), (7, domain)
    )


def value(name, dims=(1, 4), dtype=FLOAT):
    # A size, or a name.
    shape = message((1, [message((2 if isinstance(d, str) else 1, d)) for d in dims]))
    return message((1, name), (2, message((1, message((1, dtype), (2, shape))))))


def graph(nodes, name="graph", inputs=None, outputs=None, initializers=()):
    inputs = [value("x")] if inputs is None else inputs
    outputs = [value("y")] if outputs is None else outputs
    return message(
        (1, nodes), (2, name), (5, list(initializers)), (11, inputs), (12, outputs)
    )


def opset(version=17, domain=""):
    return message((1, domain), (2, version))


def model(body, ir=8, opsets=None, functions=()):
    opsets = [opset()] if opsets is None else opsets
    return message((1, ir), (7, body), (8, opsets), (25, list(functions)))


def function(name, nodes, inputs=("a",), outputs=("b",)):
    opsets = [opset(), opset(1, "local")]
    return message(
        (1, name), (4, list(inputs)), (5, list(outputs)), (7, nodes), (9, opsets), (10, "local")
    )  # fmt: skip


def local_model(functions, op="f"):
    return model(
        graph([node(op, ["x"], ["y"], domain="local")]),
        opsets=[opset(), opset(1, "local")],
        functions=functions,
    )


def relu_model(**options):
    return model(graph([node("Relu", ["x"], ["y"])]), **options)


def weight_model(weight):
    return model(graph([node("Add", ["x", "w"], ["y"])], initializers=[weight]))


def external_model(*entries):
    return weight_model(tensor("w", [4], external=list(entries)))


RAW16 = struct.pack("<4f", 1, 2, 3, 4)

# name -> (file contents, fragments of the first error, or of a warning).
READ = {}
WARN = {}
IMPORT = {}


def plain_files():
    rng = random.Random(0)
    READ["B01-empty"] = b"", ["empty file"]
    # Starts like no ONNX file does, so that no run of luck parses it.
    READ["B02-random"] = b"\xff" + rng.randbytes(4095), ["not an ONNX file"]
    weights = weight_model(tensor("w", [4], raw=RAW16))
    READ["B03-truncated"] = weights[: len(weights) // 2], ["truncated"]
    READ["B04-lfs-pointer"] = (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:"
        + b"0" * 64 + b"\nsize 12345\n",
        ["Git LFS pointer", "git lfs pull"],
    )  # fmt: skip
    READ["B05-no-graph"] = message((1, 8), (8, opset())), ["no graph"]
    READ["B05-empty-graph-name"] = (
        model(graph([node("Relu", ["x"], ["y"])], name="")),
        ["graph has no name"],
    )
    READ["B06-ir-version"] = relu_model(ir=999), ["IR version 999", "3 to 13"]
    READ["B06-no-ir-version"] = relu_model(ir=None), ["no IR version"]
    READ["B07-no-opset"] = relu_model(opsets=[]), ["no opset"]
    READ["B07-negative-opset"] = relu_model(opsets=[opset(-1)]), ["opset -1"]
    READ["B07-duplicate-opset"] = (
        relu_model(opsets=[opset(17), opset(16)]),
        ["imported twice"],
    )
    READ["B08-opset"] = relu_model(opsets=[opset(1000000)]), ["opset 1000000", "1 to"]
    IMPORT["B09-unknown-op"] = model(graph([node("Rleu", ["x"], ["y"])])), ["Rleu"]
    IMPORT["B09-unknown-ops"] = (
        model(
            graph(
                [
                    node("Rleu", ["x"], ["a"], "first"), node("StringSplit", ["a"], ["b"], "second"),
                    node("Rleu", ["b"], ["c"], "third"), node("Gelu2", ["c"], ["y"], "fourth"),
                ]
            )
        ),
        ["ai.onnx.Rleu", "2 nodes use it", "ai.onnx.StringSplit", "1 node uses it", "ai.onnx.Gelu2"],
    )  # fmt: skip
    IMPORT["B10-unknown-domain"] = (
        model(
            graph([node("Relu", ["x"], ["y"], domain="com.example")]),
            opsets=[opset(), opset(1, "com.example")],
        ),
        ["com.example"],
    )
    READ["B10-domain-not-imported"] = (
        model(graph([node("Relu", ["x"], ["y"], domain="com.example")])),
        ["com.example", "no opset"],
    )
    READ["B11-dangling"] = (
        model(graph([node("Relu", ["z"], ["y"], name="relu")])),
        ["'z'", "nothing defines"],
    )
    READ["B12-cycle"] = (
        model(graph([node("Add", ["x", "y"], ["z"]), node("Relu", ["z"], ["y"])])),
        ["cycle", "node_z", "node_y"],
    )
    READ["B12-self-loop"] = (
        model(graph([node("Add", ["x", "y"], ["y"])])),
        ["cycle", "node_y"],
    )
    WARN["B13-unsorted"] = (
        model(graph([node("Relu", ["z"], ["y"]), node("Relu", ["x"], ["z"])])),
        ["not in topological order"],
    )
    READ["B14-duplicate-output"] = (
        model(graph([node("Relu", ["x"], ["y"], "a"), node("Tanh", ["x"], ["y"], "b")])),
        ["'y'", "defined twice"],
    )
    READ["B15-duplicate-input"] = (
        model(graph([node("Relu", ["x"], ["y"])], inputs=[value("x"), value("x")])),
        ["'x'", "defined twice"],
    )
    w = tensor("w", [4], raw=RAW16)
    READ["B15-duplicate-initializer"] = (
        model(graph([node("Add", ["x", "w"], ["y"])], initializers=[w, w])),
        ["'w'", "defined twice"],
    )
    READ["B16-undefined-output"] = (
        model(graph([node("Relu", ["x"], ["y"])], outputs=[value("y"), value("q")])),
        ["graph output 'q'", "nothing defines"],
    )
    tensors = {
        "B17-negative-dim": (tensor("w", [-4], raw=RAW16), ["negative"]),
        "B18-overflow": (tensor("w", [2**32, 2**32, 2], raw=RAW16), ["overflow"]),
        "B19-short-data": (tensor("w", [8], raw=RAW16), ["16 bytes", "32"]),
        "B20-long-data": (tensor("w", [2], raw=RAW16), ["16 bytes", "8"]),
        "B21-huge-shape": (tensor("w", [2**40], raw=RAW16[:4]), ["4 bytes", "4398046511104"]),
        "B22-float-data": (tensor("w", [4], floats=[1.0, 2.0]), ["2 values", "4"]),
        "B23-two-fields": (tensor("w", [4], raw=RAW16, floats=[1.0] * 4), ["raw_data", "float_data"]),
        "B24-data-type": (tensor("w", [4], raw=RAW16, dtype=9999), ["data type 9999"]),
        "B24-undefined-type": (tensor("w", [4], raw=RAW16, dtype=0), ["data type 0"]),
        "B25-rank": (tensor("w", [1] * 10000, raw=RAW16[:4]), ["rank 10000", "64"]),
        "B26-string-raw": (tensor("w", [4], raw=RAW16, dtype=STRING), ["STRING"]),
    }  # fmt: skip
    for name, (weight, fragments) in tensors.items():
        READ[name] = weight_model(weight), fragments
    nested = graph([node("Relu", ["x"], ["y"])])
    for _ in range(40):
        branch = message((1, "then_branch"), (6, nested), (20, 5))
        nested = graph([node("If", ["x"], ["y"], attributes=[branch])])
    READ["B44-nesting"] = model(nested), ["nesting"]
    READ["B45-recursion"] = (
        local_model([function("f", [node("f", ["a"], ["b"], domain="local")])]),
        ["recursive", "'local.f' -> 'local.f'"],
    )
    READ["B46-mutual-recursion"] = (
        local_model(
            [
                function("f", [node("g", ["a"], ["b"], domain="local")]),
                function("g", [node("f", ["a"], ["b"], domain="local")]),
            ]
        ),
        ["recursive", "'local.f' -> 'local.g' -> 'local.f'"],
    )
    same = function("f", [node("Relu", ["a"], ["b"])])
    READ["B47-duplicate-function"] = local_model([same, same]), ["local.f", "defined twice"]
    doubling = [function("f0", [node("Relu", ["a"], ["b"])])]
    for i in range(1, 31):
        calls = [
            node(f"f{i - 1}", ["a"], ["c"], domain="local"),
            node(f"f{i - 1}", ["c"], ["b"], domain="local"),
        ]
        doubling.append(function(f"f{i}", calls))
    READ["B48-expansion"] = local_model(doubling, "f30"), ["expand", "nodes"]
    pool = [integers("kernel_shape", 2, 2), integers("strides", 0, 0)]
    image = {"inputs": [value("x", (1, 1, 4, 4))]}
    IMPORT["B52-stride-0"] = (
        model(graph([node("MaxPool", ["x"], ["y"], attributes=pool)], **image)),
        ["stride"],
    )
    shape = tensor("s", [2], raw=struct.pack("<2q", -1, -1), dtype=INT64)
    IMPORT["B55-reshape"] = (
        model(graph([node("Reshape", ["x", "s"], ["y"])], initializers=[shape])),
        ["-1"],
    )
    IMPORT["B58-concat-axis"] = (
        model(graph([node("Concat", ["x", "x"], ["y"], attributes=[integer("axis", 99)])])),
        ["axis"],
    )
    IMPORT["B58-transpose"] = (
        model(graph([node("Transpose", ["x"], ["y"], attributes=[integers("perm", 0, 0)])])),
        ["perm"],
    )
    IMPORT["B59-gemm"] = (
        model(
            graph(
                [node("Gemm", ["x", "w"], ["y"])],
                initializers=[tensor("w", [2, 2], raw=RAW16)],
            )
        ),
        ["4", "2"],
    )


def external_files():
    """Files whose initializer lies outside; weights.bin has 64 bytes."""
    location = ("location", "weights.bin")
    outside = ["'w'", "outside"]
    READ["B28-parent"] = external_model(("location", "../secret.bin")), outside
    READ["B29-nested-parent"] = external_model(("location", "a/../../secret.bin")), outside
    READ["B30-absolute"] = external_model(("location", "/etc/hostname")), ["'w'", "absolute"]
    READ["B36-missing"] = external_model(("location", "none.bin")), ["'w'", "none.bin"]
    READ["B36-empty-location"] = external_model(("location", "")), ["'w'", "location"]
    READ["B36-no-location"] = external_model(("offset", "0")), ["'w'", "location"]
    for name, offset in (("negative", "-4"), ("text", "abc"), ("huge", "9" * 30)):
        READ[f"B37-offset-{name}"] = (
            external_model(location, ("offset", offset)),
            ["'w'", "offset", offset],
        )
    READ["B38-past-end"] = external_model(location, ("offset", "4096")), ["'w'", "4096", "64"]
    READ["B39-length"] = (
        external_model(location, ("length", str(2**50))),
        ["'w'", str(2**50)],
    )
    READ["B40-short"] = external_model(location, ("length", "8")), ["'w'", "8 bytes", "16"]
    READ["B40-odd"] = external_model(location, ("length", "15")), ["'w'", "15 bytes", "16"]
    READ["B41-duplicate-key"] = (
        external_model(location, location),
        ["'w'", "location", "twice"],
    )
    WARN["B41-unknown-key"] = (
        external_model(location, ("length", "16"), ("__class__", "x")),
        ["'w'", "__class__"],
    )
    links = {
        "B31-symlink": ("symlink.bin", ["'w'", "symbolic link"]),
        "B32-symlinked-parent": ("linked/weights.bin", ["'w'", "symbolic link"]),
        "B33-hardlink": ("hardlink.bin", ["'w'", "hard link"]),
        "B34-fifo": ("fifo", ["'w'", "not a regular file"]),
        "B35-directory": ("folder", ["'w'", "not a regular file"]),
        "B35-device": ("folder/weights.bin/x", ["'w'", "folder/weights.bin/x"]),
    }
    for name, (target, fragments) in links.items():
        READ[name] = external_model(("location", target), ("length", "16")), fragments


def make_links(folder):
    """What git does not hold."""
    (folder / "folder").mkdir(exist_ok=True)
    (folder / "folder" / "weights.bin").write_bytes(bytes(64))
    (folder / "linked-weights.bin").write_bytes(bytes(64))
    makers = {
        "symlink.bin": lambda p: os.symlink("weights.bin", p),
        "linked": lambda p: os.symlink("folder", p),
        "hardlink.bin": lambda p: os.link(folder / "linked-weights.bin", p),
        "fifo": os.mkfifo,
    }
    for name, make in makers.items():
        path = folder / name
        if path.is_symlink() or path.exists():
            path.unlink()
        make(path)


def main():
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    folder.mkdir(parents=True, exist_ok=True)
    plain_files()
    external_files()
    (folder / "weights.bin").write_bytes(bytes(64))
    expected = {}
    for table, severity, stage in (
        (READ, "error", "read"),
        (WARN, "warning", "read"),
        (IMPORT, "error", "import"),
    ):
        for name, (contents, fragments) in table.items():
            (folder / f"{name}.onnx").write_bytes(contents)
            expected[f"{name}.onnx"] = {
                "severity": severity, "stage": stage, "fragments": fragments
            }  # fmt: skip
    text = json.dumps(dict(sorted(expected.items())), indent=1) + "\n"
    (folder / "expected.json").write_text(text)
    if folder.resolve() != HERE:
        make_links(folder)


if __name__ == "__main__":
    main()

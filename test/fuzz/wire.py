"""ONNX files as trees of protobuf fields, which need not make sense.

A message is a list of [number, wire type, value]; the value of a field that
SCHEMA names is a message again, all others are integers or bytes.
"""

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

SCHEMA = {
    "Model": {7: "Graph", 8: "Opset", 14: "Entry", 20: "Training", 25: "Function", 26: "Configuration"},
    "Graph": {1: "Node", 5: "Tensor", 11: "Value", 12: "Value", 13: "Value", 14: "Annotation", 15: "Sparse", 16: "Entry"},
    "Node": {5: "Attribute", 9: "Entry", 10: "Placement"},
    "Attribute": {5: "Tensor", 6: "Graph", 10: "Tensor", 11: "Graph", 14: "Type", 15: "Type", 22: "Sparse"},
    "Tensor": {13: "Entry", 16: "Entry"},
    "Sparse": {1: "Tensor", 2: "Tensor"},
    "Value": {2: "Type", 4: "Entry"},
    "Type": {1: "TensorType", 4: "Wrapped", 8: "TensorType", 9: "Wrapped"},
    "TensorType": {2: "Shape"},
    "Wrapped": {1: "Type"},
    "Shape": {1: "Dim"},
    "Function": {7: "Node", 9: "Opset", 11: "Attribute", 12: "Value", 14: "Entry"},
    "Placement": {2: "Sharding"},
    "Training": {1: "Graph", 2: "Graph", 3: "Entry", 4: "Entry"},
    "Annotation": {2: "Entry"},
    "Opset": {}, "Entry": {}, "Configuration": {}, "Dim": {}, "Sharding": {},
}  # fmt: skip


def varint(value):
    value &= 2**64 - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytearray([value]))


def read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def decode(data, kind="Model"):
    """Of a file that is right: IndexError or ValueError otherwise."""
    fields, at = [], 0
    while at < len(data):
        key, at = read_varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, at = read_varint(data, at)
        elif wire == BYTES:
            length, at = read_varint(data, at)
            value = bytes(data[at : at + length])
            if len(value) != length:
                raise ValueError("truncated")
            at += length
            if number in SCHEMA[kind]:
                value = decode(value, SCHEMA[kind][number])
        elif wire in (FIXED32, FIXED64):
            length = 4 if wire == FIXED32 else 8
            value = bytes(data[at : at + length])
            at += length
        else:
            raise ValueError(f"wire type {wire}")
        fields.append([number, wire, value])
    return fields


def encode(fields):
    out = bytearray()
    for number, wire, value in fields:
        if isinstance(value, list):
            value = encode(value)
        out += varint(number << 3 | wire)
        if isinstance(value, int):
            out += varint(value)
        elif wire == BYTES:
            out += varint(len(value)) + value
        else:
            out += value
    return bytes(out)


def walk(fields, kind="Model"):
    """All messages below this one, itself first, with their kinds."""
    yield fields, kind
    for number, _, value in fields:
        if isinstance(value, list):
            yield from walk(value, SCHEMA[kind].get(number, "Entry"))

"""Mutations of JSON, of IR and of safetensors."""

import json
import struct

from mutate import change_bytes, cut

NUMBERS = [0, 1, -1, 2, 3, 7, 0.5, -0.5, 1e-300, 1e300, 2**31, -(2**31), 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30]
VALUES = [None, True, False, "", "x", "1", "gpipe", "\u0000", "y" * 3000, [], {}, [[]], [0], {"a": 1}, [None] * 50]
WORDS = ["0", "1", "-1", "2", "64", "4294967296", "9223372036854775807", "18446744073709551615", "1e400", "f32", "f64", "i1", "i64", "index",
         "tensor<2xf32>", "tensor<*xf32>", "tensor<0x4xf32>", "memref<4xf32>", "?", "%0", "%arg0", "@main", "@none", "#map", "()", "{", "}", "[",
         "]", "<", "loc(unknown)", "dense<0>", "true", "\"x\"", "unit", "!pp.none"]  # fmt: skip


# JSON.


def places(document):
    """All (container, key) pairs of it."""
    found, rest = [], [document]
    while rest:
        container = rest.pop()
        keys = container if isinstance(container, dict) else range(len(container))
        for key in keys:
            found.append((container, key))
            if isinstance(container[key], (dict, list)):
                rest.append(container[key])
    return found


def change_place(rng, document):
    found = places(document)
    if not found:
        return
    container, key = rng.choice(found)
    value = container[key]
    how = rng.randrange(8)
    if how == 0:
        del container[key]
    elif how == 1 and isinstance(container, list):
        container.extend([value] * rng.choice([1, 2, 100]))
    elif how == 2 and isinstance(container, list):
        container.insert(rng.randrange(len(container)), container.pop(key))
    elif how == 3:
        other, name = rng.choice(found)
        # A copy: what contains itself has no text.
        container[key] = json.loads(json.dumps(other[name])) if name_is_there(other, name) else None
    elif how == 4 and isinstance(container, dict):
        container[rng.choice(["x", "", "version", key + " "])] = container.pop(key)
    elif how == 5:
        container[key] = rng.choice(VALUES)
    elif isinstance(value, (int, float)) and rng.random() < 0.5:
        container[key] = value + rng.choice([-2, -1, 1, 2]) if rng.random() < 0.7 else -value
    else:
        container[key] = rng.choice(NUMBERS)


def name_is_there(container, name):
    return name in container if isinstance(container, dict) else name < len(container)


def mutate_json(rng, data):
    how = rng.random()
    if how < 0.15:
        return change_bytes(rng, data)
    if how < 0.18:
        return cut(rng, data)
    if how < 0.2:
        return data.replace(b":", b": " + b"[" * rng.choice([100, 100_000]), 1)
    document = json.loads(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        change_place(rng, document)
    return json.dumps(document, indent=1).encode()


# IR.


def words(text):
    """The tokens as (start, end): names, numbers, and single other characters."""
    found, at = [], 0
    while at < len(text):
        end = at + 1
        if text[at].isalnum() or text[at] in "_%@#!":
            while end < len(text) and (text[end].isalnum() or text[end] in "_.$"):
                end += 1
        if not text[at].isspace():
            found.append((at, end))
        at = end
    return found


def mutate_ir(rng, data):
    if rng.random() < 0.1:
        return change_bytes(rng, data)
    text = data.decode()
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        lines = text.split("\n")
        at = rng.randrange(len(lines))
        how = rng.randrange(10)
        if how == 0:
            del lines[at]
        elif how == 1:
            lines.insert(at, lines[at])
        elif how == 2:
            lines.insert(rng.randrange(len(lines)), lines.pop(at))
        elif how == 3:
            lines = lines[: at + 1]
        else:
            found = words(lines[at])
            if found:
                start, end = rng.choice(found)
                new = rng.choice(WORDS)
                if how < 7:
                    # Something of the same kind: another number or name of the file.
                    first = lines[at][start]
                    line = rng.choice(lines)
                    like = [line[s:e] for s, e in words(line) if line[s] == first or line[s].isdigit() and first.isdigit()]
                    new = rng.choice(like or [new])
                lines[at] = lines[at][:start] + new + lines[at][end:]
        text = "\n".join(lines) or " "
    return text.encode()


# Safetensors: eight bytes of length, a JSON header, tensors.


def mutate_safetensors(rng, data):
    length = struct.unpack("<Q", data[:8])[0]
    header, rest = data[8 : 8 + length], data[8 + length :]
    how = rng.random()
    if how < 0.15:
        return change_bytes(rng, data)
    if how < 0.2:
        return cut(rng, data)
    if how < 0.3:
        return struct.pack("<Q", rng.choice([0, 1, length - 1, length + 1, 2**31, 2**63, 2**64 - 1])) + header + rest
    document = json.loads(header)
    # Most mutations would end at the hashes, which older files do not have.
    if "__metadata__" in document and rng.random() < 0.7:
        kept = {name: text for name, text in document["__metadata__"].items() if not name.startswith("hash")}
        document["__metadata__"] = kept
    if how < 0.6:
        entries = document.get("__metadata__", {})
        for name in rng.sample(sorted(entries), min(len(entries), rng.choice([1, 1, 2]))):
            values = ["", "-1", "0", "1", "18446744073709551615", "99999999", "nan", "inf", "-0x1p+3", "x", "0x1p+400", "\u00e9", "1 "]
            if rng.random() < 0.2:
                del entries[name]
            else:
                entries[name] = rng.choice(values)
    else:
        change_place(rng, document)
    header = json.dumps(document).encode()
    if how > 0.9:
        rest = rest[: rng.randrange(len(rest) + 1)]
    return struct.pack("<Q", len(header)) + header + rest

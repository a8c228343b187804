"""Weights from a seed, so that nobody has to carry them.

An index says where each tensor lies in the file that the ONNX model refers to:

    {"bytes": 1024, "tensors": {"fc.weight": {"offset": 0, "shape": [10, 8], "dtype": "float32"}}}
"""

import json
import pathlib
import zlib

import numpy as np


def values(name, shape, seed=0):
    """The first values of a parameter or buffer, which its name and shape decide."""
    random = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if name.endswith(("running_mean", "num_batches_tracked")):
        return np.zeros(shape, np.float32)
    if name.endswith("running_var"):
        return np.ones(shape, np.float32)
    normal = random.standard_normal(shape, np.float32)
    if len(shape) < 2:
        # Scales of normalisations, or biases.
        return (1 + np.float32(0.1) * normal if name.endswith("weight") else np.float32(0.02) * normal)
    if name.startswith(("tokens", "positions")):
        return np.float32(0.02) * normal
    return np.float32((1.0 / np.prod(shape[1:])) ** 0.5) * normal


def read_index(path):
    return json.loads(pathlib.Path(path).read_text())


def write_tensors(index, path, array_of):
    """A file of the right size with the tensors for which `array_of` has one."""
    with open(path, "wb") as file:
        file.truncate(index["bytes"])
        for name, tensor in index["tensors"].items():
            array = array_of(name, tensor["shape"])
            if array is None:
                continue
            file.seek(tensor["offset"])
            file.write(np.ascontiguousarray(array, tensor["dtype"]).tobytes())


def write_file(index, path, constants):
    """The whole file; `constants` has what no seed makes, by name."""
    write_tensors(index, path, lambda name, shape: constants[name] if name in constants else values(name, shape))


def write_hole(index, path, constants):
    """What the compiler reads of the file: no weights, only masks."""
    write_tensors(index, path, lambda name, shape: constants.get(name))


def load(index, path, module):
    """Copies the file's tensors into a module's parameters and buffers of the
    same names."""
    import torch

    data = np.memmap(path, np.uint8, "r")
    names = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    missing = {name for name in module.state_dict() if not name.endswith("num_batches_tracked")}
    missing -= {name for name in missing if name not in names}  # a tied one
    with torch.no_grad():
        for name, tensor in index["tensors"].items():
            if name not in names:
                continue
            size = int(np.prod(tensor["shape"])) * np.dtype(tensor["dtype"]).itemsize
            raw = data[tensor["offset"] : tensor["offset"] + size].view(tensor["dtype"]).reshape(tensor["shape"])
            names[name].copy_(torch.from_numpy(np.array(raw)))
            missing.discard(name)
    if missing:
        raise ValueError(f"{path} has no {sorted(missing)[:3]}")

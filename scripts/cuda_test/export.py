"""Exports the models of models.py to ONNX without weights.

    python export.py OUT_DIR full|tiny

OUT_DIR/NAME/NAME.onnx refers to NAME.bin, which is a hole here; NAME.json is
the index of weights.py.
"""

import json
import pathlib
import sys
import warnings

import onnx
import torch

import models
import pytorch
import weights

# Smaller ones stay in the ONNX file: shapes and scalars, which the compiler reads.
THRESHOLD = 1024


def make_external(model, named, data):
    """Moves what the module knows by name, and what is large, out of the file;
    returns the index."""
    index, offset = {}, 0
    for tensor in model.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if tensor.name not in named and array.nbytes < THRESHOLD:
            continue
        index[tensor.name] = {"offset": offset, "shape": list(array.shape), "dtype": str(array.dtype)}
        tensor.ClearField("raw_data")
        tensor.ClearField("float_data")
        tensor.ClearField("int64_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        del tensor.external_data[:]
        for key, value in (("location", data), ("offset", offset), ("length", array.nbytes)):
            tensor.external_data.add(key=key, value=str(value))
        offset += (array.nbytes + 63) // 64 * 64
    return {"bytes": offset, "tensors": index}


def share_constants(model, module):
    """The exporter writes a buffer of the module into a node each time that it is
    used: makes it one initializer, of the buffer's name."""
    names = {buffer.numpy().tobytes(): name for name, buffer in module.named_buffers() if buffer.nbytes >= THRESHOLD}
    renamed = {}
    for node in [node for node in model.graph.node if node.op_type == "Constant" and node.attribute[0].HasField("t")]:
        name = names.get(onnx.numpy_helper.to_array(node.attribute[0].t).tobytes())
        if not name:
            continue
        if name not in renamed.values():
            tensor = model.graph.initializer.add()
            tensor.CopyFrom(node.attribute[0].t)
            tensor.name = name
        renamed[node.output[0]] = name
        model.graph.node.remove(node)
    for node in model.graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]


def export(folder, name, definition):
    torch.manual_seed(0)
    module = definition.make()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.onnx"
    arrays = definition.arrays(2)
    torch.onnx.export(
        module.train(), (torch.from_numpy(arrays["input"]),), str(path), dynamo=False, opset_version=17,
        training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, input_names=["input"],
        output_names=["output"])
    model = onnx.load(path)
    share_constants(model, module)
    named = {n for n, _ in [*module.named_parameters(), *module.named_buffers()]}
    index = make_external(model, named, f"{name}.bin")
    onnx.save(model, path)
    (folder / f"{name}.json").write_text(json.dumps(index))
    weights.write_hole(index, folder / f"{name}.bin", pytorch.constants_of(module))
    unknown = sorted(set(index["tensors"]) - named)
    if unknown:
        raise SystemExit(f"error: {name}: the exporter made a constant of its own: {unknown[:3]}")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    for name, definition in models.SIZES[sys.argv[2]].items():
        export(pathlib.Path(sys.argv[1]) / name, name, definition)

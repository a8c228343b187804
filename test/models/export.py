#!/usr/bin/env python3
"""Regenerates every file in this folder.

    python export.py [--only NAME]...

Run with the packages of scripts/requirements-models.txt. For each model it
writes the ONNX files of both PyTorch exporters, `reference.npz` with what
PyTorch computes, and `summary.json`, against which the tests of the ONNX
reader compare. test/models/README.md describes the files.
"""

import argparse
import contextlib
import copy
import io
import json
import pathlib
import sys
import warnings
import zipfile

import numpy as np
import onnx
import torch

import definitions
from exporters import EXPORTERS

HERE = pathlib.Path(__file__).resolve().parent
STEPS = 5
# After three steps, an activation of resnet18 is within rounding of the kink of
# its ReLU: whoever rounds to the other side is 1e-2 off after two more.
FEWER_STEPS = {"resnet18": 3}


def strip_traces(path):
    """Drops the metadata of nodes and values: stack traces hold local paths."""
    model = onnx.load(path, load_external_data=False)
    for item in [model, model.graph, *model.functions]:
        del item.metadata_props[:]
        item.doc_string = ""
    for graph in [model.graph, *model.functions]:
        for item in [*graph.node, *graph.value_info]:
            del item.metadata_props[:]
            item.doc_string = ""
    for item in [*model.graph.initializer, *model.graph.input, *model.graph.output]:
        del item.metadata_props[:]
        item.doc_string = ""
    onnx.save(model, path)


def restore_buffers(definition, path):
    """The torchscript exporter runs the model once, which moves the running
    statistics that it then writes: put those of the definition back."""
    model = onnx.load(path, load_external_data=False)
    buffers = dict(definition.module.named_buffers())
    for tensor in model.graph.initializer:
        if tensor.name in buffers:
            array = buffers[tensor.name].numpy()
            if not np.array_equal(onnx.numpy_helper.to_array(tensor), array):
                tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    onnx.save(model, path)


@contextlib.contextmanager
def deferred_batch_norm(module):
    """Running statistics move once per step, by the statistics of the whole
    mini-batch (torchgpipe's deferred batch normalisation)."""
    hooks, seen, momenta = [], {}, {}
    for layer in module.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            momenta[layer], layer.momentum, seen[layer] = layer.momentum, 0.0, []
            hooks.append(
                layer.register_forward_pre_hook(lambda m, x: seen[m].append(x[0].detach()))
            )
    yield
    for hook in hooks:
        hook.remove()
    for layer, inputs in seen.items():
        layer.momentum = momenta[layer]
        whole = torch.cat(inputs).transpose(0, 1).flatten(1)
        layer.running_mean.lerp_(whole.mean(1), layer.momentum)
        layer.running_var.lerp_(whole.var(1), layer.momentum)


def train(definition, make_optimizer, steps, microbatches=1):
    """Runs `steps` steps on the one mini-batch; returns the trained module and
    the output, loss and gradients of the first step."""
    module = copy.deepcopy(definition.module).train()
    optimizer = make_optimizer(module.parameters())
    first = {}
    for step in range(steps):
        optimizer.zero_grad()
        outputs, losses = [], []
        chunks = [t.chunk(microbatches) for t in definition.inputs.values()]
        with deferred_batch_norm(module):
            for target, *inputs in zip(definition.target.chunk(microbatches), *chunks):
                output = module(*inputs)
                loss = definition.loss_sum(output, target) / definition.loss_weight
                loss.backward()
                outputs.append(output.detach())
                losses.append(loss.detach())
        if step == 0:
            first["output"] = torch.cat(outputs)
            first["loss"] = torch.stack(losses).sum()
            for name, parameter in module.named_parameters():
                first[f"grad/{name}"] = parameter.grad.clone()
        optimizer.step()
    return module, first


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-4)


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01)


def infer(definition, module):
    with torch.no_grad():
        return module.eval()(*definition.inputs.values())


def state(prefix, module):
    tensors = dict(module.named_parameters())
    tensors.update(
        (n, b) for n, b in module.named_buffers() if n in module.state_dict()
    )
    return {f"{prefix}/{name}": t.detach() for name, t in tensors.items()}


def save_arrays(path, arrays):
    """np.savez with a fixed time stamp, so that equal arrays give equal files."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, value in arrays.items():
            value = value.detach().numpy() if torch.is_tensor(value) else value
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.asarray(value, order="C"))
            info = zipfile.ZipInfo(name + ".npy", (1980, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, buffer.getvalue())


def write_references(definition, folder):
    steps = FEWER_STEPS.get(folder.name, STEPS)
    batch = {**definition.inputs, "target": definition.target}
    trained, first = train(definition, sgd, steps)
    arrays = {"steps": np.int64(steps), **batch, **first, **state("sgd", trained)}
    arrays["sgd_output"] = infer(definition, trained)
    trained, _ = train(definition, adamw, steps)
    arrays.update(state("adamw", trained))
    arrays["adamw_output"] = infer(definition, trained)
    save_arrays(folder / "reference.npz", arrays)
    if definition.microbatches:
        large = definition.large_batch
        trained, first = train(large, sgd, 1, definition.microbatches)
        save_arrays(
            folder / f"reference.m{definition.microbatches}.npz",
            {**large.inputs, "target": large.target, **first, **state("sgd", trained)},
        )


def value_summary(value):
    tensor = value.type.tensor_type
    return {
        "name": value.name,
        "type": onnx.TensorProto.DataType.Name(tensor.elem_type),
        "dims": [
            d.dim_param if d.HasField("dim_param") else d.dim_value
            for d in tensor.shape.dim
        ],
    }


def summarize(path):
    """What the tests of the ONNX reader expect to find in a file."""
    model = onnx.load(path)
    ops = {}
    for node in model.graph.node:
        ops[node.op_type] = ops.get(node.op_type, 0) + 1
    return {
        "ir_version": model.ir_version,
        "opset": {o.domain or "ai.onnx": o.version for o in model.opset_import},
        "functions": len(model.functions),
        "nodes": len(model.graph.node),
        "ops": dict(sorted(ops.items())),
        "first_node": model.graph.node[0].name,
        "last_node": model.graph.node[-1].name,
        "inputs": [value_summary(v) for v in model.graph.input],
        "outputs": [value_summary(v) for v in model.graph.output],
        "initializers": [
            {
                "name": t.name,
                "type": onnx.TensorProto.DataType.Name(t.data_type),
                "dims": list(t.dims),
                "bytes": onnx.numpy_helper.to_array(t).nbytes,
                "first_bytes": onnx.numpy_helper.to_array(t).tobytes()[:16].hex(),
            }
            for t in model.graph.initializer
        ],
    }


def compare_names(definition, path):
    """PyTorch parameter name -> ONNX initializer name where they differ."""
    initializers = {
        t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer
    }
    renamed = {}
    for name, parameter in definition.module.named_parameters():
        if name in initializers:
            assert np.array_equal(initializers[name], parameter.detach().numpy()), name
            continue
        array = parameter.detach().numpy()
        for other, value in initializers.items():
            for transposed in (False, True) if array.ndim == 2 else (False,):
                if np.array_equal(value, array.T if transposed else array):
                    renamed[name] = {"initializer": other, "transposed": transposed}
        if name not in renamed:
            print(f"error: {path.name} has no initializer for {name}", file=sys.stderr)
    return renamed


def check_forward(definition, path, expected):
    """Compares onnxruntime with PyTorch; models in which a node needs the
    training mode of batch normalisation are outside what it runs."""
    import onnxruntime

    try:
        # The optimizer lets equal initializers share memory, which training mode
        # of batch normalisation then overwrites.
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = (
            onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        )
        session = onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )
        (output, *_) = session.run(
            None, {n: t.numpy() for n, t in definition.inputs.items()}
        )
    except Exception as error:  # noqa: BLE001: any failure is reported and left.
        print(f"  {path.name}: onnxruntime: {str(error).splitlines()[0][:150]}")
        return
    difference = np.abs(output - expected).max()
    print(f"  {path.name}: differs from PyTorch by at most {difference:.2g}")
    if path.name.split(".")[1] in (*definition.exact_exporters, "external"):
        assert difference < 1e-4


def write_model(name):
    definition = definitions.ALL[name].build()
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    files = []
    for dynamic in (False, True) if definition.dynamic_batch else (False,):
        for exporter in EXPORTERS:
            path = folder / f"{name}.{exporter}{'.dynamic' if dynamic else ''}.onnx"
            EXPORTERS[exporter](definition.module, definition.inputs, path, definition.output_name, dynamic=dynamic)
            strip_traces(path)
            restore_buffers(definition, path)
            files.append(path)
    if definition.external_data:
        path = folder / f"{name}.external.onnx"
        model = onnx.load(files[0])
        location = f"{name}.external.bin"
        (folder / location).unlink(missing_ok=True)
        onnx.save(
            model, path, save_as_external_data=True, location=location, size_threshold=0
        )
        (folder / location).chmod(0o644)
        files.append(path)
    write_references(definition, folder)
    expected = np.load(folder / "reference.npz")["output"]
    summary, names = {}, {}
    for path in files:
        summary[path.name] = summarize(path)
        names[path.name] = compare_names(definition, path)
        check_forward(definition, path, expected)
    for stem, value in (("summary", summary), ("names", names)):
        text = json.dumps(value, indent=1) + "\n"
        (folder / f"{stem}.json").write_text(text)


def write_digits(_):
    """scikit-learn's copy of the UCI digits; see digits/PROVENANCE.md."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    images = (digits.images / 16).astype(np.float32)[:, None]
    for part, rows in (("train", order[:1437]), ("test", order[1437:])):
        save_arrays(
            HERE / "digits" / f"digits-{part}.npz",
            {"image": images[rows], "target": digits.target[rows].astype(np.int64)},
        )


def main():
    writers = {name: write_model for name in definitions.ALL}
    writers["digits"] = write_digits
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=list(writers))
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for name in arguments.only or writers:
        print(name)
        writers[name](name)


if __name__ == "__main__":
    main()

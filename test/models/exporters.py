"""Both exporters of PyTorch, called as docs/getting-started.md says."""

import copy

import torch

OPSET = 17


def export_torchscript(module, inputs, path, output, training=True, dynamic=False):
    """To train: training mode, and no constant folding, so that parameters keep
    their names. To infer: as PyTorch exports by default."""
    mode = torch.onnx.TrainingMode.TRAINING if training else torch.onnx.TrainingMode.EVAL
    axes = {n: {0: "batch"} for n in [*inputs, output]}
    torch.onnx.export(
        copy.deepcopy(module).train(training),
        tuple(inputs.values()),
        str(path),
        dynamo=False,
        opset_version=OPSET,
        training=mode,
        do_constant_folding=not training,
        input_names=list(inputs),
        output_names=[output],
        dynamic_axes=axes if dynamic else None,
    )


def export_dynamo(module, inputs, path, output, training=True, dynamic=False, external_data=False):
    """To train, no optimisation: it merges equal initializers and drops their
    names. To infer: as PyTorch exports by default."""
    shapes = None
    if dynamic:
        shapes = tuple({0: torch.export.Dim("batch")} for _ in inputs)
    torch.onnx.export(
        copy.deepcopy(module).train(training),
        tuple(inputs.values()),
        str(path),
        dynamo=True,
        optimize=not training,
        verbose=False,
        external_data=external_data,
        input_names=list(inputs),
        output_names=[output],
        dynamic_shapes=shapes,
    )


EXPORTERS = {"torchscript": export_torchscript, "dynamo": export_dynamo}

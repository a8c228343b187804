"""Where a model is from: a file, an onnx.ModelProto, or a module of PyTorch."""

import os
import pathlib
import sys

from .errors import UsageError


def _torch():
    """PyTorch, if the program uses it."""
    return sys.modules.get("torch")


def is_module(model):
    torch = _torch()
    return torch is not None and isinstance(model, torch.nn.Module)


def export_module(module, example, path):
    """Writes a module as it is in training: what dropout and batch norms do is the compiler's to know."""
    torch = _torch()
    inputs = example if isinstance(example, tuple) else (example,)
    was_training = module.training
    module.train()
    try:
        # Optimised, equal parameters would become one, and lose their names.
        torch.onnx.export(module, inputs, path, dynamo=True, optimize=False, verbose=False)
    finally:
        module.train(was_training)
    return path


def model_file(model, example, folder):
    """The path of the model, which is written into `folder` if it is no file yet; and the flags that belong to it."""
    if isinstance(model, (str, os.PathLike)):
        if example is not None:
            raise UsageError("an example is for modules of PyTorch; the shapes of an ONNX file are in it")
        return os.fspath(model), {}
    path = str(pathlib.Path(folder) / "model.onnx")
    if is_module(model):
        if example is None:
            raise UsageError("a module of PyTorch needs an example of its inputs: compile(module, example=x)")
        return export_module(model, example, path), {}
    if hasattr(model, "SerializeToString"):
        import onnx
        onnx.save(model, path)
        return path, {}
    raise UsageError(f"a {type(model).__name__} is no model: a path, an onnx.ModelProto or a torch.nn.Module is")

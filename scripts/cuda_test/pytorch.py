"""What runs in processes of PyTorch, on the same GPU as the programs."""

import contextlib
import os
import sys

# Before CUDA starts: cuBLAS is deterministic only with a fixed workspace.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch

import models
import weights


def torch_device(device):
    """PyTorch's name for the runtime's."""
    return torch.device(device if device.startswith("cuda") else "cpu")


def constants_of(module):
    """What a module computes and does not keep: masks."""
    kept = module.state_dict()
    return {name: value.numpy() for name, value in module.named_buffers() if name not in kept}


def make_weights(folder, model, sizes):
    """Writes the weights of a model beside its ONNX file, if they are not there."""
    path = folder / f"{model}.bin"
    if not path.exists():
        partial = path.with_suffix(".partial")
        index = weights.read_index(folder / f"{model}.json")
        weights.write_file(index, partial, constants_of(models.SIZES[sizes][model].make()))
        partial.rename(path)
    return path


def load_model(folder, model, sizes):
    module = models.SIZES[sizes][model].make()
    weights.load(weights.read_index(folder / f"{model}.json"), make_weights(folder, model, sizes), module)
    return module


@contextlib.contextmanager
def deferred_batch_norm(module):
    """Running statistics move once per step, by the statistics of the whole
    mini-batch, as in the programs (torchgpipe's deferred batch normalisation)."""
    hooks, seen, momenta = [], {}, {}
    for layer in module.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            momenta[layer], layer.momentum, seen[layer] = layer.momentum, 0.0, []
            hooks.append(layer.register_forward_pre_hook(lambda m, x: seen[m].append(x[0].detach())))
    yield
    for hook in hooks:
        hook.remove()
    for layer, inputs in seen.items():
        layer.momentum = momenta[layer]
        whole = torch.cat(inputs).transpose(0, 1).flatten(1)
        layer.running_mean.lerp_(whole.mean(1), layer.momentum)
        layer.running_var.lerp_(whole.var(1), layer.momentum)


def be_exact():
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    torch.use_deterministic_algorithms(True, warn_only=True)


if __name__ == "__main__":
    sys.exit("a module of scripts/test-cuda")

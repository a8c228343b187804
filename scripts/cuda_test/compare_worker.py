"""Trains a model with PyTorch in a program's precision and in float64, and prints
how far that and the program's results are from float64: relative errors in the
Frobenius norm. bf16 is autocast, with PyTorch's own kernel of attention.

    python compare_worker.py REQUEST.json        with the keys that compare.py writes

Prints {"loss": [program, PyTorch], "gradients": {NAME: [program, PyTorch]}, "weights": ..., "outputs": ...}.
"""

import contextlib
import copy
import json
import pathlib
import sys

import numpy as np
import torch

import pytorch
from harness import read_safetensors
from models import SIZES, Attention


def relative_error(value, expected):
    if tuple(value.shape) != tuple(expected.shape):
        return float("inf")
    norm = expected.norm().item()
    error = (value.to(expected) - expected).norm().item()
    error = error / norm if norm > 0 else error
    return error if error == error else float("inf")


class Training:
    """PyTorch's: as the program does it, micro-batch by micro-batch."""

    def __init__(self, module, definition, arrays, request, dtype, device, autocasts=False):
        self.module = copy.deepcopy(module).to(device, dtype)
        for part in self.module.modules():
            if isinstance(part, Attention):
                part.flash = autocasts

        def run(inputs):
            with torch.autocast(device.type, torch.bfloat16) if autocasts else contextlib.nullcontext():
                return self.module(inputs).to(dtype)

        inputs, target = (
            torch.from_numpy(arrays[name]).to(device) for name in ("input", "target"))
        inputs, target = (t.to(dtype) if t.is_floating_point() else t for t in (inputs, target))
        with torch.no_grad():
            self.module.eval()
            self.outputs = {"output": run(inputs)}
        weight = target.numel()
        self.module.train()
        optimizer = torch.optim.SGD(
            self.module.parameters(), lr=request["learning_rate"], momentum=0.9, weight_decay=1e-4)
        chunks = list(zip(inputs.chunk(request["microbatches"]), target.chunk(request["microbatches"])))
        for step in range(request["steps"]):
            optimizer.zero_grad()
            losses = []
            with pytorch.deferred_batch_norm(self.module):
                for one, expected in chunks:
                    loss = definition.loss_sum(run(one), expected) / weight
                    loss.backward()
                    losses.append(loss.detach())
            if step == 0:
                self.loss = torch.stack(losses).sum().item()
                self.gradients = {name: p.grad.clone() for name, p in self.module.named_parameters()}
            optimizer.step()
        named = {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}
        self.weights = {name: value.detach() for name, value in named.items() if value.is_floating_point()}


def main(request):
    pytorch.be_exact()
    device = pytorch.torch_device(request["device"])
    definition = SIZES[request["sizes"]][request["model"]]
    module = pytorch.load_model(pathlib.Path(request["folder"]), request["model"], request["sizes"])
    masks = set(pytorch.constants_of(module))
    arrays = dict(np.load(request["data"]))
    single = Training(module, definition, arrays, request, torch.float32, device, request["precision"] == "bf16")
    double = Training(module, definition, arrays, request, torch.float64, device)
    ours = {
        "gradients": read_safetensors(request["gradients"]),
        "weights": read_safetensors(request["snapshot"]),
        "outputs": dict(np.load(request["outputs"])),
    }
    answer = {"loss": [abs(loss - double.loss) / abs(double.loss) for loss in (request["loss"], single.loss)]}
    for what, tensors in ours.items():
        answer[what] = {}
        for name, expected in getattr(double, what).items():
            if name in masks:
                continue
            mine = torch.from_numpy(np.array(tensors[name])).to(device) if name in tensors else None
            answer[what][name] = [
                float("inf") if mine is None else relative_error(mine, expected),
                relative_error(getattr(single, what)[name], expected)]
    print(json.dumps(answer))


if __name__ == "__main__":
    main(json.loads(pathlib.Path(sys.argv[1]).read_text()))

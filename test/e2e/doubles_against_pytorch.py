"""Models of f64 that PyTorch exports train as PyTorch trains them.

    doubles_against_pytorch.py BUILD

The gradients of the first step, and parameters, statistics and the loss after some steps,
beside PyTorch in double precision; through both exporters. Needs PyTorch.
"""

import contextlib
import copy
import io
import logging
import pathlib
import sys
import warnings

import numpy as np
import torch

import common

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "models"))
from exporters import EXPORTERS  # noqa: E402

MICROBATCHES, STEPS = 2, 5
# Batch norm over two samples makes errors of rounding larger by a thousand.
TOLERANCE = 1e-11
NOISE, SMALL_PART = 1e-10, 1e-3


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Linear(6, 16)
        self.layer = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, activation="gelu", batch_first=True)
        self.head = torch.nn.Linear(16, 3)

    def forward(self, x):
        return self.head(self.layer(self.embedding(x)))


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(6, 8, batch_first=True)
        self.head = torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.lstm(x)[0])


def convolutions():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 8, 3, padding=1, groups=4), torch.nn.GroupNorm(2, 8), torch.nn.SiLU(),
        torch.nn.ConvTranspose2d(8, 4, 2, stride=2), torch.nn.AvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(64, 3),
    )  # fmt: skip


MODELS = {"convolutions": (convolutions, (3, 16, 16)), "attention": (Attention, (5, 6)), "lstm": (Recurrent, (4, 6))}
OPTIMIZERS = {
    "sgd": (lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=1e-4), common.OPTIMIZERS["sgd"]),
    "adamw": (lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.01), common.OPTIMIZERS["adamw"]),
}


def train(module, x, target, optimizer):
    """Losses by step, the gradients of the first, and the state after the last."""
    optimizer = optimizer(module.parameters())
    losses, first = [], None
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = 0.0
        for part, wanted in zip(x.chunk(MICROBATCHES), target.chunk(MICROBATCHES)):
            share = torch.nn.functional.mse_loss(module(part), wanted) / MICROBATCHES
            share.backward()
            loss += share.item()
        losses.append(loss)
        first = first or {name: p.grad.numpy().copy() for name, p in module.named_parameters()}
        optimizer.step()
    return losses, first, {name: value.detach().numpy() for name, value in module.named_parameters()}


def compare(checks, where, found, wanted, gradients):
    """Counts the tensors that are compared. Elements with a gradient of 0 but for rounding, of which AdamW makes steps of any
    size, are left out; a gradient that is small beside all others is compared with these."""
    whole = np.sqrt(sum(np.sum(g**2) for g in gradients.values()))
    for name, expected in wanted.items():
        # The old exporter gives weights of recurrent layers, and transposed ones, names of its own.
        if name not in found:
            continue
        checks.equal(found[name].dtype, np.float64, f"{where}: the type of {name}")
        differences = (found[name] - expected)[(np.abs(gradients[name]) > NOISE) | (wanted is gradients)]
        norm = max(np.linalg.norm(expected.ravel()), SMALL_PART * whole if wanted is gradients else 0)
        error = np.linalg.norm(differences) / norm
        checks.check(error < TOLERANCE, f"{where}: {name} is off by {error:.1e}")
    return sum(name in found for name in wanted)


def test(context, checks, arguments):
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    for name, (make, shape) in MODELS.items():
        torch.manual_seed(0)
        module = make().double()
        x = torch.randn(4, *shape, dtype=torch.float64)
        with torch.no_grad():
            output = copy.deepcopy(module)(x)
        target = torch.randn(output.shape, dtype=torch.float64)
        data = context.path(".npz")
        np.savez(data, x=x.numpy(), target=target.numpy())
        for exporter, export in EXPORTERS.items():
            path = context.path(".onnx")
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                export(module, {"x": x}, path, "output")
            for kind, (optimizer, options) in OPTIMIZERS.items():
                where = f"{name} {exporter} {kind}"
                losses, first, after = train(copy.deepcopy(module).train(), x, target, optimizer)
                binary = context.compile(path, stages=2, batch=len(x), microbatches=MICROBATCHES, loss="mse", **options)
                gradients, snapshot = context.path(".safetensors"), context.path(".safetensors")
                binary.train(data, "--no-shuffle", "--steps", 1, "--dump-gradients", gradients)
                lines = binary.train(data, "--no-shuffle", "--steps", STEPS, "--save", snapshot)
                found = [line["loss"] for line in lines if "loss" in line][:STEPS]
                checks.check(np.allclose(found, losses, rtol=TOLERANCE, atol=0), f"{where}: losses {found}, expected {losses}")
                compared = compare(checks, f"{where}: gradients", common.read_safetensors(gradients), first, first)
                compared += compare(checks, f"{where}: after {STEPS} steps", common.read_safetensors(snapshot), after, first)
                checks.check(compared >= 4, f"{where}: only {compared} tensors have the module's names")


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

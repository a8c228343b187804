#!/usr/bin/env python3
"""Trains a test model on batches of which the last one of an epoch is smaller:
one process, no pipeline, no micro-batches, the mean over the samples there are.

    python plain_training.py JOB.json OUT.npz

The job says `model`, `batch`, `updates`, `optimizer` with its settings and `data`
(an archive with the inputs and `target`). OUT has the parameters after the last
update, and as `last/NAME` the gradients of it and as `loss` its loss.
"""

import json
import pathlib
import sys

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import definitions  # noqa: E402
from stale_training import make_optimizer  # noqa: E402


def train(job):
    definition = definitions.ALL[job["model"]].build()
    module = definition.module.train()
    parameters = dict(module.named_parameters())
    optimizer = make_optimizer(job["optimizer"], list(parameters.values()))
    data = dict(np.load(job["data"]))
    target = torch.from_numpy(data.pop("target"))
    inputs = [torch.from_numpy(data[name]) for name in definition.inputs]
    batches = [slice(begin, begin + job["batch"]) for begin in range(0, len(target), job["batch"])]
    for update in range(job["updates"]):
        part = batches[update % len(batches)]
        optimizer.zero_grad()
        loss = definition.loss_sum(module(*(x[part] for x in inputs)), target[part]) / target[part].numel()
        loss.backward()
        optimizer.step()
    return parameters, loss


def main():
    job = json.loads(pathlib.Path(sys.argv[1]).read_text())
    torch.set_num_threads(1)
    parameters, loss = train(job)
    arrays = {n: p.detach().numpy() for n, p in parameters.items()}
    arrays.update({f"last/{n}": p.grad.numpy() for n, p in parameters.items()})
    np.savez(sys.argv[2], loss=loss.item(), **arrays)


if __name__ == "__main__":
    main()

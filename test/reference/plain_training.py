#!/usr/bin/env python3
"""Trains a test model on batches of which the last one of an epoch is smaller:
one process, no pipeline, the mean over the samples there are.

    python plain_training.py JOB.json OUT.npz

The job says `model`, `batch`, `updates`, `optimizer` with its settings and `data`
(an archive with the inputs and `target`). OUT has the parameters after the last
update, and as `last/NAME` the gradients of it and as `loss` its loss.

A batch is cut into micro-batches of `microbatch` samples as torch.chunk does, which
matters to batch norms: they see one each. Their running statistics, in OUT too, are
moved once by an update, by what the samples of all have (`batch_norm` is "micro"), by
`commits` micro-batches at a time, or by each micro-batch in turn ("each").
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


class MeanStatistics:
    """Moves running statistics by the mean over micro-batches, weighted by samples, of their
    means and of their means of squares."""

    def __init__(self, norms):
        self.norms = norms
        for norm in norms:
            norm.register_forward_pre_hook(self.observe)
        self.begin()

    def begin(self):
        self.kept = [(n.running_mean.clone(), n.running_var.clone()) for n in self.norms]
        self.sums = {n: [0, 0, 0] for n in self.norms}

    def observe(self, norm, inputs):
        x = inputs[0].detach().double()
        axes = [axis for axis in range(x.dim()) if axis != 1]
        sums = self.sums[norm]
        for k, value in enumerate([x.sum(axes), x.square().sum(axes), x.numel() // x.shape[1]]):
            sums[k] = sums[k] + value

    def end(self):
        for norm, (mean, variance) in zip(self.norms, self.kept):
            total, squares, count = self.sums[norm]
            if not count:
                continue
            batch_mean = total / count
            batch_variance = (squares / count - batch_mean.square()) * count / max(count - 1, 1)
            norm.running_mean.copy_(mean.lerp(batch_mean.float(), norm.momentum))
            norm.running_var.copy_(variance.lerp(batch_variance.float(), norm.momentum))
        self.begin()


def train(job):
    definition = definitions.ALL[job["model"]].build()
    module = definition.module.train()
    parameters = dict(module.named_parameters())
    optimizer = make_optimizer(job["optimizer"], parameters)
    data = dict(np.load(job["data"]))
    target = torch.from_numpy(data.pop("target"))
    inputs = [torch.from_numpy(data[name]) for name in definition.inputs]
    batches = [slice(begin, begin + job["batch"]) for begin in range(0, len(target), job["batch"])]
    norms = [m for m in module.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    is_mean = job.get("batch_norm", "micro") == "micro"
    statistics = MeanStatistics(norms if is_mean else [])
    for update in range(job["updates"]):
        part = batches[update % len(batches)]
        size = job.get("microbatch", job["batch"])
        count = target[part].numel()
        optimizer.zero_grad()
        loss = 0
        for k, chunk in enumerate(zip(*(x[part].split(size) for x in inputs), target[part].split(size))):
            if k % job.get("commits", job["batch"]) == 0:
                statistics.end()
            share = definition.loss_sum(module(*chunk[:-1]), chunk[-1]) / count
            share.backward()
            loss += share.detach()
        statistics.end()
        optimizer.step()
    parameters.update((n, b) for n, b in module.named_buffers() if "running_" in n)
    return parameters, loss


def main():
    job = json.loads(pathlib.Path(sys.argv[1]).read_text())
    torch.set_num_threads(1)
    parameters, loss = train(job)
    arrays = {n: p.detach().numpy() for n, p in parameters.items()}
    arrays.update({f"last/{n}": p.grad.numpy() for n, p in parameters.items() if p.grad is not None})
    np.savez(sys.argv[2], loss=loss.item(), **arrays)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Trains a test model as a schedule without a flush defines it: one process,
no pipeline, each pass on the weight version that the paper says.

    python stale_training.py JOB.json OUT.npz

The job says `model`, `scheme`, `stages` (of each, the names of its parameters as
in PyTorch), `microbatches` (per update), `updates`, `idle` (numbers of updates
after which nothing was in flight), `optimizer` with its settings, `annealed` (0: no; see below), `data` (an
archive with the inputs and `target`) and `batch`. OUT has the parameters after
the last update, the running statistics of batch norms and, as `first/NAME`, the
gradient of the first update.

Version v of a stage are its weights after v updates. With p stages, w = p - 1 - s
micro-batches ahead of stage s and m micro-batches per update, micro-batch g (both
counted since the pipeline was last idle, with version 0 then) reads in stage s

    scheme          forward pass                 backward pass
    pipedream       max(g - w, 0)                the same           (m = 1)
    pipedream-vertical-sync  max(g - p + 1, 0)   the same           (m = 1)
    pipedream-2bw   max(floor(g / m) - 1, 0)     the same
    pipemare        max(floor((g - w) / m), 0)   floor(g / m)

and an update has the sum of the gradients of its m micro-batches, each of which
is the derivative of its part of the mini-batch's mean. The last mini-batch of an
epoch may be smaller: then the last of its micro-batches are, or are not there but
are counted.

With `annealed` of K (PipeMare's T1), update k of a stage has the learning rate
divided by tau^(1 - min(k / K, 1)), where tau = max(w / m, 1): so many updates are
made on average between a forward pass and the update that gets its gradient.

With `correction` of D (PipeMare's T2), the backward pass reads w - tau d, where w
are the newest weights, tau = w / m, and d is a mean of their latest changes: 0
when the pipeline was idle, and d <- g d + (1 - g) (change of w) at each update,
with g = D^(1 / tau). Where tau is 0, there is nothing to correct.
"""

import json
import pathlib
import sys

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))
import definitions  # noqa: E402


def forward_version(scheme, stages, ahead, m, g):
    if scheme == "pipedream":
        return max(g - ahead, 0)
    if scheme == "pipedream-vertical-sync":
        return max(g - stages + 1, 0)
    if scheme == "pipedream-2bw":
        return max(g // m - 1, 0)
    return max((g - ahead) // m, 0)


def backward_version(scheme, stages, ahead, m, g):
    return g // m if scheme == "pipemare" else forward_version(scheme, stages, ahead, m, g)


def make_optimizer(settings, parameters):
    settings = dict(settings)
    kind = settings.pop("kind")
    return {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[kind](parameters, **settings)


class Stage:
    """The newest weights with their optimizer, and the older versions."""

    def __init__(self, named, settings):
        self.parameters = named
        # A stage may have no parameters.
        self.optimizer = make_optimizer(settings, list(named.values())) if named else None
        self.rate = settings["lr"]
        self.become_idle()

    def snapshot(self):
        return {n: p.detach().clone() for n, p in self.parameters.items()}

    def become_idle(self):
        self.versions = {0: self.snapshot()}
        self.changes = {n: torch.zeros_like(p) for n, p in self.parameters.items()}

    def load_corrected(self, version, delay):
        for name, value in self.versions[version].items():
            self.parameters[name].data.copy_(value - delay * self.changes[name])

    def follow(self, version, delay, decay):
        keep = decay ** (1 / delay)
        for name, value in self.versions[version].items():
            change = value - self.versions[version - 1][name]
            self.changes[name] = keep * self.changes[name] + (1 - keep) * change

    def load(self, version):
        """In place and behind autograd's back: a backward pass reads what is in the
        parameters then, like that of a program."""
        for name, value in self.versions[version].items():
            self.parameters[name].data.copy_(value)

    def anneal(self, delay, share):
        for group in self.optimizer.param_groups if self.optimizer else []:
            group["lr"] = self.rate / max(delay, 1) ** (1 - min(share, 1))

    def update(self, version, gradients):
        self.load(version - 1)
        for name, parameter in self.parameters.items():
            parameter.grad = gradients[name]
        if self.optimizer:
            self.optimizer.step()
        self.versions[version] = self.snapshot()


def train(job):
    definition = definitions.ALL[job["model"]].build()
    module = definition.module.train()
    parameters = dict(module.named_parameters())
    stages = [Stage({n: parameters[n] for n in names}, job["optimizer"]) for names in job["stages"]]
    data = dict(np.load(job["data"]))
    target = torch.from_numpy(data.pop("target"))
    inputs = [torch.from_numpy(data[name]) for name in definition.inputs]
    m, size = job["microbatches"], job["batch"] // job["microbatches"]
    batches = [slice(begin, begin + job["batch"]) for begin in range(0, len(target), job["batch"])]
    idle_at, first, start = set(job["idle"]), None, 0
    for update in range(job["updates"]):
        if update in idle_at:
            start = update
            for stage in stages:
                stage.load(max(stage.versions))
                stage.become_idle()
        sums = {n: torch.zeros_like(p) for n, p in parameters.items()}
        batch = batches[update % len(batches)]
        weight = target[batch].numel()
        for k in range(m):
            g = (update - start) * m + k
            part = slice(batch.start + k * size, min(batch.start + (k + 1) * size, len(target)))
            if part.start >= len(target):
                break
            for s, stage in enumerate(stages):
                stage.load(forward_version(job["scheme"], len(stages), len(stages) - 1 - s, m, g))
            loss = definition.loss_sum(module(*(x[part] for x in inputs)), target[part]) / weight
            for s, stage in enumerate(stages):
                version = backward_version(job["scheme"], len(stages), len(stages) - 1 - s, m, g)
                if job["correction"] and s + 1 < len(stages):
                    stage.load_corrected(version, (len(stages) - 1 - s) / m)
                else:
                    stage.load(version)
            for name, gradient in zip(parameters, torch.autograd.grad(loss, list(parameters.values()))):
                sums[name] += gradient
        first = first or {n: g.clone() for n, g in sums.items()}
        for s, stage in enumerate(stages):
            version = update - start + 1
            if job["annealed"]:
                stage.anneal((len(stages) - 1 - s) / m, update / job["annealed"])
            stage.update(version, sums)
            if job["correction"] and s + 1 < len(stages):
                stage.follow(version, (len(stages) - 1 - s) / m, job["correction"])
            for old in [v for v in stage.versions if v < version - len(stages)]:
                del stage.versions[old]
    for stage in stages:
        stage.load(max(stage.versions))
    return module, first


def main():
    job = json.loads(pathlib.Path(sys.argv[1]).read_text())
    torch.set_num_threads(1)
    module, first = train(job)
    arrays = {n: p.detach().numpy() for n, p in module.named_parameters()}
    # Of batch norms; as we have them where an update has one micro-batch.
    arrays |= {n: b.numpy() for n, b in module.named_buffers() if ".running_" in f".{n}"}
    arrays.update({f"first/{n}": g.numpy() for n, g in first.items()})
    np.savez(sys.argv[2], **arrays)


if __name__ == "__main__":
    main()

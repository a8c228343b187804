#!/usr/bin/env python3
"""Trains a test model as a schedule without a flush defines it: one process,
no pipeline, each pass on the weight version that the paper says.

    python stale_training.py JOB.json OUT.npz

The job says `model`, `scheme`, `stages` (of each, the names of its parameters as
in PyTorch), `microbatches` (per update), `updates`, `idle` (numbers of updates
after which nothing was in flight), `optimizer` with its settings, `annealed` (0: no; see below), `data` (an
archive with the inputs and `target`) and `batch`. OUT has the parameters after
the last update, the running statistics of batch norms and, as `first/NAME`, the
gradient of the first update. All is computed in double precision.

Version v of a stage are its weights after v updates. With p stages, w = p - 1 - s
micro-batches ahead of stage s and m micro-batches per update, micro-batch g (both
counted since the pipeline was last idle, with version 0 then) reads in stage s

    scheme          forward pass                 backward pass
    pipedream       max(g - w, 0)                the same           (m = 1)
    pipedream-vertical-sync  max(g - p + 1, 0)   the same           (m = 1)
    pipedream-2bw   max(floor(g / m) - 1, 0)     the same
    pipemare        max(floor((g - w) / m), 0)   floor(g / m)

and an update has the sum of the gradients of its m micro-batches, each of which
is the derivative of its part of the mini-batch's mean (`wsp`: see train_waves; `replicas` of stages: see
train_replicas). The last mini-batch of an
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

import copy
import fnmatch
import json
import pathlib
import sys

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models"))
import definitions  # noqa: E402


def read(array):
    """In double precision: rounding must not decide on which side of a ReLU's kink it is."""
    tensor = torch.from_numpy(array)
    return tensor.double() if tensor.is_floating_point() else tensor


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


def make_optimizer(settings, named):
    """`groups` of the settings is a list of patterns of names, each with what is other
    for these; the first pattern counts."""
    settings = dict(settings)
    kind, groups = settings.pop("kind"), settings.pop("groups", [])
    parts = [{"params": [], **changes} for _, changes in [*groups, ("*", {})]]
    for name, parameter in named.items():
        number = next((i for i, (pattern, _) in enumerate(groups) if fnmatch.fnmatch(name, pattern)), -1)
        parts[number]["params"].append(parameter)
    parts = [part for part in parts if part["params"]]
    return {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[kind](parts, **settings)


class Stage:
    """The newest weights with their optimizer, and the older versions."""

    def __init__(self, named, settings):
        self.parameters = named
        # A stage may have no parameters.
        self.optimizer = make_optimizer(settings, named) if named else None
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

    def skip(self, version):
        self.versions[version] = self.versions[version - 1]
        for state in self.optimizer.state.values() if self.optimizer else []:
            if "step" in state:
                state["step"] += 1

    def update(self, version, gradients):
        self.load(version - 1)
        for name, parameter in self.parameters.items():
            parameter.grad = gradients[name]
        if self.optimizer:
            self.optimizer.step()
        self.versions[version] = self.snapshot()


def train(job):
    definition = definitions.ALL[job["model"]].build()
    module = definition.module.double().train()
    parameters = dict(module.named_parameters())
    stages = [Stage({n: parameters[n] for n in names}, job["optimizer"]) for names in job["stages"]]
    data = dict(np.load(job["data"]))
    target = read(data.pop("target"))
    inputs = [read(data[name]) for name in definition.inputs]
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


class DeferredStatistics:
    """The running statistics of batch norms, which an update moves by the mean over its
    micro-batches; a module alone moves them by each. The statistics of a norm are of the
    stage that has its weight."""

    def __init__(self, module):
        self.norms = {n: m for n, m in module.named_modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)}
        self.momenta = {n: norm.momentum for n, norm in self.norms.items()}
        self.running = {n: (norm.running_mean.clone(), norm.running_var.clone()) for n, norm in self.norms.items()}
        self.sums, self.elements = {}, {}
        for name, norm in self.norms.items():
            norm.momentum = 1.0  # gives the statistics of the last micro-batch
            norm.register_forward_hook(lambda norm, inputs, output, name=name: self.add(name, norm, inputs[0]))

    def add(self, name, norm, x):
        n = x.numel() // x.shape[1]
        self.elements[name] = n
        mean, count = norm.running_mean.clone(), self.sums.get(name, (0, 0, 0))
        square = norm.running_var * (n - 1) / n + mean * mean
        self.sums[name] = (count[0] + mean, count[1] + square, count[2] + 1)

    def update(self, names):
        for name in [n for n in self.sums if f"{n}.weight" in names]:
            means, squares, count = self.sums.pop(name)
            mean, size = means / count, count * self.elements[name]
            variance = (squares / count - mean * mean) * size / (size - 1)
            old = self.running[name]
            self.running[name] = tuple(o + self.momenta[name] * (v - o) for o, v in zip(old, (mean, variance)))

    def store(self):
        for name, norm in self.norms.items():
            norm.running_mean.copy_(self.running[name][0])
            norm.running_var.copy_(self.running[name][1])


def train_replicas(job):
    """PipeDream where stage s has `replicas[s]` ranks, n_s (1F1B-RR). Micro-batch g is
    that of replica g modulo n_s, and the i-th of it with i = floor(g / n_s). With N
    ranks, those of stage s are w = floor((n_s + n_(s+1) + ... - 1) / n_s) of their
    micro-batches ahead, and micro-batch g reads version max(i - w, 0) there, forward and
    backward. Update i of the stage has the sum of the gradients of micro-batches
    i n_s to (i + 1) n_s - 1, each the derivative of its part of the mean over the step's
    mini-batch. An update without samples is counted, and changes nothing.
    """
    definition = definitions.ALL[job["model"]].build()
    module = definition.module.double().train()
    parameters = dict(module.named_parameters())
    stages = [Stage({n: parameters[n] for n in names}, job["optimizer"]) for names in job["stages"]]
    counts, statistics = job["replicas"], DeferredStatistics(module)
    ahead = [(sum(counts[s:]) - 1) // counts[s] for s in range(len(counts))]
    data = dict(np.load(job["data"]))
    target = read(data.pop("target"))
    inputs = [read(data[name]) for name in definition.inputs]
    m, size = job["microbatches"], job["batch"] // job["microbatches"]
    batches = [slice(begin, begin + job["batch"]) for begin in range(0, len(target), job["batch"])]
    idle_at, first, start = set(job["idle"]), None, 0
    for update in range(job["updates"]):
        if update in idle_at:
            start = update
            for stage in stages:
                stage.load(max(stage.versions))
                stage.become_idle()
        batch = batches[update % len(batches)]
        weight = target[batch].numel()
        sums = [None] * len(stages)
        total = {n: torch.zeros_like(p) for n, p in parameters.items()}
        for k in range(m):
            g = (update - start) * m + k
            part = slice(batch.start + k * size, min(batch.start + (k + 1) * size, len(target)))
            if part.start < len(target):
                for s, stage in enumerate(stages):
                    stage.load(max(g // counts[s] - ahead[s], 0))
                loss = definition.loss_sum(module(*(x[part] for x in inputs)), target[part]) / weight
                gradients = dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values()))))
                for s, stage in enumerate(stages):
                    own = {n: gradients[n] for n in stage.parameters}
                    sums[s] = {n: sums[s][n] + v for n, v in own.items()} if sums[s] is not None else own
                total = {n: v + gradients[n].abs() for n, v in total.items()}
            for s, stage in enumerate(stages):
                if (g + 1) % counts[s]:
                    continue
                version = (g + 1) // counts[s]
                statistics.update(stage.parameters)
                if sums[s] is not None:
                    stage.update(version, sums[s])
                else:
                    stage.skip(version)
                sums[s] = None
                for old in [v for v in stage.versions if v < version - ahead[s] - 1]:
                    del stage.versions[old]
        first = first or total
    for stage in stages:
        stage.load(max(stage.versions))
    statistics.store()
    return module, first


class Worker:
    """A virtual worker: a copy of the model with an optimizer of its own."""

    def __init__(self, module, settings):
        self.module = copy.deepcopy(module)
        self.parameters = dict(self.module.named_parameters())
        self.optimizer = make_optimizer(settings, self.parameters)

    def snapshot(self):
        return {n: p.detach().clone() for n, p in self.parameters.items()}

    def load(self, weights):
        for name, value in weights.items():
            self.parameters[name].data.copy_(value)

    def become_idle(self, shared, first):
        self.versions, self.waves = {0: dict(shared)}, []
        if first is not self:
            self.optimizer.load_state_dict(copy.deepcopy(first.optimizer.state_dict()))
            self.module.load_state_dict(first.module.state_dict())

    def update(self, version, gradients):
        """Makes `version` with gradients of one micro-batch; none: it has no samples,
        so this is the version before, but the update is counted."""
        self.load(self.versions[version - 1])
        for name, parameter in self.parameters.items():
            parameter.grad = gradients[name] if gradients else None
        if gradients:
            self.optimizer.step()
        else:
            for state in self.optimizer.state.values():
                if "step" in state:
                    state["step"] += 1
        self.versions[version] = self.snapshot()


def train_waves(job):
    """WSP (HetPipe). There are W = `workers` of them; micro-batch k of an update of all,
    a wave, is that of worker k modulo W, which has m = microbatches / W of them. Its
    micro-batch g, counted since it was last idle, reads version max(g - m + 1, 0) of
    its own weights in all stages, forward and backward, and its update makes version
    g + 1 of version g. The gradient is that of its part of the mean over the samples of
    the waves of all workers.

    A worker pushes the sum of the changes of wave c, version (c + 1) m less version c m
    as it began, to the shared weights, which are then G(c + 1), where all have pushed:
    the first ones with waves 0 to c of all workers. It pulls G(c - D) for c > D, with
    D = `distance`: version c m becomes G(c - D) and its own waves c - D to c - 1.

    Where the pipeline runs empty, all have the shared weights with all waves, and worker
    0's state of the optimizer and running statistics.
    """
    definition = definitions.ALL[job["model"]].build()
    module = definition.module.double().train()
    count, distance = job["workers"], job["distance"]
    workers = [Worker(module, job["optimizer"]) for _ in range(count)]
    data = dict(np.load(job["data"]))
    target = read(data.pop("target"))
    inputs = [read(data[name]) for name in definition.inputs]
    m, size = job["microbatches"] // count, job["batch"] // job["microbatches"]
    batches = [slice(begin, begin + job["batch"]) for begin in range(0, len(target), job["batch"])]
    idle_at, first, start = set(job["idle"]) | {0}, None, 0
    shared = [workers[0].snapshot()]  # G(0), G(1), ...
    for wave in range(job["updates"]):
        if wave in idle_at:
            start, shared = wave, [shared[-1]]
            for worker in workers:
                worker.become_idle(shared[0], workers[0])
        c = wave - start
        batch = batches[wave % len(batches)]
        weight = target[batch].numel()
        sums = {n: torch.zeros_like(p) for n, p in workers[0].parameters.items()}
        for q, worker in enumerate(workers):
            if c > distance:
                pulled = dict(shared[c - distance])
                for own in worker.waves[c - distance : c]:
                    pulled = {n: v + own[n] for n, v in pulled.items()}
                worker.versions[c * m] = pulled
            changes = {n: torch.zeros_like(p) for n, p in worker.parameters.items()}
            for k in range(m):
                begin = batch.start + (k * count + q) * size
                part = slice(begin, min(begin + size, len(target)))
                gradients = None
                if part.start < len(target):
                    worker.load(worker.versions[max(c * m + k - m + 1, 0)])
                    loss = definition.loss_sum(worker.module(*(x[part] for x in inputs)), target[part]) / weight
                    gradients = dict(
                        zip(worker.parameters, torch.autograd.grad(loss, list(worker.parameters.values())))
                    )
                    sums = {n: s + gradients[n].abs() for n, s in sums.items()}
                version = c * m + k + 1
                worker.update(version, gradients)
                for name in changes:
                    changes[name] += worker.versions[version][name] - worker.versions[version - 1][name]
                worker.versions.pop(version - m - 1, None)
            worker.waves.append(changes)
        after = shared[-1]
        for worker in workers:
            after = {n: v + worker.waves[-1][n] for n, v in after.items()}
        shared.append(after)
        first = first or sums
    workers[0].load(shared[-1])
    return workers[0].module, first


def main():
    job = json.loads(pathlib.Path(sys.argv[1]).read_text())
    torch.set_num_threads(1)
    run = train_waves if job["scheme"] == "wsp" else train_replicas if job.get("replicas") else train
    module, first = run(job)
    arrays = {n: p.detach().numpy() for n, p in module.named_parameters()}
    # Of batch norms; as we have them where an update has one micro-batch.
    arrays |= {n: b.numpy() for n, b in module.named_buffers() if ".running_" in f".{n}"}
    arrays.update({f"first/{n}": g.numpy() for n, g in first.items()})
    np.savez(sys.argv[2], **arrays)


if __name__ == "__main__":
    main()

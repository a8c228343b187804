#!/usr/bin/env python3
"""The cases of trainer.py, and what PyTorch makes of them.

    .venv/bin/python test/e2e/trainer_cases.py

writes Inputs/trainer.npz: the parameters after 20 steps of each case, its losses,
learning rates and gradient norms, in double precision. Optimizers that PyTorch
does not have are written down below, from their papers.
"""

import pathlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
NUMBERS = HERE / "Inputs" / "trainer.npz"
STEPS = 20
BATCH = 8
SAMPLES = 24
SIZES = [6, 8, 8, 8, 5]
LAYERS = len(SIZES) - 1

SGD = {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.01}
PLAIN = {"learning_rate": 0.1}


def case(compile=PLAIN, train=(), loss="cross_entropy", **options):
    return {"compile": {"loss": loss, **compile}, "train": [str(a) for a in train], **options}


def scheduled(*flags, **options):
    return case(PLAIN, flags, **options)


CASES = {
    "sgd": case(SGD),
    "nesterov": case({**SGD, "nesterov": None}),
    "adam": case({"optimizer": "adam", "learning_rate": 0.01, "weight_decay": 0.1}),
    "adamw": case({"optimizer": "adamw", "learning_rate": 0.01, "weight_decay": 0.1}),
    "rmsprop": case({"optimizer": "rmsprop", "learning_rate": 0.01, "weight_decay": 0.1}),
    "rmsprop_all": case({"optimizer": "rmsprop", "learning_rate": 0.001, "beta2": 0.9, "momentum": 0.5, "centered": None, "epsilon": 1e-3}),
    "adagrad": case({"optimizer": "adagrad", "learning_rate": 0.05, "weight_decay": 0.1}),
    "lion": case({"optimizer": "lion", "learning_rate": 0.01, "weight_decay": 0.1}),
    "lamb": case({"optimizer": "lamb", "learning_rate": 0.02, "weight_decay": 0.1}),
    "lars": case({"optimizer": "lars", "learning_rate": 1, "momentum": 0.9, "weight_decay": 0.1, "trust_coefficient": 0.05}),
    "adafactor": case({"optimizer": "adafactor", "learning_rate": 0.05, "weight_decay": 0.1}),
    "adafactor_fast": case({"optimizer": "adafactor", "learning_rate": 0.3}),
    "muon": case({"optimizer": "muon", "learning_rate": 0.02, "weight_decay": 0.1}),
    "muon_groups": case(
        {"optimizer": "muon", "learning_rate": 0.02, "momentum": 0.9}, ["--group=layer3.*:orthogonalize=0", "--group=*:match_rms=1"]
    ),
    # Schedules.
    "constant": scheduled("--lr-schedule=constant", "--warmup-steps=5", "--warmup-start=0.25"),
    "linear": scheduled("--lr-schedule=linear", "--lr-end=0.1", "--lr-steps=15"),
    "linear_warmup": scheduled("--lr-schedule=linear", "--warmup-steps=4"),
    "cosine": scheduled("--lr-schedule=cosine", "--lr-end=0.05"),
    "cosine_warmup": scheduled("--lr-schedule=cosine", "--warmup-steps=6", "--warmup-start=0.1"),
    "step": scheduled("--lr-schedule=step", "--lr-every=6", "--lr-gamma=0.5"),
    "step_warmup": scheduled("--lr-schedule=step", "--lr-every=6", "--warmup-steps=3", "--warmup-start=0.5"),
    "exponential": scheduled("--lr-schedule=exponential", "--lr-gamma=0.9"),
    "polynomial": scheduled("--lr-schedule=polynomial", "--lr-power=2", "--lr-steps=12"),
    "one_cycle": scheduled("--lr-schedule=one-cycle"),
    "one_cycle_all": scheduled("--lr-schedule=one-cycle", "--lr-pct-start=0.5", "--lr-div-factor=10", "--lr-final-div-factor=100"),
    # Clipping.
    "clip_norm": case(SGD, ["--clip-gradient-norm=0.2"]),
    "clip_value": case(SGD, ["--clip-gradient-value=0.01"]),
    "clip_both": case({"optimizer": "adamw", "learning_rate": 0.01}, ["--clip-gradient-norm=0.1", "--clip-gradient-value=0.05"]),
    # Groups.
    "groups": case(
        {"optimizer": "adamw", "learning_rate": 0.01, "weight_decay": 0.5},
        ["--group=layer0.*:frozen", "--group=*.bias:weight_decay=0,lr_factor=2", "--group=layer3.*:lr_factor=0.1"],
    ),
    # Losses.
    "label_smoothing": case({**PLAIN, "label_smoothing": 0.2}),
    "class_weights": case({**PLAIN, "class_weights": "0.5,2,1,0,3.5"}),
    "class_weights_smooth": case({**PLAIN, "class_weights": "0.5,2,1,0.25,3.5", "label_smoothing": 0.2}),
    # What is left out is a class.
    "class_weights_ignored": case({**PLAIN, "class_weights": "0.5,2,1,1,3.5", "ignore_index": 1}),
    "soft_cross_entropy": case({**PLAIN, "label_smoothing": 0.1}, loss="soft_cross_entropy"),
    "bce_with_logits": case(loss="bce_with_logits"),
    "l1": case(loss="l1"),
    "huber": case({**PLAIN, "huber_delta": 0.4}, loss="huber"),
    "kl": case({"learning_rate": 0.01}, loss="kl"),
    "cosine_loss": case(loss="cosine"),
    # All of it.
    "together": case(
        {"optimizer": "adamw", "learning_rate": 0.02, "weight_decay": 0.1, "label_smoothing": 0.1, "ema_decay": 0.9},
        ["--lr-schedule=cosine", "--warmup-steps=4", "--clip-gradient-norm=0.3", "--clip-gradient-value=0.2", "--group=*.bias:weight_decay=0"],
    ),
}  # fmt: skip


def parameters():
    """The first weights, by name, as a linear layer has them."""
    rng = np.random.default_rng(11)
    result = {}
    for i in range(LAYERS):
        bound = SIZES[i] ** -0.5
        result[f"layer{i}.weight"] = rng.uniform(-bound, bound, (SIZES[i + 1], SIZES[i])).astype(np.float32)
        result[f"layer{i}.bias"] = rng.uniform(-bound, bound, SIZES[i + 1]).astype(np.float32)
    return result


def data(compile):
    loss, ignored = compile["loss"], compile.get("ignore_index", -100)
    rng = np.random.default_rng(12)
    x = rng.standard_normal((SAMPLES, SIZES[0]), np.float32)
    labels = rng.integers(0, SIZES[-1], SAMPLES)
    labels[::7] = ignored
    soft = rng.random((SAMPLES, SIZES[-1]), np.float32)
    if loss == "cross_entropy":
        target = labels
    elif loss in ("soft_cross_entropy", "kl"):
        target = soft / soft.sum(1, keepdims=True)
        if loss == "kl":
            target[:, 0] = 0
    elif loss == "bce_with_logits":
        target = soft
    else:
        target = rng.standard_normal((SAMPLES, SIZES[-1]), np.float32)
    return {"x": x, "target": target}


def run_with_pytorch(name, options):
    import torch
    from torch.nn import functional as F
    from torch.optim import lr_scheduler as schedulers

    compile, flags = options["compile"], options["train"]
    kind = compile["loss"]
    weights = {n: torch.tensor(p, dtype=torch.float64, requires_grad=True) for n, p in parameters().items()}
    arrays = {n: torch.tensor(a) for n, a in data(compile).items()}
    x, target = arrays["x"].double(), arrays["target"]
    if target.is_floating_point():
        target = target.double()
    smoothing = compile.get("label_smoothing", 0)
    counted = compile.get("class_weights")
    if counted:
        counted = torch.tensor([float(w) for w in counted.split(",")], dtype=torch.float64)
    losses = {
        "cross_entropy": lambda y, t: F.cross_entropy(
            y, t, weight=counted, label_smoothing=smoothing, ignore_index=compile.get("ignore_index", -100)
        ),
        "soft_cross_entropy": lambda y, t: F.cross_entropy(y, t, label_smoothing=smoothing),
        "bce_with_logits": F.binary_cross_entropy_with_logits,
        "l1": F.l1_loss,
        "huber": lambda y, t: F.huber_loss(y, t, delta=compile.get("huber_delta", 1)),
        "kl": lambda y, t: F.kl_div(y, t, reduction="batchmean"),
        "cosine": lambda y, t: F.cosine_embedding_loss(y, t, torch.ones(len(y), dtype=torch.float64)),
    }
    value = {flag.split("=", 1)[0]: flag.split("=", 1)[1] for flag in flags if not flag.startswith("--group")}
    number = lambda flag, otherwise: float(value.get(flag, otherwise))  # noqa: E731
    rate, decay = compile["learning_rate"], compile.get("weight_decay", 0)
    groups = [{"params": list(weights.values())}]
    if name in ("groups", "together"):
        taken = lambda n: {} if not n.endswith(".bias") else {"weight_decay": 0, **({"lr": rate * 2} if name == "groups" else {})}  # noqa: E731
        groups = []
        for n, p in weights.items():
            if name == "groups" and n.startswith("layer0."):
                p.requires_grad = False
                continue
            own = taken(n)
            if name == "groups" and not own and n.startswith("layer3."):
                own = {"lr": rate * 0.1}
            groups.append({"params": [p], **own})
    momentum = compile.get("momentum", 0)
    optim = torch.optim
    beta2, epsilon = compile.get("beta2"), compile.get("epsilon")
    makers = {
        "sgd": lambda: optim.SGD(groups, lr=rate, momentum=momentum, weight_decay=decay, nesterov="nesterov" in compile),
        "adam": lambda: optim.Adam(groups, lr=rate, weight_decay=decay),
        "adamw": lambda: optim.AdamW(groups, lr=rate, weight_decay=decay),
        "rmsprop": lambda: optim.RMSprop(
            groups, lr=rate, weight_decay=decay, momentum=momentum, centered="centered" in compile, alpha=beta2 or 0.99, eps=epsilon or 1e-8
        ),
        "adagrad": lambda: optim.Adagrad(groups, lr=rate, weight_decay=decay),
        "lion": lambda: Written(lion, groups, rate, decay),
        "lamb": lambda: Written(lamb, groups, rate, decay),
        "adafactor": lambda: optim.Adafactor(groups, lr=rate, weight_decay=decay, eps=(np.finfo(np.float32).eps, 1e-3)),
        "muon": lambda: Muon(weights, lambda n: name != "muon_groups" or not n.startswith("layer3."), rate, decay, momentum or 0.95, name == "muon_groups"),
        "lars": lambda: Written(lars, groups, rate, decay, momentum, compile["trust_coefficient"] if "trust_coefficient" in compile else 0),
    }
    optimizer = makers[compile.get("optimizer", "sgd")]()
    schedule = None
    if "--lr-schedule" in value:
        warmup = int(number("--warmup-steps", 0))
        start = number("--warmup-start", 0)
        steps = int(number("--lr-steps", STEPS)) - warmup
        end, gamma = number("--lr-end", 0), number("--lr-gamma", 0.1)
        make = {
            "constant": lambda: schedulers.ConstantLR(optimizer, 1),
            "linear": lambda: schedulers.LinearLR(optimizer, 1, end, steps),
            "cosine": lambda: schedulers.CosineAnnealingLR(optimizer, steps, end * rate),
            "step": lambda: schedulers.StepLR(optimizer, int(number("--lr-every", 1)), gamma),
            "exponential": lambda: schedulers.ExponentialLR(optimizer, gamma),
            "polynomial": lambda: schedulers.PolynomialLR(optimizer, steps, number("--lr-power", 1)),
            "one-cycle": lambda: schedulers.OneCycleLR(
                optimizer, rate, steps, pct_start=number("--lr-pct-start", 0.3), cycle_momentum=False,
                div_factor=number("--lr-div-factor", 25), final_div_factor=number("--lr-final-div-factor", 1e4),
            ),
        }  # fmt: skip
        if warmup:
            # LinearLR refuses to start at 0, as schedules for transformers do.
            first = schedulers.LambdaLR(optimizer, lambda i: start + (1 - start) * i / warmup)
            if start > 0:
                for group in optimizer.param_groups:
                    group["lr"] = group["initial_lr"]
                first = schedulers.LinearLR(optimizer, start, 1, warmup)
            schedule = schedulers.SequentialLR(optimizer, [first, make[value["--lr-schedule"]]()], [warmup])
        else:
            schedule = make[value["--lr-schedule"]]()
    result = {"loss": [], "lr": [], "norm": []}
    for step in range(STEPS):
        rows = slice(step * BATCH % SAMPLES, step * BATCH % SAMPLES + BATCH)
        y = x[rows]
        for i in range(LAYERS):
            y = F.linear(y, weights[f"layer{i}.weight"], weights[f"layer{i}.bias"])
            y = torch.tanh(y) if i + 1 < LAYERS else y
        loss = losses[kind](y, target[rows])
        optimizer.zero_grad()
        loss.backward()
        trained = [p for p in weights.values() if p.grad is not None]
        if "--clip-gradient-value" in value:
            torch.nn.utils.clip_grad_value_(trained, number("--clip-gradient-value", 0))
        norm = torch.nn.utils.clip_grad_norm_(trained, number("--clip-gradient-norm", np.inf))
        result["loss"].append(loss.item())
        result["norm"].append(norm.item())
        result["lr"].append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if schedule:
            schedule.step()
    return {**result, "parameters": np.concatenate([p.detach().numpy().ravel() for p in weights.values()])}


class Muon:
    """PyTorch's Muon for matrices, whose products are of doubles here, and AdamW for others."""

    def __init__(self, weights, takes, lr, decay, momentum, is_matched):
        from torch import optim

        matrices = [p for n, p in weights.items() if p.ndim == 2 and takes(n)]
        others = [p for n, p in weights.items() if p.ndim != 2 or not takes(n)]
        adjust = "match_rms_adamw" if is_matched else "original"
        self.optimizers = [
            optim.Muon(matrices, lr=lr, weight_decay=decay, momentum=momentum, adjust_lr_fn=adjust), optim.AdamW(others, lr=lr, weight_decay=decay),
        ]
        self.param_groups = [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def zero_grad(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def step(self):
        from unittest import mock

        import torch

        with mock.patch.object(torch, "bfloat16", torch.float64):
            for optimizer in self.optimizers:
                optimizer.step()


class Written:
    """An optimizer as its paper has it."""

    def __init__(self, rule, groups, lr, *settings):
        self.rule, self.settings = rule, settings
        self.param_groups = [{"lr": lr, "initial_lr": lr, **group} for group in groups]
        self.state, self.steps = {}, 0

    def zero_grad(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def step(self):
        import torch

        self.steps += 1
        with torch.no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    state = self.state.setdefault(parameter, [torch.zeros_like(parameter), torch.zeros_like(parameter)])
                    self.rule(parameter, parameter.grad, state, group["lr"], self.steps, *self.settings)


def lion(p, g, state, lr, step, decay):
    import torch

    update = torch.sign(0.9 * state[0] + 0.1 * g)
    p -= lr * (update + decay * p)
    state[0].mul_(0.99).add_(0.01 * g)


def lamb(p, g, state, lr, step, decay):
    state[0].mul_(0.9).add_(0.1 * g)
    state[1].mul_(0.999).add_(0.001 * g * g)
    mean, square = state[0] / (1 - 0.9**step), state[1] / (1 - 0.999**step)
    update = mean / (square.sqrt() + 1e-6) + decay * p
    p -= lr * p.norm() / update.norm() * update


def lars(p, g, state, lr, step, decay, momentum, trust):
    ratio = trust * p.norm() / (g.norm() + decay * p.norm() + 1e-8)
    state[0].mul_(momentum).add_(ratio * (g + decay * p))
    p -= lr * state[0]


if __name__ == "__main__":
    results = {}
    for name, options in CASES.items():
        for key, value in run_with_pytorch(name, options).items():
            results[f"{name}/{key}"] = np.asarray(value, np.float64)
    np.savez_compressed(NUMBERS, **results)
    print(f"{NUMBERS}: {len(CASES)} cases, {NUMBERS.stat().st_size} bytes")

"""A multilayer perceptron: the smallest model with something to split."""

import torch
from torch import nn

from .definition import Definition, cross_entropy_sum

NAME = "mlp"


def build() -> Definition:
    torch.manual_seed(1)
    module = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    return Definition(
        module,
        inputs={"x": torch.randn(32, 64)},
        target=torch.randint(0, 10, (32,)),
        output_name="logits",
        loss_sum=cross_entropy_sum,
        loss_weight=32,
        dynamic_batch=True,
        external_data=True,
    )

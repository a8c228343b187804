"""What export.py needs to know of a model."""

from dataclasses import dataclass
from typing import Callable

import torch


@dataclass
class Definition:
    """A seeded model with one fixed mini-batch.

    `loss_sum` is the sum over all elements (tokens, pixels, samples) of the
    mini-batch, and `loss_weight` their number: the loss is the quotient.
    """

    module: torch.nn.Module
    inputs: dict[str, torch.Tensor]
    target: torch.Tensor
    output_name: str
    loss_sum: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    loss_weight: int
    dynamic_batch: bool = False
    external_data: bool = False
    microbatches: int = 0
    """Also write references with this many accumulated micro-batches..."""
    large_batch: "Definition | None" = None
    """... of this definition, which has the same module."""
    exact_exporters: tuple[str, ...] = ("torchscript", "dynamo")
    """Those whose file computes what PyTorch computes in training mode."""


def cross_entropy_sum(logits: torch.Tensor, target: torch.Tensor):
    return torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), target.reshape(-1), reduction="sum"
    )


def squared_error_sum(prediction: torch.Tensor, target: torch.Tensor):
    return torch.nn.functional.mse_loss(prediction, target, reduction="sum")

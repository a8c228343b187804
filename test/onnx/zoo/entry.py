"""What an entry of the list is."""

import dataclasses
from collections.abc import Callable

import numpy as np


@dataclasses.dataclass(frozen=True)
class Entry:
    name: str
    # The module; packages are imported when it is made.
    build: Callable
    # Arrays by name; the first axis is the batch.
    inputs: dict
    # What of the module's result is the output: a key, an index, or nothing.
    output: str | int | None = None
    # Of the module's call, beside the inputs, which are then passed by name. None passes them in order.
    options: dict | None = None

    def call(self, module, values):
        """The output of `module` for tensors in the order of the inputs."""
        if self.options is None:
            result = module(*values)
        else:
            result = module(**dict(zip(self.inputs, values)), **self.options)
        return result if self.output is None else result[self.output]


def noise(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def image(size=64, batch=4, channels=3, name="x", seed=0):
    """`seed`: an architecture with very many activations may have one so near to a kink that single and double precision differ; then another draw."""
    return {name: noise(batch, channels, size, size, seed=seed)}


def tokens(length=16, vocabulary=61, batch=4, name="input_ids", seed=0):
    return {name: np.random.default_rng(seed).integers(3, vocabulary, (batch, length))}


def mask(length=16, batch=4):
    """Each sample has another length; the last ones are padding."""
    lengths = length - np.arange(batch)[:, None]
    return {"attention_mask": (np.arange(length) < lengths).astype(np.int64)}

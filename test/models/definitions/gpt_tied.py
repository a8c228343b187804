"""gpt with two layers whose output layer shares the token embedding."""

from . import gpt
from .definition import Definition

NAME = "gpt_tied"


def build() -> Definition:
    return gpt.define(layers=2, tied=True, dynamic_batch=False)

"""The models that export.py writes, one module each."""

from . import gpt, gpt_tied, lenet, mlp, normed, padded, resnet18, unet

ALL = {m.NAME: m for m in (mlp, lenet, normed, resnet18, unet, gpt, gpt_tied, padded)}

"""Architectures with random weights, small enough to compile in seconds."""

from zoo import everyday, odd_models, timm_models, torchvision_models, transformers_models

ALL = {entry.name: entry for module in (torchvision_models, timm_models, transformers_models, everyday, odd_models) for entry in module.ENTRIES}

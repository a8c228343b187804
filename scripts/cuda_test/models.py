"""The models of scripts/test-cuda, with PyTorch alone.

The same file defines them where they are exported and where they are compared.
`SIZES` has them for a GPU ("full"), and what tests the test: all of them small
("tiny"), and one ("smoke").
"""

import math
from dataclasses import dataclass
from typing import Callable

import numpy as np
import torch
from torch import nn


class MLP(nn.Sequential):
    def __init__(self, width):
        super().__init__(
            nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))


class LeNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv1 = nn.Conv2d(1, width, 3, padding=1)
        self.conv2 = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.fc1 = nn.Linear(8 * width, 4 * width)
        self.fc2 = nn.Linear(4 * width, 10)

    def forward(self, image):
        x = nn.functional.max_pool2d(torch.relu(self.conv1(image)), 2)
        x = nn.functional.avg_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc2(torch.relu(self.fc1(torch.flatten(x, 1))))


class Bottleneck(nn.Module):
    """Of He et al., "Deep Residual Learning for Image Recognition"; the stride
    is that of the 3x3 convolution."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        return torch.relu(self.bn3(self.conv3(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, blocks, width, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        layers, inputs = [], width
        for level, count in enumerate(blocks):
            for index in range(count):
                layers.append(Bottleneck(inputs, width << level, 2 if level > 0 and index == 0 else 1))
                inputs = 4 * (width << level)
        self.layers = nn.Sequential(*layers)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(torch.flatten(nn.functional.adaptive_avg_pool2d(self.layers(x), 1), 1))


class DoubleConv(nn.Sequential):
    def __init__(self, inputs, outputs):
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.Conv2d(outputs, outputs, 3, padding=1), nn.ReLU())


class UNet(nn.Module):
    """Of Ronneberger et al., with padding, so that its skips need no cropping."""

    def __init__(self, width, levels):
        super().__init__()
        widths = [width << level for level in range(levels + 1)]
        self.down = nn.ModuleList(DoubleConv(i, o) for i, o in zip([1, *widths[:-2]], widths[:-1]))
        self.bottom = DoubleConv(widths[-2], widths[-1])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in widths[:-1])
        self.merge = nn.ModuleList(DoubleConv(2 * w, w) for w in widths[:-1])
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        skips = []
        for down in self.down:
            skips.append(down(x))
            x = nn.functional.max_pool2d(skips[-1], 2)
        x = self.bottom(x)
        for level in reversed(range(len(skips))):
            x = self.merge[level](torch.cat([skips[level], self.up[level](x)], 1))
        return self.head(x)


def causal_mask(sequence):
    return torch.full((sequence, sequence), float("-inf")).triu(1)


class Attention(nn.Module):
    """Of all rows, or of those before where there is a mask."""

    # PyTorch's own kernel, for bf16; the exporter and comparisons in f32 take the formula.
    flash = False

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)

    def attention(self, x, mask):
        width = x.shape[-1]
        q, k, v = (t.unflatten(2, (self.heads, width // self.heads)).transpose(1, 2)
                   for t in self.qkv(x).split(width, 2))
        if self.flash:
            out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=mask is not None)
        else:
            scores = q @ k.transpose(2, 3) / math.sqrt(width // self.heads)
            out = torch.softmax(scores if mask is None else scores + mask, -1) @ v
        return self.proj(out.transpose(1, 2).flatten(2))


class AttentionLayer(Attention):
    """Attention alone."""

    def __init__(self, sequence, width, heads, is_causal):
        super().__init__(width, heads)
        self.register_buffer("mask", causal_mask(sequence) if is_causal else None, persistent=False)

    def forward(self, x):
        return self.attention(x, self.mask)


class Block(Attention):
    def __init__(self, width, heads):
        super().__init__(width, heads)
        self.ln1 = nn.LayerNorm(width)
        self.ln2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, 4 * width)
        self.fc2 = nn.Linear(4 * width, width)

    def forward(self, x, mask):
        x = x + self.attention(self.ln1(x), mask)
        return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))


class GPT(nn.Module):
    """GPT-2's architecture; the head shares the weights of the tokens."""

    def __init__(self, vocabulary, sequence, width, layers, heads):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(sequence, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("mask", causal_mask(sequence), persistent=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.ln(x))


@dataclass
class Model:
    """`image`: the shape of one input; with `sequence` numbers of tokens below
    `classes` instead. `frozen`: what is not trained and looks as if it were,
    since the compiler sees no values."""

    make: Callable
    loss: str  # cross_entropy or mse
    image: tuple = None
    sequence: int = 0
    classes: int = 0
    frozen: tuple = ()

    def arrays(self, batch, seed=0):
        """NumPy arrays `input` and `target` of a batch."""
        random = np.random.default_rng([seed, batch])
        if self.sequence:
            text = random.integers(0, self.classes, (batch, self.sequence + 1))
            return {"input": np.ascontiguousarray(text[:, :-1]), "target": np.ascontiguousarray(text[:, 1:])}
        image = random.standard_normal((batch, *self.image), np.float32)
        if self.loss == "mse":
            noise = random.standard_normal(image.shape, np.float32)
            return {"input": image, "target": 1 - image + np.float32(0.1) * noise}
        return {"input": image, "target": random.integers(0, self.classes, batch)}

    def loss_sum(self, output, target):
        if self.loss == "mse":
            return nn.functional.mse_loss(output, target, reduction="sum")
        return nn.functional.cross_entropy(
            output.reshape(-1, output.shape[-1]).float() if output.dtype == torch.bfloat16
            else output.reshape(-1, output.shape[-1]), target.reshape(-1), reduction="sum")


FULL = {
    "mlp": Model(lambda: MLP(256), "cross_entropy", image=(64,), classes=10),
    "lenet": Model(lambda: LeNet(8), "cross_entropy", image=(1, 8, 8), classes=10),
    "unet": Model(lambda: UNet(16, 3), "mse", image=(1, 64, 64)),
    "resnet50": Model(lambda: ResNet([3, 4, 6, 3], 64, 1000), "cross_entropy", image=(3, 224, 224), classes=1000),
    "gpt2-small": Model(lambda: GPT(50257, 1024, 768, 12, 12), "cross_entropy", sequence=1024, classes=50257,
                        frozen=("mask",)),
    "attention": Model(lambda: AttentionLayer(256, 256, 4, True), "mse", image=(256, 256), frozen=("mask",)),
    # Neither rows nor columns fill the tiles of a kernel.
    "attention-odd": Model(lambda: AttentionLayer(100, 120, 3, False), "mse", image=(100, 120)),
}
TINY = {
    "mlp": Model(lambda: MLP(32), "cross_entropy", image=(64,), classes=10),
    "lenet": Model(lambda: LeNet(4), "cross_entropy", image=(1, 8, 8), classes=10),
    "unet": Model(lambda: UNet(4, 2), "mse", image=(1, 16, 16)),
    "resnet50": Model(lambda: ResNet([1, 1], 8, 10), "cross_entropy", image=(3, 32, 32), classes=10),
    "gpt2-small": Model(lambda: GPT(64, 16, 32, 2, 2), "cross_entropy", sequence=16, classes=64,
                        frozen=("mask",)),
    "attention": Model(lambda: AttentionLayer(32, 32, 2, True), "mse", image=(32, 32), frozen=("mask",)),
    "attention-odd": Model(lambda: AttentionLayer(10, 24, 3, False), "mse", image=(10, 24)),
}
SIZES = {"full": FULL, "tiny": TINY, "smoke": {"mlp": TINY["mlp"]}}

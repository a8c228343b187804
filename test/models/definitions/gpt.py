"""A decoder-only transformer with learned positions."""

import math

import torch
from torch import nn

from .definition import Definition, cross_entropy_sum

NAME = "gpt"
VOCABULARY = 96
SEQUENCE = 32
WIDTH = 64
HIDDEN = 128
HEADS = 4


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, mask):
        def heads(t):
            return t.unflatten(2, (HEADS, WIDTH // HEADS)).transpose(1, 2)

        q, k, v = (heads(t) for t in self.qkv(x).split(WIDTH, 2))
        scores = q @ k.transpose(2, 3) / math.sqrt(WIDTH // HEADS) + mask
        out = torch.softmax(scores, -1) @ v
        return self.proj(out.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.ln2 = nn.LayerNorm(WIDTH)
        self.fc1 = nn.Linear(WIDTH, HIDDEN)
        self.fc2 = nn.Linear(HIDDEN, WIDTH)

    def forward(self, x, mask):
        x = x + self.attn(self.ln1(x), mask)
        return x + self.fc2(nn.functional.gelu(self.fc1(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self, layers, tied):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(SEQUENCE, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.ln = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        # Not a parameter: an additive mask, zero on and below the diagonal.
        mask = torch.full((SEQUENCE, SEQUENCE), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.05)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.ln(x))


def define(layers, tied, dynamic_batch) -> Definition:
    torch.manual_seed(5)
    text = torch.randint(0, VOCABULARY, (8, SEQUENCE + 1))
    return Definition(
        GPT(layers, tied),
        inputs={"tokens": text[:, :-1].contiguous()},
        target=text[:, 1:].contiguous(),
        output_name="logits",
        loss_sum=cross_entropy_sum,
        loss_weight=8 * SEQUENCE,
        dynamic_batch=dynamic_batch,
    )


def build() -> Definition:
    return define(layers=4, tied=False, dynamic_batch=True)

"""A causal language model that hides the padding of its texts: a mask that the program computes."""

import torch
from torch import nn

from .definition import Definition, cross_entropy_sum

NAME = "padded"
VOCABULARY = 48
SEQUENCE = 24
WIDTH = 32
HEADS = 2
PADDING = 0


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1 = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)
        self.ln2 = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x, mask):
        q, k, v = (t.unflatten(2, (HEADS, -1)).transpose(1, 2) for t in self.qkv(self.ln1(x)).chunk(3, 2))
        out = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.proj(out.transpose(1, 2).flatten(2))
        return x + self.mlp(self.ln2(x))


class Padded(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(SEQUENCE, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.ln = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.1)

    def forward(self, tokens):
        seen = (tokens != PADDING)[:, None, None, :]
        past = torch.ones(SEQUENCE, SEQUENCE, dtype=torch.bool).tril()
        x = self.tokens(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x, seen & past)
        return self.head(self.ln(x))


def build() -> Definition:
    torch.manual_seed(11)
    text = torch.randint(1, VOCABULARY, (8, SEQUENCE + 1))
    tokens = text[:, :-1].clone()
    # On the right, or on the left, where the first tokens see nothing.
    for row in range(0, 8, 2):
        tokens[row, SEQUENCE - 2 * row :] = PADDING
        tokens[row + 1, : row] = PADDING
    return Definition(
        Padded(),
        inputs={"tokens": tokens},
        target=text[:, 1:].contiguous(),
        output_name="logits",
        loss_sum=cross_entropy_sum,
        loss_weight=8 * SEQUENCE,
        # A token that sees nothing gets zeros of PyTorch and of this file. The other one adds the lowest float to what is
        # hidden, which makes means of it.
        exact_exporters=("torchscript",),
    )

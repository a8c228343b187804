"""What outsiders write: indices made of the batch's size, masks of computed lengths, loops over samples, odd views."""

import numpy as np

from zoo.entry import Entry, noise, tokens


def modules():
    import torch
    from torch import nn

    def places(x):
        return torch.arange(x.shape[0])

    class Head(nn.Module):
        """A linear layer, and what makes the output of it."""

        def __init__(self, columns, outputs, finish):
            super().__init__()
            self.head, self.finish = nn.Linear(columns, outputs), finish

        def forward(self, x, *more):
            return self.finish(self.head(x), *more)

    class LargestToken(nn.Module):
        """CLIP's text model: the words' vector at the place of the largest number."""

        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(61, 8), nn.Linear(8, 4)

        def forward(self, x):
            return self.head(self.words(x))[places(x), x.argmax(dim=-1)]

    class Put(nn.Module):
        def __init__(self):
            super().__init__()
            self.row, self.values = nn.Linear(6, 6), nn.Linear(3, 3)

        def forward(self, x, values, index):
            h = self.row(x).clone()
            h[places(x)[:, None], index] = self.values(values)
            return h * 2

    class Lengths(nn.Module):
        """A mask of lengths that the model computes, and sums over what it leaves."""

        def __init__(self):
            super().__init__()
            self.body = nn.Linear(8, 8)

        def forward(self, x):
            lengths = (x[:, :, 0] > 0).long().sum(1).clamp(min=1)
            mask = torch.arange(x.shape[1])[None, :] < lengths[:, None]
            h = self.body(x).cumsum(1)
            return torch.where(mask[..., None], h, torch.zeros_like(h)).sum(1) / lengths[:, None]

    class GatheredExperts(nn.Module):
        """Each word takes the weights of its expert."""

        def __init__(self):
            super().__init__()
            self.gate, self.weight = nn.Linear(8, 4), nn.Parameter(torch.randn(4, 8, 3) * 0.3)

        def forward(self, x):
            best, index = self.gate(x).max(-1)
            return torch.einsum("btd,btdo->bto", x, self.weight[index]) * best.sigmoid()[..., None]

    class Letters(nn.Module):
        """An LSTM over the last states of another, and states made of the batch's size."""

        def __init__(self):
            super().__init__()
            self.letters, self.words, self.head = nn.LSTM(1, 4, batch_first=True), nn.LSTMCell(4, 7), nn.Linear(7, 2)

        def forward(self, x):
            batch, length, letters = x.shape
            words = self.letters(x.reshape(batch * length, letters, 1))[1][0][-1].view(batch, length, -1)
            state = torch.zeros(batch, 7), torch.zeros(batch, 7)
            for t in range(length):
                state = self.words(words[:, t], state)
            return self.head(state[0])

    class Corners(nn.Module):
        """Slices with steps, joined, flipped and rolled."""

        def __init__(self):
            super().__init__()
            self.body = nn.Conv2d(12, 6, 3)

        def forward(self, x):
            h = self.body(torch.cat([x[..., i::2, j::2] for i in (0, 1) for j in (0, 1)], 1))
            h = h[:, [0, 2, 4]] + h[:, -3:].flip(-1)
            return torch.roll(h, (1, -1), (2, 3)).unfold(2, 2, 1).flatten(1)

    class Products(nn.Module):
        """Einsums, one of them with a parameter twice."""

        def __init__(self):
            super().__init__()
            self.heads, self.square = nn.Parameter(torch.randn(2, 6, 4) * 0.4), nn.Parameter(torch.randn(4, 6) * 0.4)

        def forward(self, x):
            q, k = torch.einsum("bti,hio->bhto", x, self.heads), torch.einsum("...ti,io->...to", x, self.heads[0])
            weights = torch.einsum("bhto,bso->bhts", q, k).softmax(-1)
            trace = torch.einsum("bii->b", x[:, :6])[:, None, None]
            return torch.einsum("bhts,bsi->bti", weights, x) + torch.einsum("bti,oi,oj->btj", x, self.square, self.square) + trace

    class PerSample(nn.Module):
        def __init__(self):
            super().__init__()
            self.head, self.factors = nn.Linear(5, 3), nn.Parameter(torch.randn(10))

        def forward(self, x):
            return torch.stack([self.head((row * self.factors).view(2, 5)).sum(0) for row in x])

    class SortPool(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(8, 4)

        def forward(self, x):
            h = self.head(x)
            values, index = h[..., -1].sort(dim=1, descending=True)
            return h.gather(1, index[:, :3, None].expand(-1, -1, 4)).reshape(x.shape[0], -1) * values[:, :1]

    class Views(nn.Module):
        def __init__(self):
            super().__init__()
            self.head, self.mix = nn.Linear(12, 24), nn.Conv1d(4, 4, 3, padding=1, groups=2)

        def forward(self, x):
            h = self.mix(self.head(x).view(-1, 4, 6)).permute(2, 0, 1).reshape(6, -1).t().contiguous().view(x.size(0), 4, 6)
            h = torch.stack(h.chunk(2, dim=1), -1).flatten(-2).transpose(0, 1).reshape(2, -1, 3, 4)
            return h.permute(1, 3, 0, 2).reshape(len(x), -1).split([4, 20], 1)[1]

    class Beams(nn.Module):
        """Picks from batch times beams by places that it computes."""

        def __init__(self):
            super().__init__()
            self.head = nn.Linear(6, 5)

        def forward(self, x):
            batch, beams, _ = x.shape
            h = self.head(x)
            flat = h.reshape(batch * beams, -1)
            return flat[torch.arange(batch) * beams + h.sum(-1).argmax(-1)] + flat.view(batch, beams, -1)[:, 0]

    class HyperNetwork(nn.Module):
        """Each sample has weights of its own."""

        def __init__(self):
            super().__init__()
            self.weights = nn.Linear(3, 6 * 4 + 4)

        def forward(self, x, given):
            weight, bias = self.weights(given).split([24, 4], 1)
            return torch.baddbmm(bias[:, None].expand(-1, 2, -1), x, weight.view(-1, 6, 4), beta=0.5).abs().pow(1.5)

    return {
        "last_token": lambda: Head(8, 5, lambda h, index: h[places(h), index]),
        "several_tokens": lambda: Head(8, 5, lambda h, index: h[places(h)[:, None], index].relu().flatten(1)),
        "largest_token": LargestToken,
        "scatter_add": lambda: Head(8, 5, lambda h, index: torch.zeros(h.shape[0], 6, 5).scatter_add(1, index[..., None].expand(-1, -1, 5), h)),
        "index_put": Put, "lengths": Lengths, "gathered_experts": GatheredExperts, "letters": Letters, "corners": Corners,
        "products": Products, "per_sample": PerSample, "sort_pool": SortPool, "views": Views, "beams": Beams,
        "hyper_network": HyperNetwork,
    }  # fmt: skip


ROWS = noise(4, 6, 8)
INPUTS = {
    "last_token": {"x": ROWS, "chosen": np.array([5, 0, 3, 2])}, "several_tokens": {"x": ROWS, "chosen": np.array([[0, 5], [2, 2], [1, 4], [5, 3]])},
    "largest_token": tokens(7, name="x"), "scatter_add": {"x": ROWS, "chosen": np.arange(24).reshape(4, 6) * 5 % 6},
    "index_put": {"x": noise(4, 6), "values": noise(4, 3), "chosen": np.array([[0, 2, 4], [1, 3, 5], [5, 0, 2], [3, 1, 4]])},
    "lengths": {"x": noise(4, 5, 8)}, "gathered_experts": {"x": ROWS}, "letters": {"x": noise(4, 5, 6)}, "corners": {"x": noise(4, 3, 8, 8)},
    "products": {"x": noise(4, 9, 6)}, "per_sample": {"x": noise(4, 10)}, "sort_pool": {"x": ROWS}, "views": {"x": noise(4, 12)},
    "beams": {"x": noise(4, 3, 6)}, "hyper_network": {"x": noise(4, 2, 6), "given": noise(4, 3)},
}  # fmt: skip
ENTRIES = [Entry(f"odd/{name}", lambda name=name: modules()[name](), inputs) for name, inputs in INPUTS.items()]

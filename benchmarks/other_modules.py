"""Models made of torch.nn that stand for kinds of models: sound, pictures from noise, volumes, clicks, long texts.

Each function returns a module, its inputs and its targets.
"""

import torch
from torch import nn

WORDS = 8192


class Wave(nn.Module):
    """Gated convolutions along a sound, each with twice the distance of the one before (van den Oord et al., 2016)."""

    def __init__(self, width=64, layers=8, levels=256):
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.filters = nn.ModuleList(nn.Conv1d(width, width, 2, dilation=2**i) for i in range(layers))
        self.gates = nn.ModuleList(nn.Conv1d(width, width, 2, dilation=2**i) for i in range(layers))
        self.mixes = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))
        self.head = nn.Conv1d(width, levels, 1)

    def forward(self, x):
        x = self.first(x)
        for i, (values, gate, mix) in enumerate(zip(self.filters, self.gates, self.mixes)):
            seen = nn.functional.pad(x, (2**i, 0))
            x = x + mix(torch.tanh(values(seen)) * torch.sigmoid(gate(seen)))
        return self.head(torch.relu(x)).transpose(1, 2)


class Generator(nn.Module):
    """From a small image of many channels to a large one of few."""

    def __init__(self, widths=(256, 128, 64, 32), last=16):
        super().__init__()
        layers = []
        for before, after in zip(widths, widths[1:]):
            layers += [nn.ConvTranspose2d(before, after, 4, 2, 1), nn.BatchNorm2d(after), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.ConvTranspose2d(widths[-1], last, 4, 2, 1))

    def forward(self, x):
        return self.layers(x).permute(0, 2, 3, 1)


class SuperResolution(nn.Module):
    def __init__(self, width=64, blocks=6, last=16):
        super().__init__()

        def convolution(to):
            return nn.Conv2d(width, to, 3, padding=1)

        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(
            nn.Sequential(convolution(width), nn.PReLU(), nn.InstanceNorm2d(width, affine=True), convolution(width))
            for _ in range(blocks)
        )
        self.last, self.shuffle = convolution(4 * last), nn.PixelShuffle(2)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return self.shuffle(self.last(x)).permute(0, 2, 3, 1)


class Recommender(nn.Module):
    def __init__(self, features=26, values=10000, width=32):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(values, width) for _ in range(features))
        sizes = [features * width, 512, 256]
        layers = [layer for before, after in zip(sizes, sizes[1:]) for layer in (nn.Linear(before, after), nn.ReLU())]
        self.layers = nn.Sequential(*layers, nn.Linear(sizes[-1], 2))

    def forward(self, x):
        return self.layers(torch.cat([table(x[:, i]) for i, table in enumerate(self.tables)], 1))


class Volume(nn.Module):
    """A U-Net of three levels for volumes."""

    def __init__(self, width=16, classes=4):
        super().__init__()

        def level(before, after, stride=1):
            return nn.Sequential(nn.Conv3d(before, after, 3, stride, 1), nn.GroupNorm(4, after), nn.LeakyReLU())

        self.down = nn.ModuleList([level(1, width), level(width, 2 * width, 2), level(2 * width, 4 * width, 2)])
        self.rise = nn.ModuleList([nn.ConvTranspose3d(4 * width, 2 * width, 2, 2), nn.ConvTranspose3d(2 * width, width, 2, 2)])
        self.up = nn.ModuleList([level(4 * width, 2 * width), level(2 * width, width)])
        self.head = nn.Conv3d(width, classes, 1)

    def forward(self, x):
        skips = []
        for level in self.down:
            x = level(x)
            skips.append(x)
        for rise, level, skip in zip(self.rise, self.up, skips[-2::-1]):
            x = level(torch.cat([rise(x), skip], 1))
        return self.head(x).permute(0, 2, 3, 4, 1)


class Encoder(nn.Module):
    def __init__(self, width=256, layers=4):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.tokens = nn.Embedding(WORDS, width)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, WORDS)

    def forward(self, x):
        return self.head(self.layers(self.tokens(x)))


class Speech(nn.Module):
    def __init__(self, bands=80, width=256, sounds=64):
        super().__init__()
        first, second = nn.Conv1d(bands, width, 3, 2, 1), nn.Conv1d(width, width, 3, 2, 1)
        self.first = nn.Sequential(first, nn.GELU(), second, nn.GELU())
        self.position = nn.Conv1d(width, width, 15, padding=7, groups=width)
        self.layers = nn.GRU(width, width, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, sounds)

    def forward(self, x):
        x = self.first(x)
        x = x + self.position(x)
        return self.head(self.layers(x.transpose(1, 2))[0])


def wave():
    return Wave(), torch.randn(4, 1, 4096), torch.randint(0, 256, (4, 4096))


def generator():
    return Generator(), torch.randn(16, 256, 4, 4), torch.randint(0, 16, (16, 64, 64))


def super_resolution():
    return SuperResolution(), torch.randn(4, 3, 48, 48), torch.randint(0, 16, (4, 96, 96))


def recommender():
    return Recommender(), torch.randint(0, 10000, (256, 26)), torch.randint(0, 2, (256,))


def volume():
    return Volume(), torch.randn(1, 1, 32, 64, 64), torch.randint(0, 4, (1, 32, 64, 64))


def encoder():
    text = torch.randint(0, WORDS, (1, 1025))
    return Encoder(), text[:, :-1].contiguous(), text[:, 1:].contiguous()


def speech():
    return Speech(), torch.randn(4, 80, 400), torch.randint(0, 64, (4, 100))


MODELS = {
    "wave": wave, "generator": generator, "super_resolution": super_resolution, "recommender": recommender,
    "volume": volume, "encoder": encoder, "speech": speech,
}  # fmt: skip

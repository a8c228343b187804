"""Operators and small blocks of PyTorch, one module each, with the shape of their input."""

import torch
from torch import nn
from torch.nn import functional as F

IMAGES, ROWS, SMALL = (8, 64, 56, 56), (8, 256, 512), (8, 64, 256)
INDICES = torch.arange(300) * 37 % 256


class Operator(nn.Module):
    """A function, or a module, of what is trained: its gradient reaches the weight before it."""

    def __init__(self, shape, function, module=None):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(shape[1:]) + 0.5)
        self.module, self.function = module, function

    def forward(self, x):
        x = x * self.weight
        return self.function(x) if self.module is None else self.function(self.module, x)


def call(module, x):
    return module(x)


def first(module, x):
    return module(x)[0]


class Gated(nn.Module):
    """A gated convolution along a signal."""

    def __init__(self, distance):
        super().__init__()
        self.convolution = nn.Conv1d(64, 128, 3, padding=distance, dilation=distance)
        self.out = nn.Conv1d(64, 64, 1)

    def forward(self, x):
        a, b = self.convolution(x).chunk(2, 1)
        return x + self.out(torch.tanh(a) * torch.sigmoid(b))


class Several(nn.Module):
    """Convolutions of one signal with windows of several sizes."""

    def __init__(self):
        super().__init__()
        self.all = nn.ModuleList([nn.Conv1d(32, 32, size, padding=size // 2, bias=False) for size in (39, 19, 9)])

    def forward(self, x):
        return torch.cat([each(x) for each in self.all], 1)


def attention(x, causal):
    def heads(part):
        return part.unflatten(2, (8, -1)).transpose(1, 2)

    q, k, v = (heads(part) for part in x.chunk(3, -1))
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2).flatten(2)


def convolutions():
    shape = (4, 64, 56, 56)
    for size, groups, dilation, stride in (
        (1, 1, 1, 1), (3, 1, 1, 1), (3, 1, 2, 1), (5, 1, 1, 1), (7, 1, 1, 2), (3, 64, 1, 1), (7, 64, 1, 1), (13, 64, 1, 1), (31, 64, 1, 1),
        (3, 4, 1, 1), (3, 32, 1, 2), (5, 16, 1, 1),
    ):  # fmt: skip
        name = f"conv2d window {size} groups {groups} dilation {dilation} stride {stride}"
        yield name, shape, call, nn.Conv2d(64, 64, size, stride, dilation * (size // 2), dilation, groups)
    for channels, width, side in ((336, 24, 14), (240, 40, 28), (192, 12, 28), (888, 24, 7)):
        yield f"conv2d of {channels} channels in groups of {width}", (4, channels, side, side), call, nn.Conv2d(channels, channels, 3, 1, 1, groups=channels // width)
    yield "conv2d patches", (4, 3, 224, 224), call, nn.Conv2d(3, 384, 16, 16)
    yield "conv2d 50 to 70", (4, 50, 56, 56), call, nn.Conv2d(50, 70, 3, 1, 1)
    yield "conv1d window 3", (8, 128, 1024), call, nn.Conv1d(128, 128, 3, padding=1)
    yield "conv1d windows 39, 19, 9", (16, 32, 256), call, Several()
    yield "conv1d causal", (8, 32, 400), lambda m, x: m(F.pad(x, (14, 0))), nn.Conv1d(32, 32, 8, dilation=2)
    yield "conv1d gated", (4, 64, 2048), call, Gated(8)
    yield "conv1d of sound", (4, 1, 32000), call, nn.Conv1d(1, 128, 80, 16)
    yield "conv1d window 15 groups 256", (8, 256, 1024), call, nn.Conv1d(256, 256, 15, padding=7, groups=256)
    yield "conv1d window 128 groups 16", (2, 768, 200), call, nn.Conv1d(768, 768, 128, padding=64, groups=16)
    yield "conv3d", (2, 32, 16, 32, 32), call, nn.Conv3d(32, 32, 3, padding=1)
    yield "conv3d groups 32", (2, 32, 16, 32, 32), call, nn.Conv3d(32, 32, 3, padding=1, groups=32)
    for size, stride, groups in ((2, 2, 1), (4, 2, 1), (4, 2, 64), (16, 8, 64)):
        yield f"transposed window {size} groups {groups}", (4, 64, 28, 28), call, nn.ConvTranspose2d(64, 64, size, stride, size // 4, groups=groups)
    yield "transposed along a signal", (4, 256, 256), call, nn.ConvTranspose1d(256, 128, 16, 8, 4)


def norms():
    yield "batch norm", IMAGES, call, nn.BatchNorm2d(64)
    yield "layer norm", ROWS, call, nn.LayerNorm(512)
    yield "layer norm of channels", IMAGES, lambda m, x: m(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2), nn.LayerNorm(64)
    yield "RMS norm", ROWS, call, nn.RMSNorm(512)
    yield "group norm", IMAGES, call, nn.GroupNorm(8, 64)
    yield "instance norm", IMAGES, call, nn.InstanceNorm2d(64, affine=True)


def recurrences():
    for kind in ("LSTM", "GRU", "RNN"):
        yield kind, (32, 64, 64), first, getattr(nn, kind)(64, 64, batch_first=True)
        yield f"{kind} both ways", (8, 64, 256), first, getattr(nn, kind)(256, 256, batch_first=True, bidirectional=True)
    yield "LSTM of one sample", (1, 64, 512), first, nn.LSTM(512, 512, 2, batch_first=True)


def functions():
    for name in ("relu", "gelu", "silu", "elu", "mish", "softplus", "tanh", "sigmoid", "hardswish", "leaky_relu"):
        yield name, (8, 512, 512), getattr(F, name)
    for name in ("exp", "log", "sqrt", "sin", "erf", "sinh", "asinh", "log1p", "reciprocal"):
        yield name, (8, 256, 512), lambda x, name=name: getattr(torch, name)(x.abs() + 0.5)
    yield "softmax of rows", (8, 8, 128, 128), lambda x: x.softmax(-1)
    yield "softmax of columns", (8, 8, 128, 128), lambda x: x.softmax(-2)
    yield "softmax of channels", IMAGES, lambda x: x.softmax(1)
    yield "log softmax of 21 channels", (4, 21, 112, 112), lambda x: F.log_softmax(x, 1)
    for axes in ((0,), (1,), (3,), (2, 3), (0, 2, 3), (1, 3)):
        yield f"sum over {axes}", IMAGES, lambda x, axes=axes: x.sum(axes)
    for name in ("var", "amax", "logsumexp", "prod", "cumsum"):
        for axis in (-1, 1):
            yield f"{name} over {axis}", SMALL, lambda x, name=name, axis=axis: getattr(x, name)(axis)
    yield "sort", SMALL, lambda x: x.sort(-1)[0]
    yield "top 8", SMALL, lambda x: x.topk(8, -1)[0]


def moves():
    yield "channels last", IMAGES, lambda x: x.permute(0, 2, 3, 1).contiguous()
    yield "heads", (8, 64, 256, 64), lambda x: x.transpose(1, 2).contiguous()
    yield "transposition", (8, 64, 256, 64), lambda x: x.transpose(-1, -2).contiguous()
    yield "pixel shuffle", IMAGES, lambda x: F.pixel_shuffle(x, 4)
    yield "windows", IMAGES, lambda x: x.view(8, 64, 8, 7, 8, 7).permute(0, 2, 4, 3, 5, 1).reshape(-1, 49, 64)
    yield "concatenation", IMAGES, lambda x: torch.cat([x, x * 2, x + 1], 1)
    yield "roll", IMAGES, lambda x: torch.roll(x, (3, 3), (2, 3))
    yield "flip", IMAGES, lambda x: x.flip(-1)
    for mode in ("constant", "reflect", "replicate", "circular"):
        yield f"padding, {mode}", IMAGES, lambda x, mode=mode: F.pad(x, (3, 3, 3, 3), mode=mode)
    for mode in ("nearest", "bilinear"):
        yield f"twice as large, {mode}", IMAGES, lambda x, mode=mode: F.interpolate(x, scale_factor=2, mode=mode)
    yield "512 pixels of 256", (1, 64, 256, 256), lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")
    yield "four times as long", (8, 128, 512), lambda x: F.interpolate(x, scale_factor=4, mode="linear")
    yield "rows by index", ROWS, lambda x: x[:, INDICES]
    yield "columns by index", ROWS, lambda x: x[..., INDICES]
    yield "repetition", ROWS, lambda x: x.repeat_interleave(4, 1)
    yield "max pool", (4, 32, 112, 112), lambda x: F.max_pool2d(x, 3, 2, 1)
    yield "max pool along a signal", (8, 128, 4096), lambda x: F.max_pool1d(x, 2)
    yield "max pool of few channels", (64, 6, 28, 28), lambda x: F.max_pool2d(x, 2)
    yield "mean pool", IMAGES, lambda x: F.avg_pool2d(x, 3, 1, 1)


def products():
    yield "linear", ROWS, call, nn.Linear(512, 512)
    yield "linear of 16", (65536, 16), call, nn.Linear(16, 16)
    yield "linear to one", (8192, 512), call, nn.Linear(512, 1)
    yield "linear of one row", (1, 4096), call, nn.Linear(4096, 4096)
    yield "products of 128", (64, 128, 128), lambda x: x @ x.transpose(1, 2)
    yield "products of 16", (4096, 16, 16), lambda x: x @ x
    yield "products of 3", (65536, 3, 3), lambda x: x @ x
    yield "distances", (8, 128, 64), lambda x: torch.cdist(x, x * 0.5 + 1)
    yield "attention", (4, 256, 1536), lambda x: attention(x, causal=False)
    yield "causal attention", (4, 256, 1536), lambda x: attention(x, causal=True)
    yield "attention of windows", (64, 49, 288), lambda x: attention(x, causal=False)
    yield "encoder layer", (8, 128, 256), call, nn.TransformerEncoderLayer(256, 8, 1024, 0.0, batch_first=True)


def operators():
    """Yields name, module and input."""
    for family in (convolutions, norms, recurrences, functions, moves, products):
        for name, shape, function, *module in family():
            yield name, Operator(shape, function, *module), torch.randn(shape)

"""The models of the benchmarks, and their ONNX files in build/benchmarks.

    python benchmarks/models.py NAME...
"""

import importlib
import pathlib
import sys
import warnings

import torch
from torch import nn
from torchvision.models.mobilenetv2 import MobileNetV2
from torchvision.models.resnet import BasicBlock, Bottleneck, ResNet

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build" / "benchmarks"
sys.path.insert(0, str(ROOT / "test" / "models"))


def gpt_class(vocabulary, sequence, width, hidden, heads):
    """The decoder of test/models, whose sizes are constants of its module."""
    specification = importlib.util.find_spec("definitions.gpt")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    module.VOCABULARY, module.SEQUENCE = vocabulary, sequence
    module.WIDTH, module.HIDDEN, module.HEADS = width, hidden, heads
    return module.GPT


class Sample:
    """A model, a batch, its loss, and how to cut it into two halves."""

    def __init__(self, module, inputs, target, halves=None, loss="cross_entropy"):
        self.module, self.inputs, self.target, self.halves = module, inputs, target, halves
        self.loss_name = loss

    def take(self, batch):
        self.inputs, self.target = self.inputs[:batch], self.target[:batch]

    def half(self, rank):
        """Of the module in training mode, for a pipeline of two stages."""
        net = self.module.train()
        return self.halves(net, rank) if isinstance(self.halves, Halves) else self.halves[rank](net)

    def loss(self, output, target):
        if self.loss_name == "mse":
            return nn.functional.mse_loss(output.float(), target)
        return nn.functional.cross_entropy(output.flatten(0, -2).float(), target.flatten())


class GPTFirst(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.tokens, self.positions = net.tokens, net.positions
        self.blocks = net.blocks[: len(net.blocks) // 2]
        self.register_buffer("mask", net.mask)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x, self.mask)
        return x


class GPTSecond(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.blocks = net.blocks[len(net.blocks) // 2 :]
        self.ln, self.head = net.ln, net.head
        self.register_buffer("mask", net.mask)

    def forward(self, x):
        for block in self.blocks:
            x = block(x, self.mask)
        return self.head(self.ln(x))


class UNetFirst(nn.Module):
    """The way down; what is skipped goes to the other half too."""

    def __init__(self, net):
        super().__init__()
        self.downs = nn.ModuleList([net.down1, net.down2, net.down3])

    def forward(self, x):
        skips = []
        for down in self.downs:
            skips.append(down(x))
            x = nn.functional.max_pool2d(skips[-1], 2)
        # What goes through gloo has to be.
        return tuple(value.contiguous() for value in (x, *skips))


class ContiguousGradient(torch.autograd.Function):
    """What goes back through gloo has to be contiguous as well."""

    @staticmethod
    def forward(_, x):
        return x.view_as(x)

    @staticmethod
    def backward(_, gradient):
        return gradient.contiguous()


class UNetSecond(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.bottom, self.head = net.bottom, net.head
        self.ups = nn.ModuleList([net.up3, net.up2, net.up1])
        self.merges = nn.ModuleList([net.merge3, net.merge2, net.merge1])

    def forward(self, x, *skips):
        x, *skips = (ContiguousGradient.apply(value) for value in (x, *skips))
        x = self.bottom(x)
        for up, merge, skip in zip(self.ups, self.merges, reversed(skips)):
            x = merge(torch.cat([skip, up(x)], 1))
        return self.head(x)


class Halves:
    """How to cut a sequence of modules into two for torch.distributed.pipelining."""

    def __init__(self, parts):
        self.parts = parts

    def __call__(self, net, rank):
        parts = self.parts(net)
        # In the middle of the layers' weights would be as arbitrary.
        middle = len(parts) // 2
        return nn.Sequential(*(parts[:middle] if rank == 0 else parts[middle:]))


class Bert(nn.Module):
    """BERT-base's encoder (Devlin et al., arXiv 1810.04805) with a head for two classes, without dropout."""

    def __init__(self, vocabulary=30522, sequence=128, width=768, heads=12, layers=12):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(0.02 * torch.randn(sequence, width))
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0, activation="gelu", batch_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, 2)

    def forward(self, tokens):
        x = self.norm(self.tokens(tokens) + self.positions)
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0])


def resnet_parts(net):
    first = nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool)
    blocks = [block for layer in (net.layer1, net.layer2, net.layer3, net.layer4) for block in layer]
    return [first, *blocks, nn.Sequential(net.avgpool, nn.Flatten(1), net.fc)]


def images(net, parts=None, batch=8):
    return Sample(net, torch.randn(batch, 3, 224, 224), torch.randint(0, 1000, (batch,)), parts)


def unet_class(width):
    specification = importlib.util.find_spec("definitions.unet")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    module.WIDTH = width
    return module.UNet


def mlp():
    layers = [nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)]
    return Sample(nn.Sequential(*layers), torch.randn(32, 64), torch.randint(0, 10, (32,)), Halves(list))


def unet():
    image = torch.rand(8, 1, 128, 128)
    return Sample(unet_class(32)(), image, 1 - image, (UNetFirst, UNetSecond), loss="mse")


def gpt():
    net = gpt_class(8192, 128, 768, 3072, 12)(layers=6, tied=False)
    text = torch.randint(0, 8192, (4, 129))
    return Sample(net, text[:, :-1].contiguous(), text[:, 1:].contiguous(), (GPTFirst, GPTSecond))


def gpt2_small():
    net = gpt_class(50257, 1024, 768, 3072, 12)(layers=12, tied=True)
    text = torch.randint(0, 50257, (1, 1025))
    return Sample(net, text[:, :-1].contiguous(), text[:, 1:].contiguous())


def bert():
    return Sample(Bert(), torch.randint(0, 30522, (4, 128)), torch.randint(0, 2, (4,)))


MODELS = {
    "mlp": mlp,
    "resnet18": lambda: images(ResNet(BasicBlock, [2, 2, 2, 2]), Halves(resnet_parts)),
    "resnet50": lambda: images(ResNet(Bottleneck, [3, 4, 6, 3]), Halves(resnet_parts)),
    "mobilenetv2": lambda: images(MobileNetV2(dropout=0.0)),
    "unet": unet,
    "gpt": gpt,
    "bert": bert,
    "gpt2-small": gpt2_small,
}
# Weights beside the graph: a protobuf ends at 2 GiB.
LARGE = ("resnet50", "gpt", "bert", "gpt2-small")


def build(name):
    torch.manual_seed(0)
    if name not in MODELS:
        raise SystemExit(f"no model {name}")
    return MODELS[name]()


def export(name):
    """Writes NAME.onnx, with external data where it is large."""
    path = OUTPUT / f"{name}.onnx"
    if path.exists() and path.stat().st_mtime > pathlib.Path(__file__).stat().st_mtime:
        return path
    OUTPUT.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    sample = build(name)
    partial = OUTPUT / f"{name}.partial.onnx"
    torch.onnx.export(
        sample.module.train(), (sample.inputs,), str(partial), dynamo=False, opset_version=17,
        training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
        input_names=["input"], output_names=["logits"],
    )
    if name in LARGE:
        import onnx

        data = OUTPUT / f"{name}.bin"
        data.unlink(missing_ok=True)
        onnx.save(
            onnx.load(partial), partial, save_as_external_data=True, location=data.name, size_threshold=1024
        )
    partial.replace(path)
    return path


if __name__ == "__main__":
    for each in sys.argv[1:]:
        print(export(each))

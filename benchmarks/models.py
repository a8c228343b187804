"""The models of the benchmarks, and their ONNX files in build/benchmarks.

    python benchmarks/models.py NAME...
"""

import importlib
import pathlib
import sys
import warnings

import torch
from torch import nn
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
    """A model, a batch, and how to cut it into two halves."""

    def __init__(self, module, inputs, target, halves=None):
        self.module, self.inputs, self.target, self.halves = module, inputs, target, halves

    @staticmethod
    def loss(output, target):
        return nn.functional.cross_entropy(output.flatten(0, -2), target.flatten())


class ResNetFirst(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.layers = nn.Sequential(net.conv1, net.bn1, net.relu, net.maxpool, net.layer1, net.layer2)

    def forward(self, x):
        return self.layers(x)


class ResNetSecond(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.layers = nn.Sequential(net.layer3, net.layer4, net.avgpool, nn.Flatten(1), net.fc)

    def forward(self, x):
        return self.layers(x)


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


def build(name):
    torch.manual_seed(0)
    if name == "resnet18":
        net = ResNet(BasicBlock, [2, 2, 2, 2], num_classes=10)
        return Sample(
            net, torch.randn(8, 3, 64, 64), torch.randint(0, 10, (8,)), (ResNetFirst, ResNetSecond)
        )
    if name == "gpt":
        net = gpt_class(1024, 128, 256, 1024, 8)(layers=6, tied=False)
        text = torch.randint(0, 1024, (8, 129))
        return Sample(net, text[:, :-1].contiguous(), text[:, 1:].contiguous(), (GPTFirst, GPTSecond))
    if name == "resnet50":
        net = ResNet(Bottleneck, [3, 4, 6, 3], num_classes=1000)
        return Sample(net, torch.randn(4, 3, 224, 224), torch.randint(0, 1000, (4,)))
    if name == "gpt2-small":
        net = gpt_class(50257, 1024, 768, 3072, 12)(layers=12, tied=True)
        text = torch.randint(0, 50257, (1, 1025))
        return Sample(net, text[:, :-1].contiguous(), text[:, 1:].contiguous())
    raise SystemExit(f"no model {name}")


def export(name):
    """Writes NAME.onnx, with external data where it is large."""
    path = OUTPUT / f"{name}.onnx"
    if path.exists() and path.stat().st_mtime > pathlib.Path(__file__).stat().st_mtime:
        return path
    OUTPUT.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    sample = build(name)
    partial = OUTPUT / f"{name}.partial.onnx"
    large = name in ("resnet50", "gpt2-small")
    torch.onnx.export(
        sample.module.train(), (sample.inputs,), str(partial), dynamo=False, opset_version=17,
        training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
        input_names=["input"], output_names=["logits"],
    )
    if large:
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

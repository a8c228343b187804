"""torchvision's ResNet-18, all widths divided by eight, in training mode."""

import torch
from torch import nn
from torchvision.models.resnet import BasicBlock, ResNet

from .definition import Definition, cross_entropy_sum

NAME = "resnet18"
WIDTH = 8


class NarrowResNet18(ResNet):
    def __init__(self):
        super().__init__(BasicBlock, [2, 2, 2, 2], num_classes=10)
        self.inplanes = WIDTH
        self.conv1 = nn.Conv2d(3, WIDTH, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(WIDTH)
        self.layer1 = self._make_layer(BasicBlock, WIDTH, 2)
        self.layer2 = self._make_layer(BasicBlock, 2 * WIDTH, 2, stride=2)
        self.layer3 = self._make_layer(BasicBlock, 4 * WIDTH, 2, stride=2)
        self.layer4 = self._make_layer(BasicBlock, 8 * WIDTH, 2, stride=2)
        self.fc = nn.Linear(8 * WIDTH, 10)


def define(module, samples) -> Definition:
    return Definition(
        module,
        inputs={"image": torch.randn(samples, 3, 32, 32)},
        target=torch.randint(0, 10, (samples,)),
        output_name="logits",
        loss_sum=cross_entropy_sum,
        loss_weight=samples,
        # The dynamo exporter drops training_mode of BatchNormalization.
        exact_exporters=("torchscript",),
    )


def build() -> Definition:
    torch.manual_seed(3)
    definition = define(NarrowResNet18(), 8)
    # The last layers have one pixel: with fewer than eight samples in a
    # micro-batch, float32 is not enough for batch normalisation.
    definition.microbatches = 4
    definition.large_batch = define(definition.module, 32)
    return definition

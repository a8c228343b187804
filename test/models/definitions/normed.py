"""A small convolutional network with batch norms and no kinks."""

import torch
from torch import nn

from .definition import Definition, cross_entropy_sum

NAME = "normed"


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 12, 3, stride=2, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(12, momentum=0.3)
        self.conv3 = nn.Conv2d(12, 12, 3, stride=2, padding=1)
        self.bn3 = nn.BatchNorm2d(12)
        self.fc = nn.Linear(12 * 2 * 2, 10)

    def forward(self, image):
        x = torch.tanh(self.bn1(self.conv1(image)))
        x = torch.tanh(self.bn2(self.conv2(x)))
        x = torch.tanh(self.bn3(self.conv3(x)))
        return self.fc(torch.flatten(x, 1))


def build() -> Definition:
    torch.manual_seed(7)
    return Definition(
        Normed(),
        inputs={"image": torch.rand(32, 1, 8, 8)},
        target=torch.randint(0, 10, (32,)),
        output_name="logits",
        loss_sum=cross_entropy_sum,
        loss_weight=32,
        # The other one drops `training_mode`.
        exact_exporters=("torchscript",),
    )

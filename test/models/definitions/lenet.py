"""A small convolutional network for the 8x8 digits in test/models/digits."""

import torch
from torch import nn

from .definition import Definition, cross_entropy_sum

NAME = "lenet"


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding=1)
        self.fc1 = nn.Linear(16 * 2 * 2, 32)
        self.fc2 = nn.Linear(32, 10)

    def forward(self, image):
        x = nn.functional.max_pool2d(torch.relu(self.conv1(image)), 2)
        x = nn.functional.avg_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc2(torch.relu(self.fc1(torch.flatten(x, 1))))


def build() -> Definition:
    torch.manual_seed(2)
    return Definition(
        LeNet(),
        inputs={"image": torch.rand(32, 1, 8, 8)},
        target=torch.randint(0, 10, (32,)),
        output_name="logits",
        loss_sum=cross_entropy_sum,
        loss_weight=32,
    )

"""A small U-Net: three levels, long skip connections, two kinds of upsampling."""

import torch
from torch import nn

from .definition import Definition, squared_error_sum

NAME = "unet"
WIDTH = 4


class DoubleConv(nn.Sequential):
    def __init__(self, inputs, outputs):
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, padding=1),
            nn.ReLU(),
        )


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        w = WIDTH
        self.down1 = DoubleConv(1, w)
        self.down2 = DoubleConv(w, 2 * w)
        self.down3 = DoubleConv(2 * w, 4 * w)
        self.bottom = DoubleConv(4 * w, 8 * w)
        self.up3 = nn.ConvTranspose2d(8 * w, 4 * w, 2, stride=2)
        self.merge3 = DoubleConv(8 * w, 4 * w)
        self.up2 = nn.Sequential(
            nn.Upsample(scale_factor=2, mode="nearest"), nn.Conv2d(4 * w, 2 * w, 1)
        )
        self.merge2 = DoubleConv(4 * w, 2 * w)
        self.up1 = nn.ConvTranspose2d(2 * w, w, 2, stride=2)
        self.merge1 = DoubleConv(2 * w, w)
        self.head = nn.Conv2d(w, 1, 1)

    def forward(self, image):
        pool = nn.functional.max_pool2d
        skip1 = self.down1(image)
        skip2 = self.down2(pool(skip1, 2))
        skip3 = self.down3(pool(skip2, 2))
        x = self.bottom(pool(skip3, 2))
        x = self.merge3(torch.cat([skip3, self.up3(x)], 1))
        x = self.merge2(torch.cat([skip2, self.up2(x)], 1))
        x = self.merge1(torch.cat([skip1, self.up1(x)], 1))
        return self.head(x)


def build() -> Definition:
    torch.manual_seed(4)
    image = torch.rand(8, 1, 32, 32)
    return Definition(
        UNet(),
        inputs={"image": image},
        target=1 - image + 0.1 * torch.randn_like(image),
        output_name="prediction",
        loss_sum=squared_error_sum,
        loss_weight=image.numel(),
    )

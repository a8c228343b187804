"""Families of torchvision, with few layers and channels."""

import functools

from zoo.entry import Entry, image, noise


def resnet(block="BasicBlock", **options):
    from torchvision.models import resnet

    return resnet.ResNet(getattr(resnet, block), [1, 1, 1, 1], num_classes=10, **options)


def alexnet():
    import torch
    from torchvision.models import alexnet

    model = alexnet(num_classes=10, dropout=0.0)
    model.classifier = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(256 * 6 * 6, 10))
    return model


def vgg(batch_norm):
    import torch
    from torchvision.models import vgg

    layers = vgg.make_layers([8, "M", 16, "M", 32, 32, "M"], batch_norm=batch_norm)
    model = vgg.VGG(layers, num_classes=10, dropout=0.0)
    model.classifier = torch.nn.Linear(32 * 7 * 7, 10)
    return model


def densenet():
    from torchvision.models import DenseNet

    return DenseNet(growth_rate=8, block_config=(2, 2, 2, 2), num_init_features=16, num_classes=10)


def mobilenet_v2():
    from torchvision.models import MobileNetV2

    setting = [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 1, 2], [6, 64, 1, 2]]
    return MobileNetV2(num_classes=10, width_mult=0.5, inverted_residual_setting=setting, dropout=0.0)


def mobilenet_v3():
    from torchvision.models.mobilenetv3 import InvertedResidualConfig, MobileNetV3

    config = functools.partial(InvertedResidualConfig, width_mult=1.0)
    setting = [
        config(16, 3, 16, 16, True, "RE", 2, 1),
        config(16, 3, 32, 24, False, "RE", 1, 1),
        config(24, 5, 64, 32, True, "HS", 2, 1),
        config(32, 5, 64, 32, True, "HS", 1, 2),
    ]
    return MobileNetV3(setting, last_channel=64, num_classes=10, dropout=0.0)


def efficientnet(kind):
    from torchvision.models.efficientnet import EfficientNet, FusedMBConvConfig, MBConvConfig

    if kind == 1:
        setting = [MBConvConfig(1, 3, 1, 32, 16, 1), MBConvConfig(6, 3, 2, 16, 24, 2), MBConvConfig(6, 5, 2, 24, 40, 1)]
        return EfficientNet(setting, dropout=0.0, stochastic_depth_prob=0.0, num_classes=10)
    setting = [FusedMBConvConfig(1, 3, 1, 16, 16, 1), FusedMBConvConfig(4, 3, 2, 16, 24, 2), MBConvConfig(4, 3, 2, 24, 32, 1)]
    return EfficientNet(setting, dropout=0.0, stochastic_depth_prob=0.0, num_classes=10, last_channel=64)


def convnext():
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    return ConvNeXt([CNBlockConfig(16, 32, 1), CNBlockConfig(32, None, 1)], num_classes=10)


def shufflenet():
    from torchvision.models import ShuffleNetV2

    return ShuffleNetV2([2, 2, 2], [24, 16, 32, 64, 64], num_classes=10)


def squeezenet(version):
    from torchvision.models import SqueezeNet

    return SqueezeNet(version=version, num_classes=10, dropout=0.0)


def mnasnet():
    from torchvision.models import MNASNet

    return MNASNet(0.35, num_classes=10, dropout=0.0)


def googlenet():
    from torchvision.models import GoogLeNet

    return GoogLeNet(num_classes=10, aux_logits=False, init_weights=True, dropout=0.0)


def inception_v3():
    from torchvision.models import Inception3

    return Inception3(num_classes=10, aux_logits=False, init_weights=False, dropout=0.0)


def regnet(squeeze):
    from torchvision.models.regnet import BlockParams, RegNet

    parameters = BlockParams.from_init_params(depth=5, w_0=16, w_a=10.0, w_m=2.0, group_width=8, se_ratio=squeeze)
    return RegNet(parameters, num_classes=10)


def vit():
    from torchvision.models import VisionTransformer

    return VisionTransformer(image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=10)


def swin(version):
    from torchvision.models import swin_transformer
    from torchvision.models.swin_transformer import SwinTransformer

    options = {}
    if version == 2:
        options = {"block": swin_transformer.SwinTransformerBlockV2, "downsample_layer": swin_transformer.PatchMergingV2}
    return SwinTransformer([4, 4], 16, [2, 2], [2, 4], [4, 4], stochastic_depth_prob=0.0, num_classes=10, **options)


def maxvit():
    from torchvision.models import MaxVit

    return MaxVit((64, 64), 16, 4, [16, 32], [1, 1], 8, stochastic_depth_prob=0.0, num_classes=10)


def backbone(layer="layer4"):
    from torchvision.models._utils import IntermediateLayerGetter

    return IntermediateLayerGetter(resnet(), {layer: "out"})


def fcn():
    from torchvision.models.segmentation.fcn import FCN, FCNHead

    head = FCNHead(512, 5)
    head[3].p = 0.0
    return FCN(backbone(), head)


def deeplab():
    from torchvision.models.segmentation.deeplabv3 import DeepLabHead, DeepLabV3

    head = DeepLabHead(128, 5, (2, 4))
    head[0].project[3].p = 0.0
    return DeepLabV3(backbone("layer2"), head)


def lraspp():
    from torchvision.models._utils import IntermediateLayerGetter
    from torchvision.models.segmentation.lraspp import LRASPP

    return LRASPP(IntermediateLayerGetter(resnet(), {"layer1": "low", "layer3": "high"}), 64, 256, 5, inter_channels=16)


def feature_pyramid():
    import torch
    from torchvision.models._utils import IntermediateLayerGetter
    from torchvision.ops import FeaturePyramidNetwork

    body = IntermediateLayerGetter(resnet(), {"layer1": "a", "layer2": "b", "layer3": "c"})
    return torch.nn.Sequential(body, FeaturePyramidNetwork([64, 128, 256], 16))


def video_resnet(convolution):
    from torchvision.models.video import resnet as video

    stem = video.R2Plus1dStem if convolution == "Conv2Plus1D" else video.BasicStem
    return video.VideoResNet(video.BasicBlock, [getattr(video, convolution)] * 4, [1, 1, 1, 1], stem, num_classes=5)


def mvit():
    from torchvision.models.video.mvit import MSBlockConfig, MViT

    setting = [
        MSBlockConfig(2, 16, 32, [3, 3, 3], [3, 3, 3], [1, 1, 1], [1, 2, 2]),
        MSBlockConfig(4, 32, 32, [3, 3, 3], [3, 3, 3], [1, 2, 2], [1, 1, 1]),
    ]
    return MViT((32, 32), 4, setting, residual_pool=False, residual_with_cls_embed=True, rel_pos_embed=False, proj_after_attn=False, dropout=0.0, num_classes=5)


def swin3d():
    from torchvision.models.video import SwinTransformer3d

    return SwinTransformer3d([2, 4, 4], 16, [2, 2], [2, 4], [2, 4, 4], stochastic_depth_prob=0.0, num_classes=5)


def raft():
    import torch
    from torchvision.models.optical_flow import raft_small

    class Flow(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.raft = raft_small()

        def forward(self, first, second):
            # Between updates RAFT detaches its coordinates, of which files know nothing.
            return self.raft(first, second, num_flow_updates=1)[-1]

    return Flow()


def video(frames=4, size=32):
    return {"video": noise(4, 3, frames, size, size)}


def entry(name, build, *arguments, inputs=None, output=None, **options):
    build = functools.partial(build, *arguments, **options)
    return Entry(f"torchvision/{name}", build, inputs or image(), output)


ENTRIES = [
    entry("alexnet", alexnet),
    entry("vgg", vgg, False, inputs=image(32)),
    entry("vgg_bn", vgg, True, inputs=image(32)),
    entry("resnet", resnet),
    entry("resnet_bottleneck", resnet, "Bottleneck"),
    entry("wide_resnet", resnet, "Bottleneck", width_per_group=128),
    entry("resnext", resnet, "Bottleneck", groups=8, width_per_group=4),
    entry("densenet", densenet),
    entry("mobilenet_v2", mobilenet_v2),
    entry("mobilenet_v3", mobilenet_v3),
    entry("efficientnet", efficientnet, 1),
    entry("efficientnet_v2", efficientnet, 2),
    entry("convnext", convnext),
    entry("shufflenet_v2", shufflenet),
    entry("squeezenet", squeezenet, "1_0"),
    entry("squeezenet1_1", squeezenet, "1_1"),
    entry("mnasnet", mnasnet, inputs=image(seed=3)),
    entry("googlenet", googlenet),
    entry("inception_v3", inception_v3, inputs=image(107)),
    entry("regnet_x", regnet, None),
    entry("regnet_y", regnet, 0.25),
    entry("vit", vit, inputs=image(32)),
    entry("swin", swin, 1),
    entry("swin_v2", swin, 2),
    entry("maxvit", maxvit),
    entry("fcn", fcn, output="out"),
    entry("deeplabv3", deeplab, output="out"),
    entry("lraspp", lraspp, output="out"),
    entry("feature_pyramid", feature_pyramid, output="a"),
    entry("r3d", video_resnet, "Conv3DSimple", inputs=video()),
    entry("mc3", video_resnet, "Conv3DNoTemporal", inputs=video()),
    entry("r2plus1d", video_resnet, "Conv2Plus1D", inputs=video()),
    entry("mvit", mvit, inputs=video()),
    entry("swin3d", swin3d, inputs=video()),
    entry("raft", raft, inputs={"first": noise(2, 3, 128, 128), "second": noise(2, 3, 128, 128)[::-1].copy()}),
]

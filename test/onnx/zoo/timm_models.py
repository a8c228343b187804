"""Families of timm, with few layers and channels where they have such options."""

import functools

from zoo.entry import Entry, image


def create(name, **options):
    import timm

    return timm.create_model(name, num_classes=10, **options)


def create_class(path, **options):
    """A class of timm: its models fix what the class leaves open. `@NAME` is what the class's module knows by this name."""
    import timm

    module, _, name = path.partition(".")
    module = getattr(timm.models, module)

    def resolve(value):
        if isinstance(value, tuple):
            return tuple(resolve(each) for each in value)
        return getattr(module, value[1:]) if str(value).startswith("@") else value

    return getattr(module, name)(num_classes=10, **{key: resolve(value) for key, value in options.items()})


def entry(name, model, size=64, **options):
    return Entry(f"timm/{name}", functools.partial(create, model, **options), image(size))


def class_entry(name, path, size=64, **options):
    return Entry(f"timm/{name}", functools.partial(create_class, path, **options), image(size))


SHALLOW = {"layers": (1, 1, 1, 1)}
MIXER = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "num_blocks": 2}
VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2}
ENTRIES = [
    # Convolutions.
    entry("resnet_d", "resnet26d", **SHALLOW),
    entry("resnet_aa", "resnetaa50d", **SHALLOW),
    entry("seresnet", "seresnet50", **SHALLOW),
    entry("ecaresnet", "ecaresnet26t", **SHALLOW),
    entry("skresnet", "skresnet18", **SHALLOW),
    entry("res2net", "res2net50_26w_4s", **SHALLOW),
    entry("resnest", "resnest14d"),
    entry("resnetv2", "resnetv2_50", **SHALLOW),
    entry("resnetrs", "resnetrs50", **SHALLOW),
    entry("bot_resnet", "botnet26t_256", 128, img_size=128),
    entry("lambda_resnet", "lambda_resnet26t", 128, img_size=128),
    entry("densenet", "densenet121", growth_rate=8, block_config=(2, 2, 2, 2)),
    entry("dla", "dla46_c"),
    entry("dpn", "dpn48b"),
    entry("vovnet", "ese_vovnet19b_slim"),
    entry("hrnet", "hrnet_w18_small"),
    entry("darknet", "darknet17"),
    entry("efficientnet_lite", "efficientnet_lite0"),
    entry("mixnet", "mixnet_s"),
    entry("mobilenetv3", "mobilenetv3_small_050"),
    entry("mobilenetv4", "mobilenetv4_conv_small_050"),
    entry("fbnet", "fbnetc_100"),
    entry("lcnet", "lcnet_035"),
    entry("tinynet", "tinynet_e"),
    entry("ghostnet", "ghostnet_050", drop_rate=0.0),
    entry("repghostnet", "repghostnet_050", drop_rate=0.0),
    entry("mobileone", "mobileone_s0"),
    entry("repvgg", "repvgg_a0"),
    entry("repvit", "repvit_m0_9"),
    entry("regnet_z", "regnetz_b16"),
    entry("rexnet", "rexnetr_100", drop_rate=0.0),
    entry("nf_regnet", "nf_regnet_b0"),
    entry("nf_resnet", "nf_resnet26"),
    entry("hgnet", "hgnet_tiny"),
    entry("hgnetv2", "hgnetv2_b0"),
    entry("convnext", "convnext_atto", depths=(1, 1, 1, 1), dims=(16, 24, 32, 48)),
    entry("convnextv2", "convnextv2_atto", depths=(1, 1, 1, 1), dims=(16, 24, 32, 48)),
    class_entry("convmixer", "convmixer.ConvMixer", dim=32, depth=2),
    entry("inception_next", "inception_next_atto"),
    entry("starnet", "starnet_s1"),
    entry("fasternet", "fasternet_t0"),
    entry("mambaout", "mambaout_femto"),
    entry("edgenext", "edgenext_xx_small"),
    class_entry("focalnet", "focalnet.FocalNet", depths=(1, 1, 1, 1), embed_dim=16, drop_path_rate=0.0),
    # Attention.
    entry("vit", "vit_tiny_patch16_224", 32, **VIT),
    entry("vit_registers", "vit_medium_patch16_reg4_gap_256", 32, **VIT),
    entry("deit", "deit_tiny_distilled_patch16_224", 32, **VIT),
    entry("deit3", "deit3_small_patch16_224", 32, **VIT),
    entry("beit", "beit_base_patch16_224", 32, **VIT),
    entry("eva02", "eva02_tiny_patch14_224", 32, **VIT),
    entry("cait", "cait_xxs24_224", 32, **VIT),
    entry("xcit", "xcit_nano_12_p16_224", 32, **VIT),
    entry("convit", "convit_tiny", 32, **VIT),
    entry("crossvit", "crossvit_tiny_240", 240),
    entry("coat", "coat_lite_tiny", 64, img_size=64),
    entry("coatnet", "coatnet_nano_rw_224", 64, img_size=64),
    entry("maxvit", "maxvit_rmlp_pico_rw_256", 64, img_size=64),
    entry("swin", "swin_tiny_patch4_window7_224", 64, img_size=64, window_size=4, depths=(2, 2), embed_dim=16, num_heads=(2, 4)),
    entry("swinv2", "swinv2_tiny_window8_256", 64, img_size=64, window_size=4, depths=(2, 2), embed_dim=16, num_heads=(2, 4)),
    entry("twins", "twins_svt_small", 64, img_size=64),
    entry("pvt_v2", "pvt_v2_b0", 64),
    entry("pit", "pit_ti_224", 64, img_size=64),
    entry("levit", "levit_128s", 64, img_size=64),
    entry("efficientformer", "efficientformer_l1", 224),
    entry("efficientformerv2", "efficientformerv2_s0", 64, img_size=64),
    entry("mobilevit", "mobilevit_xxs"),
    entry("mobilevitv2", "mobilevitv2_050"),
    entry("efficientvit", "efficientvit_b0"),
    entry("fastvit", "fastvit_t8"),
    entry("gcvit", "gcvit_xxtiny", 64, img_size=64),
    entry("davit", "davit_tiny", 64, depths=(1, 1, 1, 1), embed_dims=(16, 32, 48, 64), num_heads=(2, 2, 2, 2), window_size=4),
    entry("hiera", "hiera_tiny_224", 64, img_size=64, embed_dim=16, stages=(1, 1, 1, 1)),
    entry("tnt", "tnt_s_patch16_224", 32, img_size=32, embed_dim=32, inner_dim=16, depth=2, num_heads_inner=2, num_heads_outer=2),
    class_entry("volo", "volo.VOLO", 64, img_size=64, layers=(1, 1, 1, 1), embed_dims=(24, 48, 48, 48), num_heads=(2, 4, 4, 4)),
    entry("visformer", "visformer_tiny", 64, img_size=64),
    entry("tiny_vit", "tiny_vit_5m_224", 224),
    entry("nest", "nest_tiny", 64, img_size=64, drop_path_rate=0.0),
    entry("nextvit", "nextvit_small", 64, drop_path_rate=0.0),
    entry("shvit", "shvit_s1", 64),
    class_entry("poolformer", "metaformer.MetaFormer", depths=(1, 1, 1, 1), dims=(16, 32, 48, 64), token_mixers="@Pooling"),
    class_entry("convformer", "metaformer.MetaFormer", depths=(1, 1, 1, 1), dims=(16, 32, 48, 64), token_mixers="@SepConv"),
    class_entry(
        "attention_former", "metaformer.MetaFormer", depths=(1, 1), dims=(32, 64), token_mixers=("@SepConv", "@Attention"),
        norm_layers=("@LayerNorm2dNoBias", "@LayerNormNoBias"),
    ),
    # Neither.
    class_entry("mixer", "mlp_mixer.MlpMixer", 32, **MIXER),
    class_entry("resmlp", "mlp_mixer.MlpMixer", 32, **MIXER, mlp_ratio=4, block_layer="@ResBlock", norm_layer="@Affine"),
    class_entry("gmlp", "mlp_mixer.MlpMixer", 32, **MIXER, mlp_ratio=6, block_layer="@SpatialGatingBlock", mlp_layer="@GatedMlp"),
    entry("sequencer", "sequencer2d_s", 56, img_size=56),
]

"""Families of transformers, made from small configurations, with the attention that they have by default.

Not text alone: images and speech are here too.
"""

import functools

from zoo.entry import Entry, image, mask, noise, tokens

# Names of the same thing in the configurations.
SMALL = {
    "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "max_position_embeddings": 64, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "attention_dropout": 0.0,
    "hidden_dropout": 0.0, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}
GROUPED = {**SMALL, "num_key_value_heads": 2}
# Of encoders and decoders.
PAIR = {
    "vocab_size": 64, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64, "dropout": 0.0, "attention_dropout": 0.0,
    "activation_dropout": 0.0, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
T5 = {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0}
GPT2 = {
    "vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
    "bos_token_id": 1, "eos_token_id": 2,
}
PATCHES = {**SMALL, "image_size": 32, "patch_size": 8}
SPEECH = {
    **SMALL, "conv_dim": (16, 16, 16), "conv_kernel": (10, 3, 3), "conv_stride": (5, 2, 2), "num_feat_extract_layers": 3, "activation_dropout": 0.0,
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "feat_proj_dropout": 0.0, "layerdrop": 0.0, "final_dropout": 0.0,
    "mask_time_prob": 0.0, "mask_feature_prob": 0.0,
}
STAGES = {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 24, 32, 40], "num_labels": 5}


pixels = functools.partial(image, name="pixel_values")


def create(model, config, **settings):
    import transformers

    return getattr(transformers, model)(getattr(transformers, config)(**settings))


def entry(name, model, settings, inputs, output=None, config=None, options=None, **more):
    """`model` without the name of the task is that of the configuration."""
    family, _, task = model.partition("/")
    build = functools.partial(create, family + task, config or f"{family}Config", **{**settings, **more})
    if output is None:
        output = "last_hidden_state" if task in ("Model", "EncoderModel") else "logits"
    return Entry(f"transformers/{name}", build, inputs, output, options or {})


def decoder(name, family, settings=GROUPED, **more):
    """A language model that sees the words so far."""
    return entry(name, f"{family}/ForCausalLM", settings, {**tokens(), **mask()}, options={"use_cache": False}, **more)


MASKED = {**tokens(), **mask()}
SEQUENCES = {**tokens(), **tokens(name="decoder_input_ids", length=12, seed=1)}
UNCACHED = {"use_cache": False}
ENTRIES = [
    # Encoders.
    entry("bert", "Bert/ForMaskedLM", SMALL, MASKED),
    entry("bert_classifier", "Bert/ForSequenceClassification", SMALL, MASKED),
    entry("bert_unmasked", "Bert/Model", SMALL, tokens()),
    entry("distilbert", "DistilBert/ForMaskedLM", {"vocab_size": 64, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 64, "dropout": 0.0, "attention_dropout": 0.0}, MASKED),
    entry("roberta", "Roberta/ForMaskedLM", SMALL, MASKED),
    entry("xlm_roberta", "XLMRoberta/ForTokenClassification", SMALL, MASKED, classifier_dropout=0.0),
    entry("camembert", "Camembert/ForMaskedLM", SMALL, MASKED),
    entry("electra", "Electra/ForPreTraining", SMALL, MASKED, embedding_size=16),
    entry("albert", "Albert/ForMaskedLM", SMALL, MASKED, embedding_size=16, classifier_dropout_prob=0.0),
    entry("mpnet", "MPNet/ForMaskedLM", SMALL, MASKED),
    entry("deberta", "Deberta/ForMaskedLM", SMALL, MASKED, relative_attention=True, pos_att_type=["c2p", "p2c"]),
    entry("deberta_v2", "DebertaV2/ForMaskedLM", SMALL, MASKED, relative_attention=True, pos_att_type=["c2p", "p2c"]),
    entry("squeezebert", "SqueezeBert/ForMaskedLM", SMALL, MASKED, embedding_size=32),
    entry("mobilebert", "MobileBert/ForMaskedLM", SMALL, MASKED, embedding_size=16, intra_bottleneck_size=32),
    entry("modernbert", "ModernBert/ForMaskedLM", SMALL, MASKED),
    entry("xlnet", "XLNet/LMHeadModel", {"vocab_size": 64, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64, "dropout": 0.0}, MASKED, output="logits"),
    entry("funnel", "Funnel/Model", {"vocab_size": 64, "d_model": 32, "d_head": 8, "n_head": 4, "d_inner": 64, "block_sizes": [1, 1], "hidden_dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}, MASKED),
    entry("fnet", "FNet/ForMaskedLM", SMALL, tokens()),
    entry("convbert", "ConvBert/ForMaskedLM", SMALL, MASKED, embedding_size=32),
    entry("roformer", "RoFormer/ForMaskedLM", SMALL, MASKED, embedding_size=32),
    entry("esm", "Esm/ForMaskedLM", SMALL, MASKED, position_embedding_type="rotary", mask_token_id=4),
    entry("longformer", "Longformer/ForMaskedLM", SMALL, MASKED, attention_window=8),
    entry("ernie", "Ernie/ForMaskedLM", SMALL, MASKED),
    entry("megatron_bert", "MegatronBert/ForMaskedLM", SMALL, MASKED),
    entry("layoutlm", "LayoutLM/ForMaskedLM", SMALL, MASKED),
    entry("canine", "Canine/Model", SMALL, tokens(length=64), max_position_embeddings=128, local_transformer_stride=16),
    # Decoders.
    entry("gpt2", "GPT2/LMHeadModel", GPT2, MASKED, output="logits", options=UNCACHED),
    entry("gpt2_classifier", "GPT2/ForSequenceClassification", GPT2, MASKED, options=UNCACHED, pad_token_id=0),
    decoder("gpt_neo", "GPTNeo", {"vocab_size": 64, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 64, "window_size": 8, "embed_dropout": 0.0, "resid_dropout": 0.0, "attention_dropout": 0.0}),
    decoder("gpt_neox", "GPTNeoX", SMALL),
    decoder("gptj", "GPTJ", GPT2, rotary_dim=4),
    decoder("gpt_bigcode", "GPTBigCode", GPT2),
    decoder("codegen", "CodeGen", GPT2, rotary_dim=4),
    decoder("opt", "OPT", SMALL, ffn_dim=64, word_embed_proj_dim=32, dropout=0.0),
    decoder("bloom", "Bloom", {"vocab_size": 64, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    decoder("falcon", "Falcon", SMALL),
    decoder("llama", "Llama"),
    decoder("mistral", "Mistral", sliding_window=8),
    decoder("qwen2", "Qwen2"),
    decoder("qwen3", "Qwen3", head_dim=8),
    decoder("gemma", "Gemma", head_dim=8),
    decoder("gemma2", "Gemma2", head_dim=8, sliding_window=8),
    decoder("gemma3", "Gemma3", config="Gemma3TextConfig", head_dim=8, sliding_window=8),
    decoder("phi", "Phi", resid_pdrop=0.0, embd_pdrop=0.0),
    decoder("phi3", "Phi3", resid_pdrop=0.0, embd_pdrop=0.0),
    decoder("stablelm", "StableLm"),
    decoder("starcoder2", "Starcoder2", embedding_dropout=0.0, residual_dropout=0.0),
    decoder("olmo", "Olmo"),
    decoder("olmo2", "Olmo2"),
    decoder("cohere", "Cohere"),
    decoder("granite", "Granite"),
    decoder("smollm3", "SmolLM3"),
    decoder("glm", "Glm", head_dim=8),
    decoder("nemotron", "Nemotron"),
    decoder("mixtral", "Mixtral", num_local_experts=4),
    decoder("qwen2_moe", "Qwen2Moe", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=32),
    entry("mamba", "Mamba/ForCausalLM", {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}, tokens(length=8), options=UNCACHED),
    # Encoders with decoders.
    entry("t5", "T5/ForConditionalGeneration", T5, SEQUENCES, options=UNCACHED, decoder_start_token_id=0),
    entry("t5_encoder", "T5/EncoderModel", T5, MASKED),
    entry("mt5", "MT5/ForConditionalGeneration", T5, SEQUENCES, options=UNCACHED, decoder_start_token_id=0),
    entry("bart", "Bart/ForConditionalGeneration", PAIR, SEQUENCES, options=UNCACHED),
    entry("mbart", "MBart/ForConditionalGeneration", PAIR, SEQUENCES, options=UNCACHED),
    entry("pegasus", "Pegasus/ForConditionalGeneration", PAIR, SEQUENCES, options=UNCACHED),
    entry("marian", "Marian/MTModel", PAIR, SEQUENCES, output="logits", options=UNCACHED),
    entry("blenderbot", "Blenderbot/ForConditionalGeneration", PAIR, SEQUENCES, options=UNCACHED),
    entry("m2m_100", "M2M100/ForConditionalGeneration", PAIR, SEQUENCES, options=UNCACHED),
    # Speech.
    entry("whisper", "Whisper/ForConditionalGeneration", PAIR, {"input_features": noise(4, 16, 40), **tokens(name="decoder_input_ids", length=12)}, options=UNCACHED, num_mel_bins=16, max_source_positions=20, max_target_positions=64),
    entry("wav2vec2", "Wav2Vec2/ForCTC", SPEECH, {"input_values": noise(4, 1000)}),
    entry("hubert", "Hubert/Model", SPEECH, {"input_values": noise(4, 1000)}),
    entry("audio_spectrogram", "AST/ForAudioClassification", SMALL, {"input_values": noise(4, 32, 16)}, max_length=32, num_mel_bins=16, patch_size=8, frequency_stride=8, time_stride=8),
    # Images.
    entry("vit", "ViT/ForImageClassification", PATCHES, pixels(32)),
    entry("deit", "DeiT/ForImageClassification", PATCHES, pixels(32)),
    entry("beit", "Beit/ForImageClassification", PATCHES, pixels(32), use_relative_position_bias=True),
    entry("dinov2", "Dinov2/ForImageClassification", PATCHES, pixels(32)),
    entry("ijepa", "IJepa/ForImageClassification", PATCHES, pixels(32)),
    entry("swin", "Swin/ForImageClassification", {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4, "drop_path_rate": 0.0, "hidden_dropout_prob": 0.0}, pixels(32)),
    entry("convnext", "ConvNext/ForImageClassification", STAGES, pixels()),
    entry("convnextv2", "ConvNextV2/ForImageClassification", STAGES, pixels()),
    entry("resnet", "ResNet/ForImageClassification", {"depths": [1, 1], "hidden_sizes": [16, 32], "embedding_size": 16, "layer_type": "basic"}, pixels()),
    entry("regnet", "RegNet/ForImageClassification", {"depths": [1, 1], "hidden_sizes": [16, 32], "embedding_size": 16, "groups_width": 8}, pixels()),
    entry("poolformer", "PoolFormer/ForImageClassification", {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 24, 32, 40]}, pixels()),
    entry("segformer", "Segformer/ForSemanticSegmentation", {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32], "num_attention_heads": [1, 2, 2, 4], "decoder_hidden_size": 16, "drop_path_rate": 0.0, "classifier_dropout_prob": 0.0}, pixels()),
    entry("mobilevit", "MobileViT/ForImageClassification", {"hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 16, 16, 24, 32, 48], "image_size": 64, "hidden_dropout_prob": 0.0, "classifier_dropout_prob": 0.0}, pixels()),
    entry("levit", "Levit/ForImageClassification", {"image_size": 64, "hidden_sizes": [16, 24, 32], "num_attention_heads": [2, 2, 2], "depths": [1, 1, 1], "key_dim": [8, 8, 8], "drop_path_rate": 0}, pixels()),
    entry("pvt", "Pvt/ForImageClassification", {"image_size": 64, "depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32], "num_attention_heads": [1, 2, 2, 4]}, pixels()),
    entry("yolos", "Yolos/ForObjectDetection", PATCHES, pixels(32), image_size=[32, 32], num_detection_tokens=5),
    entry("vitmae", "ViTMAE/ForPreTraining", PATCHES, {**pixels(32), "noise": noise(4, 16)}, decoder_hidden_size=16, decoder_num_hidden_layers=1, decoder_num_attention_heads=2, decoder_intermediate_size=32),
    # Both.
    entry("clip_text", "CLIPText/Model", SMALL, MASKED),
    entry("clip_vision", "CLIPVision/Model", PATCHES, pixels(32)),
    entry("siglip_vision", "SiglipVision/Model", PATCHES, pixels(32)),
    entry("vilt", "Vilt/Model", PATCHES, {**tokens(), **mask(), **pixels(32)}),
    # Neither.
    entry("perceiver", "Perceiver/Model", {"num_latents": 8, "d_latents": 16, "d_model": 12, "num_blocks": 1, "num_self_attends_per_block": 2, "num_self_attention_heads": 2, "num_cross_attention_heads": 2, "attention_probs_dropout_prob": 0.0}, {"inputs": noise(4, 10, 12)}),
    entry("patchtst", "PatchTST/ForPrediction", {"num_input_channels": 2, "context_length": 32, "patch_length": 8, "patch_stride": 8, "d_model": 16, "num_attention_heads": 2, "num_hidden_layers": 2, "ffn_dim": 32, "prediction_length": 4, "attention_dropout": 0.0, "ff_dropout": 0.0, "head_dropout": 0.0, "loss": "mse"}, {"past_values": noise(4, 32, 2)}, output="prediction_outputs"),
    entry("decision_transformer", "DecisionTransformer/Model", {**GPT2, "state_dim": 5, "act_dim": 3, "hidden_size": 32, "max_ep_len": 20}, {"states": noise(4, 6, 5), "actions": noise(4, 6, 3), "returns_to_go": noise(4, 6, 1), **tokens(6, 19, name="timesteps"), **mask(6)}, output="action_preds"),
]

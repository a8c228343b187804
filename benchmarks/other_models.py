#!/usr/bin/env python3
"""A training step of models that the other benchmarks do not have, on one core or several.

Models of timm, transformers and torch.nn as they are, with random weights, from PyTorch's default exporter; as
pp-compile makes them without further flags (but --threads-per-stage, with --cores) against PyTorch, eager and
with channels last. Both sides have the same cores, take turns, and count with the fastest of their medians.
"""

import argparse
import contextlib
import functools
import json
import pathlib
import statistics
import subprocess
import sys
import time
import warnings

import torch
from torch import nn

import other_modules
import vs_pytorch

LEARNING_RATE, MOMENTUM = vs_pytorch.LEARNING_RATE, vs_pytorch.MOMENTUM
OUTPUT = vs_pytorch.OUTPUT / "other"
WORDS, TOKENS = other_modules.WORDS, 128


class Recurrent(nn.Module):
    """A language model of two layers."""

    def __init__(self, kind, width=512):
        super().__init__()
        self.tokens = nn.Embedding(WORDS, width)
        self.layers = getattr(nn, kind)(width, width, 2, batch_first=True)
        self.head = nn.Linear(width, WORDS)

    def forward(self, tokens):
        return self.head(self.layers(self.tokens(tokens))[0])


class Logits(nn.Module):
    """A model of transformers with tensors alone."""

    def __init__(self, module, **flags):
        super().__init__()
        self.module, self.flags = module, flags

    def forward(self, tokens):
        return self.module(tokens, **self.flags).logits


def images(name, batch, size=224):
    import timm

    return timm.create_model(name), torch.randn(batch, 3, size, size), torch.randint(0, 1000, (batch,))


def pictures(name, batch, **flags):
    import torchvision

    make = getattr(torchvision.models, name)
    return make(**flags), torch.randn(batch, 3, 224, 224), torch.randint(0, 1000, (batch,))


def video(batch):
    import torchvision

    return torchvision.models.video.r3d_18(), torch.randn(batch, 3, 8, 112, 112), torch.randint(0, 400, (batch,))


def words(make, batch):
    text = torch.randint(0, WORDS, (batch, TOKENS + 1))
    return make(), text[:, :-1].contiguous(), text[:, 1:].contiguous()


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 4}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 4}
    return Logits(LlamaForCausalLM(LlamaConfig(vocab_size=WORDS, **sizes, **heads)), use_cache=False)


def distilbert():
    from transformers import DistilBertConfig, DistilBertForMaskedLM

    sizes = {"dim": 512, "hidden_dim": 2048, "n_layers": 4, "n_heads": 8, "dropout": 0.0, "attention_dropout": 0.0}
    return Logits(DistilBertForMaskedLM(DistilBertConfig(vocab_size=WORDS, **sizes)))


IMAGES = {
    "efficientnet_b0": 8, "mobilenetv3_large_100": 8, "mnasnet_100": 8, "ghostnetv2_100": 8, "regnety_004": 8, "resnext50_32x4d": 4,
    "densenet121": 4, "nf_regnet_b0": 4, "convnext_tiny": 2, "vit_base_patch16_224": 2, "swin_tiny_patch4_window7_224": 2,
    "mixer_s32_224": 8, "resmlp_12_224": 4, "coatnet_pico_rw_224": 2, "edgenext_xx_small": 4,
    "lcnet_050": 8, "tf_mixnet_s": 4, "levit_128s": 4, "resnetv2_50": 2, "res2net50_26w_4s": 2, "hrnet_w18_small": 2,
    "efficientnetv2_rw_t": 2, "convmixer_768_32": 1, "poolformer_s12": 2, "xcit_nano_12_p16_224": 2, "gmlp_s16_224": 2,
}  # fmt: skip
MODELS = {name: functools.partial(images, name, batch) for name, batch in IMAGES.items()} | {
    "mobilevit_xxs": functools.partial(images, "mobilevit_xxs", 4, 256),
    "lstm": functools.partial(words, functools.partial(Recurrent, "LSTM"), 8),
    "gru": functools.partial(words, functools.partial(Recurrent, "GRU"), 8),
    "llama": functools.partial(words, llama, 2),
    "distilbert": functools.partial(words, distilbert, 4),
    "vgg11": functools.partial(pictures, "vgg11", 2, dropout=0.0),
    "squeezenet1_1": functools.partial(pictures, "squeezenet1_1", 8, dropout=0.0),
    "shufflenet_v2_x1_0": functools.partial(pictures, "shufflenet_v2_x1_0", 8),
    "googlenet": functools.partial(pictures, "googlenet", 4, aux_logits=False, dropout=0.0, init_weights=False),
    "r3d_18": functools.partial(video, 2),
    **other_modules.MODELS,
}


def compile_(arguments, name, module, inputs):
    """Returns the program."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    path = OUTPUT / f"{name}.onnx"
    if not path.exists():
        torch.onnx.export(
            module, (inputs,), str(path), dynamo=True, optimize=False, input_names=["input"], output_names=["logits"],
            external_data=True, verbose=False,
        )  # fmt: skip
    program = OUTPUT / f"{name}-{arguments.precision}-{arguments.cores}"
    flags = [f"--threads-per-stage={arguments.cores}", "--loss=cross_entropy", "--optimizer=sgd", f"--learning-rate={LEARNING_RATE}", f"--momentum={MOMENTUM}"]
    command = [pathlib.Path(arguments.build) / "bin" / "pp-compile", path, *flags, f"--precision={arguments.precision}", "-o", program]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-600:])
    return program


def ours(arguments, program, steps):
    command = ["taskset", "-c", f"0-{arguments.cores - 1}", program, "bench", "--json", "--steps", str(steps), "--warmup", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-600:])
    return json.loads(done.stdout)["median_step_seconds"]


def stepper(arguments, module, inputs, target):
    """A function that does a step of PyTorch's."""
    optimizer = torch.optim.SGD(module.parameters(), LEARNING_RATE, MOMENTUM)
    is_short = arguments.precision == "bf16"

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16) if is_short else contextlib.nullcontext():
            output = module(inputs)
        nn.functional.cross_entropy(output.flatten(0, -2).float(), target.flatten()).backward()
        optimizer.step()

    return step


def theirs(step, steps):
    times = []
    for _ in range(steps + 1):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def measure(arguments, name):
    torch.manual_seed(0)
    module, inputs, target = MODELS[name]()
    module.train()
    program = compile_(arguments, name, module, inputs)
    contenders = {"pp-mlir": lambda steps: ours(arguments, program, steps)}

    def add(label, contender, x):
        step = stepper(arguments, contender, x, target)
        contenders[label] = lambda steps: theirs(step, steps)

    add("eager", module, inputs)
    if inputs.dim() == 4:
        last = MODELS[name]()[0].train().to(memory_format=torch.channels_last)
        add("channels last", last, inputs.contiguous(memory_format=torch.channels_last))
    for contender in contenders.values():
        contender(1)
    rounds = [{label: contender(arguments.steps) for label, contender in contenders.items()} for _ in range(arguments.rounds)]
    return {label: statistics.median(turn[label] for turn in rounds) for label in contenders}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=vs_pytorch.ROOT / "build" / "release")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3, help="of a turn")
    parser.add_argument("--precision", default="f32", choices=["f32", "bf16"])
    parser.add_argument("--cores", type=int, default=1, help="threads of either side")
    parser.add_argument("models", nargs="*", help=f"of {', '.join(MODELS)}; all without one")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.models if name not in MODELS]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; see --help")
    warnings.filterwarnings("ignore")
    torch.set_num_threads(arguments.cores)
    print(f"{arguments.cores} cores of {vs_pytorch.processor()}, PyTorch {torch.__version__}, {arguments.precision}; ms")
    for name in arguments.models or MODELS:
        try:
            times = measure(arguments, name)
        except RuntimeError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        best = min(value for label, value in times.items() if label != "pp-mlir")
        listed = ", ".join(f"{label} {1e3 * value:.1f}" for label, value in times.items())
        print(f"{name:<30} {best / times['pp-mlir']:5.2f} x  ({listed})", flush=True)


if __name__ == "__main__":
    main()

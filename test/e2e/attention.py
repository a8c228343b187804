#!/usr/bin/env python3
"""Attention as one kernel: the numbers of PyTorch and of the products around a softmax.

On the processor in f32, where it is asked for: outputs, gradients and weights
after 5 steps as against_pytorch compares them, and the same bits for every
number of stages. On the mock device in bf16 and f16, where it is the default:
losses and gradients like those of PyTorch and of a program without it, and
smaller residuals, since no matrix of scores is kept.
"""

import numpy as np

import against_pytorch
import common
import mixed_precision
from common import relative_error

MODELS_USED = ("gpt", "gpt_tied")
# Model, exporter, optimizer.
CASES = (
    ("gpt", "torchscript", "sgd"), ("gpt", "dynamo", "adamw"), ("gpt", "torchscript.dynamic", "sgd"),
    ("gpt", "dynamo.dynamic", "sgd"), ("gpt_tied", "torchscript", "adamw"), ("gpt_tied", "dynamo", "sgd"),
    ("padded", "torchscript", "sgd"), ("padded", "torchscript", "adamw"),
)
STEPS = 3


def kinds(binary, mode="train"):
    """The kinds of attention among a program's library kernels."""
    found = [kernel["descriptor"].split()[0] for stage in binary.plan(mode)["stages"] for kernel in stage["kernels"]]
    return {kind for kind in found if kind.startswith("attention")}


def check_kinds(checks, where, binary, expected):
    training = {"attention_forward", "attention_backward"} if expected else set()
    checks.equal(kinds(binary), training, f"{where}: attention of the training program")
    inference = {"attention_forward"} if expected else set()
    checks.equal(kinds(binary, "infer"), inference, f"{where}: attention of the inference program")


def check_stages(context, checks, model, exporter, optimizer, **options):
    """Losses and snapshots for 1, 2 and 4 stages."""
    data = context.data(model)
    first = None
    for stages, schedule, checkpoint in ((1, "gpipe", "never"), (2, "1f1b", "never"), (4, "zb-h1", "never"), (2, "1f1b", "always")):
        where = " ".join([model, exporter, *context.arguments(options), f"S={stages} {schedule} {checkpoint}"])
        binary = context.training(
            model, exporter, optimizer, stages=stages, schedule=schedule, checkpoint=checkpoint, batch=8, microbatches=4,
            **options)
        check_kinds(checks, where, binary, expected=True)
        snapshot = context.path(".safetensors")
        lines = binary.train(data, "--no-shuffle", "--steps", STEPS, "--epochs", STEPS, "--log-bits", "--save", snapshot,
                             "--device", options.get("target", "cpu"))
        result = [line["loss_bits"] for line in lines if "loss_bits" in line], common.tensor_bytes(snapshot)
        first = first or result
        checks.check(len(result[0]) == STEPS and result == first, f"{where}: differs from one stage")


def check_masks(context, checks):
    """Masks that the program computes are operands, in both forms of the exporters. Gradients with and without fusion."""
    for exporter in ("torchscript", "dynamo"):
        for precision in ("f32", "bf16"):
            check_stages(context, checks, "padded", exporter, "adamw", fuse_attention="always", precision=precision)
        gradients = {}
        for mode in ("always", "never"):
            binary = context.training("padded", exporter, "sgd", stages=2, batch=8, microbatches=4, fuse_attention=mode)
            _, gradients[mode] = gradients_of(context, binary, context.data("padded"), "cpu")
        for name, tensor in gradients["never"].items():
            error = relative_error(gradients["always"][name], tensor)
            checks.check(error <= 1e-5, f"padded {exporter}: gradients of {name} with and without attention differ by {error:.3g}")


def gradients_of(context, binary, data, device):
    path = context.path(".safetensors")
    lines = binary.train(data, "--no-shuffle", "--steps", 1, "--dump-gradients", path, "--device", device)
    tensors = {name: value for name, value in common.read_safetensors(path).items() if name is not None}
    return lines[-1]["loss"], tensors


def check_precision(context, checks, model, precision):
    """Fused by default on a GPU, against the same program without it, and both against PyTorch."""
    reference = against_pytorch.Reference(model, "torchscript", 4)
    data = context.data(reference.path)
    wanted = reference.under("grad/")
    norm = np.sqrt(sum(np.sum(np.square(t, dtype=np.float64)) for t in wanted.values()))
    off, losses, gradients, residuals = {}, {}, {}, {}
    for mode in ("auto", "never"):
        where = f"{model} {precision} mock {mode}"
        binary = context.training(
            model, optimizer="sgd", stages=2, batch=reference.batch(), microbatches=4, precision=precision, target="mock",
            fuse_attention=mode)
        check_kinds(checks, where, binary, expected=mode == "auto")
        losses[mode], gradients[mode] = gradients_of(context, binary, data, "mock")
        residuals[mode] = mixed_precision.residual_bytes(binary)
        off[mode] = np.sqrt(sum(np.sum(np.square(gradients[mode][n] - t, dtype=np.float64)) for n, t in wanted.items())) / norm
        expected = float(reference.arrays["loss"])
        error = abs(losses[mode] - expected) / abs(expected)
        checks.check(error <= mixed_precision.LOSS_TOLERANCE[precision], f"{where}: loss {losses[mode]}, expected {expected}")
        checks.check(off[mode] <= mixed_precision.DEFAULT_TOLERANCE[precision], f"{where}: gradients are off by {off[mode]:.3g}")
    between = np.sqrt(sum(np.sum(np.square(gradients["auto"][n] - t, dtype=np.float64)) for n, t in gradients["never"].items())) / norm
    checks.check(between <= mixed_precision.DEFAULT_TOLERANCE[precision], f"{model} {precision}: gradients differ by {between:.3g}")
    checks.check(residuals["auto"] < residuals["never"], f"{model} {precision}: residuals {residuals}")
    print(f"{model:9s} {precision}: gradients off by {off['auto']:.2e} (unfused {off['never']:.2e}), between them "
          f"{between:.2e}; residuals {residuals['auto']} bytes (unfused {residuals['never']})")


def check_outputs(context, checks, model):
    """Of the same weights, with and without. The mask of gpt is a constant of one exporter, a file's tensor of the other."""
    for exporter in ("torchscript", "dynamo"):
        fused, plain = (
            context.training(model, exporter, "sgd", stages=1, batch=8, microbatches=4, fuse_attention=mode)
            for mode in ("always", "never"))
        data = context.data(model)
        (a,) = fused.infer(data, context.path(".npz")).values()
        (b,) = plain.infer(data, context.path(".npz")).values()
        error = relative_error(a, b)
        checks.check(error <= 1e-5, f"{model} {exporter}: outputs with and without attention differ by {error:.3g}")


def test(context, checks, arguments):
    cases = [case for case in CASES if not arguments.quick or case[0] == "gpt_tied"]

    def guarded(case):
        model, exporter, optimizer = case
        try:
            return against_pytorch.run_case(context, checks, model, exporter, 4, 2, optimizer, fuse_attention="always")
        except common.Failure as failure:
            checks.check(False, f"{case}: {failure}")

    against_pytorch.print_rows([row for row in context.map(guarded, cases) if row])
    models = ("gpt_tied",) if arguments.quick else MODELS_USED
    for model in models:
        check_stages(context, checks, model, "torchscript", "adamw", fuse_attention="always")
        check_stages(context, checks, model, "dynamo", "sgd", fuse_attention="always", precision="bf16")
        check_stages(context, checks, model, "torchscript", "sgd", target="mock", precision="bf16")
        for precision in ("bf16", "f16"):
            check_precision(context, checks, model, precision)
    check_masks(context, checks)
    check_outputs(context, checks, "gpt")
    check_outputs(context, checks, "padded")


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

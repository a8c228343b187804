#!/usr/bin/env python3
"""A GPU's program on the mock device: the losses and weights of the processor.

Trains 3 steps with --target=mock, which runs the launches of a GPU on the mock
device, and compares losses and every tensor of the snapshot with those of
--target=cpu. The number of stages and graphs must not change a bit.
"""

import functools
import re

import numpy as np

import common

STEPS = 3

# Model: (samples of a batch, optimizer). A block of a GPU takes a part of the norms of the larger weights of mlp.
MODELS_USED = {
    "mlp": (32, "lamb"), "lenet": (32, "sgd"), "gpt": (8, "adamw"), "gpt_tied": (8, "sgd"), "gpt_tanh": (8, "sgd"),
    "resnet18": (16, "sgd"), "unet": (8, "adamw"),
}
QUICK_MODELS = ("lenet", "gpt_tied")

# The epilogues of products that a model's plan must have.
EPILOGUES = {
    "mlp": {"bias", "bias_relu"}, "lenet": {"bias", "bias_relu"}, "gpt": {"bias"}, "gpt_tied": {"bias"},
    "gpt_tanh": {"bias", "bias_gelu_aux"}, "resnet18": {"bias"},
}

# Adam divides by a root of the gradient's square: where that is as good as 0 (the bias of the keys
# of attention has no effect), rounding decides about the step.
TOLERANCES = {"sgd": 2e-5, "adamw": 2e-3, "lamb": 2e-3}


def compiler(context, model, options):
    """What compiles a model for training. `gpt_tanh` is gpt with the GELU that libraries of GPUs have."""
    if model != "gpt_tanh":
        return functools.partial(context.training, model, **options)
    sizes = {key: options[key] for key in ("batch", "microbatches")}
    graph = context.path(".mlir")
    common.run([context.compiler, common.model_file("gpt", "dynamo"), "-o", graph, "--compile-to=graph",
                "--loss=cross_entropy", *context.arguments(sizes)])
    graph.write_text(re.sub(r"(nn\.gelu %\w+) ", r"\1 approximate ", graph.read_text()))
    return functools.partial(context.compile, graph, compile_from="graph", loss="cross_entropy", **sizes)


def train(context, binary, data, device, *arguments):
    snapshot = context.path(".safetensors")
    lines = binary.train(data, "--no-shuffle", "--steps", STEPS, "--epochs", STEPS, "--log-bits", "--device", device,
                         "--save", snapshot, *arguments)
    steps = [line for line in lines if "loss_bits" in line]
    bits = [line["loss_bits"] for line in steps], common.tensor_bytes(snapshot)
    return [line["loss"] for line in steps], common.read_safetensors(snapshot), bits


def actions(plan):
    """Of each rank; only the processor packs weights, so only there P may stand for itself."""
    return [[action for action in rank["actions"] if action[0] != "P"] for rank in plan["ranks"]]


def check_plan(checks, where, binary, expected):
    """What the two targets share: everything but the kernels and their memory."""
    plan = binary.plan()
    checks.check(plan["target"] == "mock", f"{where}: the plan's target is {plan['target']}")
    for stage in plan["stages"]:
        kinds = {kernel["descriptor"].split()[0] for kernel in stage["kernels"]}
        checks.check("launch" in kinds, f"{where}: no launches in {sorted(kinds)}")
        number = stage.get("optimizer_kernel")
        descriptor = stage["kernels"][number]["descriptor"] if number is not None else ""
        checks.check(descriptor.startswith("launch name=optimizer "), f"{where}: the optimizer is '{descriptor}'")
    for key in ("feeds", "fetches", "optimizer"):
        checks.check(plan[key] == expected[key], f"{where}: '{key}' of the plan differs")
    checks.check(actions(plan) == actions(expected), f"{where}: 'ranks' of the plan differs")


def epilogues(plan):
    kernels = (kernel for stage in plan["stages"] for kernel in stage["kernels"])
    found = (re.search(r" epilogue=(\w+)", kernel["descriptor"]) for kernel in kernels)
    return {match[1] for match in found if match}


def check_model(context, checks, model, stage_counts, modes):
    batch, optimizer = MODELS_USED[model]
    options = {"optimizer": optimizer, "batch": batch, "microbatches": 4}
    data = context.data("gpt" if model == "gpt_tanh" else model, 2 * batch)
    compile_for = compiler(context, model, options)
    # The same library kernels as on the mock device: batch norm of a few values makes much of other last bits.
    processor = compile_for(stages=1, layouts="plain", convolutions="direct", norms="library")
    losses, weights, _ = train(context, processor, data, "cpu")
    base = None
    for stages in stage_counts:
        where = f"{model} with {stages} stages"
        binary = compile_for(stages=stages, target="mock")
        for arguments in modes:
            run = " ".join([where, *arguments])
            found, tensors, bits = train(context, binary, data, "mock", *arguments)
            if base is not None:
                checks.check(bits == base, f"{run}: other bits than one stage")
                continue
            base = bits
            check_plan(checks, run, binary, processor.plan())
            for target, expected in ((processor, set()), (binary, EPILOGUES.get(model, set()))):
                checks.equal(epilogues(target.plan()), expected, f"{run}: epilogues of '{target.plan()['target']}'")
            close = len(found) == STEPS and np.allclose(found, losses, rtol=1e-5, atol=0)
            checks.check(close, f"{run}: losses {found}, expected {losses}")
            checks.check(set(tensors) == set(weights), f"{run}: other tensors in the snapshot")
            for name, value in weights.items():
                if name is None:
                    continue
                error = common.relative_error(tensors[name], value)
                checks.check(error <= TOLERANCES[optimizer], f"{run}: '{name}' differs by {error:.1e}")


def check_launches(context, checks, model, precision):
    """The launches of the mock device are those of a real GPU."""
    options = {"optimizer": MODELS_USED[model][1], "batch": MODELS_USED[model][0], "microbatches": 4, "stages": 2,
               "precision": precision}

    def launches(target):
        stages = context.training(model, target=target, **options).plan()["stages"]
        return [[k["descriptor"] for k in stage["kernels"]] for stage in stages]

    checks.check(launches("mock") == launches("cuda"), f"{model} in {precision}: the kernels of mock and cuda differ")


def check_refused(context, checks):
    """The processor has no device for launches."""
    binary = context.training("lenet", optimizer="sgd", stages=1, batch=32, microbatches=4, target="mock")
    try:
        common.run([binary.path, "train", "--data", context.data("lenet", 32), "--steps", 1, "--device", "cpu"], expect=2)
    except common.Failure as failure:
        checks.check(False, f"--device cpu: {failure}")


def test(context, checks, arguments):
    def guarded(model):
        try:
            if arguments.quick:
                check_model(context, checks, model, (1, 2), ([],))
            else:
                check_model(context, checks, model, (1, 2, 3) if model == "mlp" else (1, 2, 4), ([], ["--no-graphs"]))
        except common.Failure as failure:
            checks.check(False, f"{model}: {failure}")

    models = QUICK_MODELS if arguments.quick else MODELS_USED
    context.map(guarded, models)
    for model in (*QUICK_MODELS, "mlp"):
        for precision in ("f32", "bf16", "f16"):
            check_launches(context, checks, model, precision)
    check_refused(context, checks)


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

#!/usr/bin/env python3
"""Every GPU kernel of the test models assembles for sm_90 without spilling registers.

Prints the table of registers and shared memory.
"""

import re

import common
from common import LOSS, MODELS

ROW = re.compile(r"(\S+_\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)")
MODELS_USED = ("mlp", "lenet", "resnet18", "unet", "gpt", "gpt_tied")
EXPORTERS = {"mlp": "dynamo"}


def compile_model(context, model, precision, optimizer="adamw"):
    path = context.path(".bin")
    return common.run([
        context.build / "bin" / "pp-compile", common.model_file(model, EXPORTERS.get(model, "torchscript")),
        f"--loss={LOSS.get(model, 'cross_entropy')}", "--stages=2", "--batch=8", "--microbatches=4", f"--optimizer={optimizer}",
        "--target=cuda:sm_90", f"--precision={precision}", "--kernel-report", "-o", path,
    ]), path


def test(context, checks, arguments):
    models = ("mlp", "gpt") if arguments.quick else MODELS_USED
    # bf16 loads and stores are vectors of half the size; f16 comes with a loss scale.
    precisions = ("f32", "bf16", "f16")
    cases = [(m, p) for m in models for p in precisions]
    # Which have more kernels for a step.
    cases += [("mlp", "f32", optimizer) for optimizer in ("lamb", "lars")]
    for (model, precision, *optimizer), (report, path) in zip(cases, context.map(lambda case: compile_model(context, *case), cases)):
        model = " with ".join([f"{model} in {precision}", *optimizer])
        print(f"{model}:\n{report}")
        rows = ROW.findall(report)
        checks.check(len(rows) >= 10, f"{model}: only {len(rows)} kernels")
        for name, registers, _, stores, loads, _ in rows:
            checks.check(stores == loads == "0", f"{model}: {name} spills {stores} and {loads} bytes")
            checks.check(0 < int(registers) <= 128, f"{model}: {name} takes {registers} registers")
        data = path.read_bytes()
        checks.check(b".target sm_90" in data, f"{model}: no PTX in the binary")
        short = re.search(rb"ld\.global(\.nc)?\.v4\.b16", data)
        checks.check(bool(short) == (precision != "f32"), f"{model}: loads of four numbers of 16 bits: {short}")
        # A cubin is an ELF file for machine 190.
        found = any(data[i + 18 : i + 20] == b"\xbe\x00" for i in find_all(data, b"\x7fELF"))
        checks.check(found, f"{model}: no cubin in the binary")


def find_all(data, pattern):
    position = data.find(pattern)
    while position >= 0:
        yield position
        position = data.find(pattern, position + 1)


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

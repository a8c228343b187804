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


def compile_model(context, model):
    path = context.path(".bin")
    return common.run([
        context.build / "bin" / "pp-compile", common.model_file(model, EXPORTERS.get(model, "torchscript")),
        f"--loss={LOSS.get(model, 'cross_entropy')}", "--stages=2", "--batch=8", "--microbatches=4", "--optimizer=adamw",
        "--target=cuda:sm_90", "--kernel-report", "-o", path,
    ]), path


def test(context, checks, arguments):
    models = ("mlp", "gpt") if arguments.quick else MODELS_USED
    for model, (report, path) in zip(models, context.map(lambda name: compile_model(context, name), models)):
        print(f"{model}:\n{report}")
        rows = ROW.findall(report)
        checks.check(len(rows) >= 10, f"{model}: only {len(rows)} kernels")
        for name, registers, _, stores, loads, _ in rows:
            checks.check(stores == loads == "0", f"{model}: {name} spills {stores} and {loads} bytes")
            checks.check(0 < int(registers) <= 128, f"{model}: {name} takes {registers} registers")
        data = path.read_bytes()
        checks.check(b".target sm_90" in data, f"{model}: no PTX in the binary")
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

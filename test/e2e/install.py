#!/usr/bin/env python3
"""What is installed works without the sources and the build, wherever it is moved to."""

import os
import re
import subprocess

import common

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES NONE)
find_package(pp-mlir 0.1 REQUIRED)
pp_add_program(digits {model} FLAGS --loss=cross_entropy --stages=2 --microbatches=4)
"""


def check_tools(checks, folder):
    for tool in ("pp-plan", "pp-compile", "pp-profile", "pp-opt"):
        text = common.run([folder / "bin" / tool, "--version"])
        checks.check(re.match(rf"{tool} \(pp-mlir\) \d+\.\d+\.\d+ \w+\n", text) and "LLVM:" in text and "oneDNN:" in text, text)
        common.run([folder / "bin" / tool, "--help"])


def check_program(context, checks, folder, data):
    """As compiled by the build's own tools; and what is opened is what is installed."""
    model = common.model_file("lenet")
    flags = ["--loss=cross_entropy", "--stages=2", "--microbatches=4", "--link-device=mock"]
    program = context.path()
    common.run([folder / "bin" / "pp-compile", model, *flags, "-o", program])
    checks.check("compiled by pp-mlir for cpu" in common.run([program, "--version"]), "--version of a program")
    other = context.compile(model, loss="cross_entropy", stages=2, microbatches=4)
    tensors = []
    for each in (common.Binary(program), other):
        snapshot = context.path(".safetensors")
        each.train(data, "--steps", 3, "--weights", common.MODELS / "lenet", "--save", snapshot)
        tensors.append(common.tensor_bytes(snapshot))
    checks.check(tensors[0] == tensors[1], "the weights differ from those of a program of the build")
    costs = context.path(".json")
    common.run([folder / "bin" / "pp-profile", model, "--loss=cross_entropy", "--repetitions=3", "-o", costs])
    common.run([folder / "bin" / "pp-plan", model, "--loss=cross_entropy", f"--cost-file={costs}",
                f"--cluster={folder / 'share/pp-mlir/clusters/two-cores.json'}"])


def check_package(context, checks, folder, data):
    source, build = context.path(), context.path()
    source.mkdir()
    (source / "CMakeLists.txt").write_text(PROJECT.format(model=common.model_file("lenet")))
    common.run(["cmake", "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={folder}"])
    common.run(["cmake", "--build", build])
    lines = common.Binary(build / "digits.program").train(data, "--steps", 2, "--weights", common.MODELS / "lenet")
    checks.check(any("loss" in line for line in lines), f"a program that CMake made: {lines}")


def check_no_reference(context, checks, folder):
    """Nothing that is installed names the build or the sources."""
    for path in [*folder.rglob("*.cmake"), *folder.rglob("*.link")]:
        text = path.read_text()
        for place in (context.build, common.MODELS.parents[1]):
            checks.check(str(place) not in text, f"{path} names {place}")


def test(context, checks, arguments):
    first, folder = context.path(), context.path()
    common.run(["cmake", "--install", context.build, "--prefix", first])
    os.rename(first, folder)
    data = context.data("lenet", samples=64)
    check_tools(checks, folder)
    check_program(context, checks, folder, data)
    check_package(context, checks, folder, data)
    check_no_reference(context, checks, folder)
    # Without the runtime beside it, it says what it looked for.
    (next(folder.rglob("pprt.link"))).unlink()
    done = subprocess.run([folder / "bin" / "pp-compile", common.model_file("lenet"), "-o", context.path()], capture_output=True, text=True)
    checks.check(done.returncode == 4 and "pprt.link" in done.stderr, f"without the runtime: {done}")


if __name__ == "__main__":
    common.main(test, __doc__)

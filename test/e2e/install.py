#!/usr/bin/env python3
"""What is installed works without the sources and the build, wherever it is moved to."""

import os
import re
import subprocess

import common
import numpy as np

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(user LANGUAGES C CXX)
find_package(pp-mlir 0.1 REQUIRED)
pp_add_program(digits {model} FLAGS --loss=cross_entropy --stages=2 --microbatches=4)
pp_add_model(digits-model {model} FLAGS --loss=cross_entropy --stages=2 --microbatches=4)
add_executable(trainer trainer.cpp)
target_compile_features(trainer PRIVATE cxx_std_17)
target_link_libraries(trainer pp-mlir::runtime)
add_executable(compiler compiler.c)
target_link_libraries(compiler pp-mlir::compiler)
"""

# Trains on the bytes of two files.
TRAINER = r"""
#include <pp_runtime.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>

template <typename T> std::vector<T> read(const char *path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const T *values = reinterpret_cast<const T *>(bytes.data());
  return {values, values + bytes.size() / sizeof(T)};
}

int main(int argc, char **argv) try {
  std::vector<float> image = read<float>(argv[2]);
  std::vector<int64_t> target = read<int64_t>(argv[3]);
  int64_t samples = static_cast<int64_t>(target.size());
  pp::Program program(argv[1], pp::Mode::Train, {std::string("--weights=") + argv[4], "--seed=3"});
  program.train({{"image", image, {samples, 1, 8, 8}}, {"target", target, {samples}}}, 2);
  program.save(argv[5]);
  return 0;
} catch (const pp::Error &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return error.getKind();
}
"""

# Plans, compiles, and meets an error.
COMPILER = r"""
#include <pp_compiler.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
  const char *flags[] = {"--loss=cross_entropy", "--batch=32", "--cores=2"}, *wrong[] = {"--stages=two"};
  char *plan = NULL, *report = NULL, *ir = NULL;
  pp_error *error = pp_plan(argv[1], flags, 3, &plan, &report);
  if (!error)
    error = pp_compile(argv[1], plan, flags, 2, argv[2]);
  if (!error)
    error = pp_import(argv[1], NULL, 0, &ir);
  if (error) {
    fprintf(stderr, "%s\n", pp_error_message(error));
    return 1;
  }
  printf("%s%d\n", report, strstr(ir, "nn.conv") != NULL);
  error = pp_compile(argv[1], NULL, wrong, 1, argv[2]);
  if (!error || pp_error_get_kind(error) != PP_ERROR_USAGE || !strstr(pp_error_message(error), "two"))
    return 1;
  pp_error_free(error);
  pp_text_free(plan);
  pp_text_free(report);
  pp_text_free(ir);
  return 0;
}
"""


def check_tools(checks, folder):
    for tool in ("pp-plan", "pp-compile", "pp-profile", "pp-opt"):
        text = common.run([folder / "bin" / tool, "--version"])
        checks.check(re.match(rf"{tool} \(pp-mlir\) \d+\.\d+\.\d+ \w+\n", text) and "LLVM:" in text and "oneDNN:" in text, text)
        common.run([folder / "bin" / tool, "--help"])
        for page in f"man/man1/{tool}.1", f"bash-completion/completions/{tool}":
            checks.check((folder / "share" / page).stat().st_size > 500, page)


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
    model = common.model_file("lenet")
    (source / "CMakeLists.txt").write_text(PROJECT.format(model=model))
    (source / "trainer.cpp").write_text(TRAINER)
    (source / "compiler.c").write_text(COMPILER)
    common.run(["cmake", "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={folder}"])
    common.run(["cmake", "--build", build])
    lines = common.Binary(build / "digits.program").train(data, "--steps", 2, "--weights", common.MODELS / "lenet")
    checks.check(any("loss" in line for line in lines), f"a program that CMake made: {lines}")
    # In another program the same training has the same bits.
    with np.load(data) as arrays:
        arrays["image"].tofile(build / "image")
        arrays["target"].tofile(build / "target")
    ours, theirs = context.path(".safetensors"), context.path(".safetensors")
    weights = common.MODELS / "lenet"
    common.run([build / "trainer", build / "digits-model.so", build / "image", build / "target", weights, ours])
    common.Binary(build / "digits.program").train(data, "--epochs", 2, "--seed", 3, "--weights", weights, "--save", theirs)
    checks.check(common.tensor_bytes(ours) == common.tensor_bytes(theirs), "the library trains otherwise than the program")
    text = common.run([build / "compiler", model, build / "planned.so"])
    checks.check("micro-batches" in text and text.endswith("1\n") and (build / "planned.so").exists(), f"libpp_compiler: {text}")


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

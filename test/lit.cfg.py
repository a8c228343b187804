# Configuration of the lit tests. Run them with `ninja check-lit`, or some with
#   /usr/lib/llvm-22/bin/lit -v build/release/test --filter=NN

import os
import shutil
import subprocess
import sys

import lit.formats

config.name = "pp-mlir"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["models", "unit", "Inputs", "CMakeLists.txt"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.pp_binary_dir, "test")

config.substitutions.append(("%models", os.path.join(config.test_source_root, "models")))
config.substitutions.append(("%build", config.pp_binary_dir))
config.substitutions.append(("%python", sys.executable))
# Instrumented programs are several times slower.
config.substitutions.append(("%quick", "--quick" if config.pp_sanitize else ""))
# In megabytes: they need a multiple of the memory, too.
config.substitutions.append(("%fuzz_memory", "4000" if config.pp_sanitize else "1000"))

tools = os.path.join(config.pp_binary_dir, "bin")
config.environment["PATH"] = os.pathsep.join(
    [tools, config.llvm_tools_dir, config.environment["PATH"]])
config.environment["FILECHECK_OPTS"] = "-enable-var-scope --dump-input-filter=annotation-full"
for variable in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "CCACHE_DISABLE"):
    if variable in os.environ:
        config.environment[variable] = os.environ[variable]

if os.path.exists("/proc/cpuinfo"):
    with open("/proc/cpuinfo") as file:
        if " avx2 " in file.read():
            config.available_features.add("avx2")

# The assembler that scripts/fetch-cuda got, or that of a toolkit.
fetched = os.path.join(os.path.dirname(config.test_source_root), ".cuda", "bin", "ptxas")
ptxas = fetched if os.path.exists(fetched) else shutil.which(
    "ptxas", path=os.pathsep.join([os.environ["PATH"], "/usr/local/cuda/bin"]))
if ptxas:
    config.available_features.add("ptxas")
    config.environment["PP_PTXAS"] = ptxas

# An interpreter with the packages of scripts/requirements-models.txt.
exporter = os.environ.get("PP_PYTHON") or os.path.join(
    os.path.dirname(config.test_source_root), ".venv", "bin", "python")
if os.path.exists(exporter):
    config.available_features.add("exporter")
    config.environment["PP_PYTHON"] = config.environment["PYTHON"] = exporter
    config.substitutions.append(("%exporter", exporter))
    # With the packages from which test/onnx/zoo has its architectures.
    find = "import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))"
    packages = ["torch", "torchvision", "timm", "transformers", "onnxscript", "onnxruntime"]
    if subprocess.run([exporter, "-c", find, *packages], check=False).returncode == 0:
        config.available_features.add("architectures")
config.substitutions.append(("%scripts", os.path.join(os.path.dirname(config.test_source_root), "scripts")))
config.substitutions.append(("%benchmarks", os.path.join(os.path.dirname(config.test_source_root), "benchmarks")))

# `REQUIRES: pp-compile` for tests of tools that a build may leave out.
for tool in os.listdir(tools) if os.path.isdir(tools) else []:
    config.available_features.add(tool)

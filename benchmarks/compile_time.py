#!/usr/bin/env python3
"""Time and memory of pp-compile: two real models, growth with the model, and import.

Times are processor times, which other work on the machine disturbs little. That
of each pass comes from --mlir-timing (it is listed by name, summed over the
training and the inference program); what no pass takes is reading the model,
LLVM's code generation and linking. Growth is measured on a chain of n
nodes; a pass is flagged if its time grows faster than n log n. Import alone is
measured of a model with 2 GiB of external weights, and of one with 100,000 nodes.
"""

import argparse
import collections
import math
import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "build" / "benchmarks"
MODELS = {
    "resnet50": ["--batch=16", "--microbatches=4", "--stages=4"],
    "gpt2-small": ["--batch=4", "--microbatches=4", "--stages=4"],
}
CHAIN_OPTIONS = ["--batch=8", "--microbatches=4", "--stages=4"]
CHAINS = (100, 1_000, 10_000)
# Below, times are noise.
SHORTEST = 0.02


def write_chain(nodes):
    """`nodes` operations in a row, every second one a product with weights of its
    own."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    path = OUTPUT / f"chain-{nodes}.onnx"
    if path.exists():
        return path
    OUTPUT.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    weights, chain, value = [], [], "input"
    for i in range(nodes):
        result = f"v{i}" if i + 1 < nodes else "logits"
        if i % 2 == 0:
            weight = (generator.standard_normal((16, 16)) / 4).astype(np.float32)
            weights.append(numpy_helper.from_array(weight, f"w{i}"))
            chain.append(helper.make_node("MatMul", [value, f"w{i}"], [result], f"product{i}"))
        else:
            chain.append(helper.make_node("Relu", [value], [result], f"relu{i}"))
        value = result
    shape = [8, 16]
    graph = helper.make_graph(
        chain, "chain",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, shape)],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def save_model(path, nodes, shape, output, weights):
    import onnx
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        nodes, path.stem, [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)], weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def write_large(layers=32, width=4096):
    """Products with `layers` weights of 64 MiB in a file of their own, which has holes."""
    from onnx import TensorProto, helper

    path = OUTPUT / "large.onnx"
    weights, nodes, size = [], [], 4 * width * width
    for i in range(layers):
        weight = TensorProto(name=f"w{i}", data_type=TensorProto.FLOAT, dims=[width, width], data_location=TensorProto.EXTERNAL)
        for key, value in (("location", "large.bin"), ("offset", i * size), ("length", size)):
            weight.external_data.add(key=key, value=str(value))
        weights.append(weight)
        nodes.append(helper.make_node("MatMul", [f"v{i}" if i else "input", f"w{i}"], [f"m{i}"], f"product{i}"))
        nodes.append(helper.make_node("Relu", [f"m{i}"], [f"v{i + 1}"], f"relu{i}"))
    with open(path.with_suffix(".bin"), "wb") as file:
        file.truncate(layers * size)
    return save_model(path, nodes, [8, width], f"v{layers}", weights)


def write_long(count=100_000):
    """As exporters write them: half of the nodes compute shapes."""
    import numpy as np
    from onnx import helper, numpy_helper

    nodes, value = [], "input"
    constants = {"half": np.array(0.5, np.float32), "first": np.array(0), "front": np.array([0]), "rest": np.array([-1])}
    weights = [numpy_helper.from_array(array, name) for name, array in constants.items()]

    def add(operator, inputs, **attributes):
        name = f"n{len(nodes)}"
        nodes.append(helper.make_node(operator, inputs, [name], name, **attributes))
        return name

    while len(nodes) < count:
        prefix = f"block{len(nodes)}"
        weights.append(numpy_helper.from_array(np.zeros((16, 16), np.float32), f"{prefix}.weight"))
        weights.append(numpy_helper.from_array(np.zeros(16, np.float32), f"{prefix}.bias"))
        sum_ = add("Add", [add("MatMul", [value, f"{prefix}.weight"]), f"{prefix}.bias"])
        rows = add("Unsqueeze", [add("Gather", [add("Shape", [sum_]), "first"]), "front"])
        same = add("Reshape", [sum_, add("Concat", [rows, "rest"], axis=0)])
        value = add("Add", [value, add("Mul", [add("Sigmoid", [same]), "half"])])
    return save_model(OUTPUT / "long.onnx", nodes, [8, 16], value, weights)


def measure_import(arguments):
    print("\nimport alone")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    for name, write in {"large": write_large, "long": write_long}.items():
        # In a process of its own: what is started from here would count the memory of this one.
        writer = multiprocessing.Process(target=write)
        writer.start()
        writer.join()
        path = OUTPUT / f"{name}.onnx"
        command = [arguments.compiler, path, "--compile-to=import", "-o", os.devnull]
        start = time.perf_counter()
        process = subprocess.Popen(command)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        files = sum(p.stat().st_size for p in (path, path.with_suffix(".bin")) if p.exists())
        print(f"  {path.name:<12} {files / 2**20:6.0f} MiB: {seconds:.2f} s ({usage.ru_utime + usage.ru_stime:.2f} s of processor time), "
              f"peak memory {usage.ru_maxrss / 1024:.0f} MiB" + (f", failed with {process.returncode}" if process.returncode else ""))


Result = collections.namedtuple("Result", "seconds user mebibytes passes kernels")


def compile_model(arguments, path, options):
    """Compiles in a process of its own, whose use of resources is known."""
    binary = path.with_suffix(".out")
    errors = path.with_suffix(".log")
    command = [
        arguments.compiler, path, "-o", binary, "--loss=cross_entropy", "--mlir-timing",
        "--mlir-timing-display=list", *options,
    ]
    with open(errors, "w") as log:
        start = time.perf_counter()
        process = subprocess.Popen(command, stderr=log, stdout=log)
        try:
            deadline = start + arguments.limit
            while True:
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                if pid:
                    break
                if time.perf_counter() > deadline:
                    process.kill()
                time.sleep(0.01)
        except KeyboardInterrupt:
            process.kill()
            raise
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
    text = errors.read_text()
    if process.returncode:
        print(f"  {path.name}: failed with {process.returncode} after {seconds:.1f} s: {text[:300]}")
        return None
    passes = collections.Counter()
    for user, name in re.findall(r"^ *([\d.]+) \([ \d.]+%\) +[\d.]+ \([ \d.]+%\)  (.*)$", text, re.M):
        if name in ("root", "Total", "Rest") or "Pipeline" in name or name.startswith("(A)"):
            continue
        passes[name.strip()] += float(user)
    info = subprocess.run([binary, "info"], capture_output=True, text=True).stdout
    kernels = sum(int(k) for k in re.findall(r"(\d+) kernels", info))
    return Result(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, passes, kernels)


def report(name, result):
    print(f"\n{name}: {result.seconds:.2f} s ({result.user:.2f} s of processor time), "
          f"peak memory {result.mebibytes:.0f} MiB, {result.kernels} library kernels")
    for each, seconds in result.passes.most_common(8):
        print(f"  {each:<40} {seconds:8.3f} s")
    others = sum(s for _, s in result.passes.most_common()[8:])
    print(f"  {'other passes':<40} {others:8.3f} s")
    print(f"  {'reading, LLVM code generation, linking':<40} {result.user - sum(result.passes.values()):8.3f} s")


def growth(arguments):
    results = {}
    for nodes in CHAINS:
        result = compile_model(arguments, write_chain(nodes), CHAIN_OPTIONS)
        if not result:
            break
        results[nodes] = result
    sizes = list(results)
    print("\nchains of n nodes: seconds of processor time")
    print(f"  {'n':<40}" + "".join(f"{n:>10}" for n in sizes))
    print(f"  {'all':<40}" + "".join(f"{r.user:>10.2f}" for r in results.values()))
    print(f"  {'peak memory, MiB':<40}" + "".join(f"{r.mebibytes:>10.0f}" for r in results.values()))
    rest = {n: r.user - sum(r.passes.values()) for n, r in results.items()}
    rows = {"reading, LLVM code generation, linking": rest}
    for each in sorted(results[sizes[-1]].passes, key=lambda p: -results[sizes[-1]].passes[p]):
        rows[each] = {n: r.passes[each] for n, r in results.items()}
    flagged = []
    for name, times in rows.items():
        if times[sizes[-1]] < SHORTEST:
            continue
        note = ""
        if len(sizes) > 1:
            small, large = sizes[-2:]
            allowed = large * math.log(large) / (small * math.log(small))
            factor = times[large] / max(times[small], SHORTEST / 10)
            # A quarter for noise.
            if factor > 1.25 * allowed:
                note = f"  faster than n log n: x {factor:.0f} for x {large // small}"
                flagged.append(name)
        print(f"  {name:<40}" + "".join(f"{times[n]:>10.3f}" for n in sizes) + note)
    print(f"  {len(flagged)} faster than n log n" + (": " + ", ".join(flagged) if flagged else ""))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=ROOT / "build" / "release")
    parser.add_argument("--limit", type=float, default=600, help="seconds for one compilation")
    parser.add_argument("--only", choices=[*MODELS, "chains", "import"])
    arguments = parser.parse_args()
    arguments.compiler = pathlib.Path(arguments.build) / "bin" / "pp-compile"
    print(f"{time.strftime('%Y-%m-%d')}, load {os.getloadavg()[0]:.1f}")
    for name, options in MODELS.items():
        if arguments.only not in (None, name):
            continue
        subprocess.run([sys.executable, pathlib.Path(__file__).parent / "models.py", name], check=True,
                       stdout=subprocess.DEVNULL)
        path = OUTPUT / f"{name}.onnx"
        result = compile_model(arguments, path, options)
        if result:
            weights = sum(p.stat().st_size for p in (path, path.with_suffix(".bin")))
            report(f"{name} ({weights / 2**20:.0f} MiB of weights, {' '.join(options)})", result)
    if arguments.only in (None, "chains"):
        growth(arguments)
    if arguments.only in (None, "import"):
        measure_import(arguments)


if __name__ == "__main__":
    main()

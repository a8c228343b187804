"""Runs the node tests of the `onnx` package, and its tests of whole models.

    node_tests.py BUILD [--update] [--all] [--target=mock] [--only=PATTERN]

node_tests.txt says of each test of the package whether it passes, or why not:
what the compiler says, or what a program cannot be fed. Other answers fail, and
so do wrong numbers. --update writes the file. Inputs that must be known at
compile time become initializers, by the operator's entry or because what is
computed from them is refused otherwise. Tests that are accepted are compiled together,
those of an opset in one model, with inputs and outputs flattened. Without --all
the tests whose operators are not imported are left out, where nothing is to be seen,
and the nine networks of the kind `real`, which take minutes. With --target=mock, the
kernels are those of a GPU, which has none for functions of f64.
"""

import argparse
import collections
import concurrent.futures
import fnmatch
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test import loader
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase

HERE = pathlib.Path(__file__).resolve().parent
LIST = HERE / "Inputs" / "node_tests.txt"
# The elements that a program takes as input.
ELEMENTS = {"float32", "float64", "float16", "bfloat16", "bool"} | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
# Tests of whole models; their names have the kind in front.
KINDS = ("simple", "pytorch-operator", "pytorch-converted")
# Networks whose weights are one number each.
LARGE = "real"
NARROW = {"float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn"} | {
    f"{sign}int{bits}" for sign in ("", "u") for bits in (4, 2)
}
# Made of numbers that are drawn anew, or not told.
RANDOM = re.compile(r"training_dropout(?!_zero_ratio)|bernoulli|random_(uniform|normal)|multinomial")


def run(command, timeout=300):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=timeout)


def known_inputs(build):
    """The names of the inputs that must be known, by operator; None is all of them."""
    table = run([build / "bin" / "pp-opt", "--show-onnx-operators"]).stdout
    result = {}
    for row in re.findall(r"^\| ((?:[a-z.]+\.)?[A-Z]\w+) \|.*\| (.*) \|$", table, re.M):
        operator, restrictions = row
        names = re.search(r"((?:`\w+`,? ?)+) known", restrictions)
        result[operator] = None if "all inputs known" in restrictions else set(re.findall(r"`(\w+)`", names[1])) if names else set()
    return result


def name_of(node):
    """With the domain in front, where it is not that of ONNX itself."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def as_array(value):
    if isinstance(value, list):
        return [as_array(element) for element in value]
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def is_array(value):
    return isinstance(value, np.ndarray | np.generic)


def as_fed(array):
    """What a program takes and gives: of narrow types the numbers in 8 bits, or the bytes of floats."""
    if array.dtype.name in {"int4", "int2"}:
        return array.astype(np.int8)
    if array.dtype.name in {"uint4", "uint2"}:
        return array.astype(np.uint8)
    return array.view(np.uint8) if array.dtype.name in NARROW else array


class Test:
    """A test of the package: its model, with what must be known inside, and its data."""

    def __init__(self, case, known):
        self.name = case.name
        self.model = onnx.ModelProto()
        self.model.CopyFrom(case.model)
        graph = self.model.graph
        self.version = next((entry.version for entry in self.model.opset_import if entry.domain == ""), onnx.defs.onnx_opset_version())
        # Tests with the same versions fit into one model.
        self.versions = tuple(sorted({entry.domain: entry.version for entry in case.model.opset_import if entry.domain}.items()))
        inputs, outputs = case.data_sets[0]
        self.inputs = {value.name: as_array(array) for value, array in zip(graph.input, inputs)}
        self.outputs = {value.name: as_array(array) for value, array in zip(graph.output, outputs)}
        constant = set()
        for node in graph.node:
            if node.domain or not onnx.defs.has(node.op_type):
                continue
            schema = onnx.defs.get_schema(node.op_type, self.version)
            wanted = known.get(node.op_type, set())
            for index, name in enumerate(node.input):
                formal = schema.inputs[min(index, len(schema.inputs) - 1)].name
                if wanted is None or formal in wanted:
                    constant.add(name)
        # Of a tensor without elements everything is known.
        constant |= {name for name, array in self.inputs.items() if is_array(array) and array.size == 0}
        self.know(constant)

    def know(self, names):
        """Makes inputs initializers."""
        graph = self.model.graph
        for name in sorted(set(names) & set(self.inputs)):
            if is_array(array := self.inputs[name]):
                del self.inputs[name]
                graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        kept = [value for value in graph.input if value.name in self.inputs]
        del graph.input[:]
        graph.input.extend(kept)

    def know_numbers(self):
        """What shapes and conditions are computed from: numbers on their own, and whole numbers. Whether there was any."""
        names = [name for name, array in self.inputs.items() if is_array(array) and (array.ndim == 0 or array.dtype.kind in "ib")]
        self.know(names)
        return bool(names)

    def find_obstacle(self, known):
        """Why no program can be asked; None if one can."""
        unknown = sorted({name_of(node) for node in self.model.graph.node} - set(known))
        if unknown:
            return f"operator {', '.join(unknown)}"
        if self.model.functions:
            return "has functions of its own"
        if RANDOM.search(self.name):
            return "drawn at random"
        for value in [*self.inputs.values(), *self.outputs.values()]:
            for array in value if isinstance(value, list) else [value]:
                if array is None:
                    continue
                if not is_array(array):
                    return "sequences of sequences"
                if array.dtype.name not in ELEMENTS | NARROW:
                    return f"elements of type {array.dtype.name}"
        return None


def read_value(path, kind):
    """A tensor, a sequence or an optional, of the type of the graph's value."""
    which = kind.WhichOneof("value")
    proto = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}.get(which, onnx.TensorProto)()
    proto.ParseFromString(path.read_bytes())
    if which == "tensor_type":
        return numpy_helper.to_array(proto)
    return numpy_helper.to_list(proto) if which == "sequence_type" else numpy_helper.to_optional(proto)


def ramp(value):
    """What the package feeds to networks that come without data: numbers from 0 to 1."""
    shape = [dimension.dim_value for dimension in value.type.tensor_type.shape.dim]
    size = math.prod(shape)
    return (np.arange(size).reshape(shape) / size).astype(np.float32)


def load_models(kind):
    """The tests of a kind, with the first of their data sets."""
    for found in loader.load_model_tests(kind=kind):
        folder = pathlib.Path(found.model_dir or "")
        path = folder / "model.onnx" if found.model_dir else pathlib.Path(loader.DATA_DIR) / "light" / pathlib.Path(found.url).name
        model = onnx.load(path)
        constant = {tensor.name for tensor in model.graph.initializer}
        kept = [value for value in model.graph.input if value.name not in constant]
        del model.graph.input[:]
        model.graph.input.extend(kept)
        outputs = list(model.graph.output)
        if found.model_dir:
            data = folder / "test_data_set_0"
            inputs = [read_value(data / f"input_{index}.pb", value.type) for index, value in enumerate(kept)]
            files = [data / f"output_{index}.pb" for index in range(len(outputs))]
        else:
            inputs = [ramp(value) for value in kept]
            files = [path.with_name(f"{path.stem}_output_{index}.pb") for index in range(len(outputs))]
        wanted = [read_value(file, value.type) for file, value in zip(files, outputs)]
        yield TestCase(name=f"{kind}:{found.name}", model_name=kind, url=None, model_dir=None, model=model, data_sets=[(inputs, wanted)], kind=kind, rtol=0, atol=0)


def find_tests(known, kinds):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [*collect_testcases(None), *(case for kind in kinds for case in load_models(kind))]
    return [Test(case, known) for case in sorted(cases, key=lambda case: case.name)]


class Merger:
    """Builds one model of tests: inputs and outputs are flat, and those that are sequences are their elements."""

    def __init__(self):
        self.nodes, self.inputs, self.outputs, self.data = [], [], [], {}
        self.initializers = [numpy_helper.from_array(np.array([1, -1]), "flat")]

    def add(self, operator, inputs, output, **attributes):
        self.nodes.append(onnx.helper.make_node(operator, inputs, [output], **attributes))
        return output

    def constant(self, array, name):
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def feed(self, value, name):
        if value is None:
            kind = onnx.helper.make_tensor_type_proto(1, [])
            return self.add("Optional", [], name, type=kind)
        if isinstance(value, list):
            parts = [self.feed(part, f"{name}_{index}") for index, part in enumerate(value)]
            return self.add("SequenceConstruct", parts, name) if parts else self.add("SequenceEmpty", [], name)
        flat, kind = f"{name}_flat", onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        self.data[flat] = as_fed(value).reshape(1, -1)
        self.inputs.append(onnx.helper.make_tensor_value_info(flat, kind, [1, value.size]))
        shape = self.constant(np.array(value.shape, np.int64), f"{name}_shape")
        return self.add("Reshape", [flat, shape], name)

    def fetch(self, value, name, output):
        """Of a sequence the length and the elements; of what has no elements, the shape."""
        if isinstance(value, list):
            self.fetch(np.array(len(value)), self.add("SequenceLength", [name], f"{output}_length"), f"{output}_n")
            for index, part in enumerate(value):
                place = self.constant(np.array(index), f"{output}_{index}_place")
                self.fetch(part, self.add("SequenceAt", [name, place], f"{output}_{index}_part"), f"{output}_{index}")
            return
        if value.size == 0:
            name = self.add("Shape", [name], f"{output}_shape")
        self.add("Reshape", [name, "flat"], output)
        self.outputs.append(onnx.ValueInfoProto(name=output))


def merged(tests):
    """One model of all tests, and its inputs."""
    merger = Merger()
    nodes, inputs, outputs, data = merger.nodes, merger.inputs, merger.outputs, merger.data
    initializers = merger.initializers
    for number, test in enumerate(tests):
        prefix = f"t{number}_"

        def prefixed(graph, outer, prefix=prefix):
            """Renames what the graph defines, and of what is outside the names in `outer`."""
            names = outer | {value.name for value in [*graph.input, *graph.initializer]}
            names |= {output for node in graph.node for output in node.output}
            for value in [*graph.input, *graph.initializer, *graph.output]:
                value.name = prefix + value.name
            del graph.value_info[:]
            for node in graph.node:
                rename(node, names)

        def rename(node, names, prefix=prefix):
            for field in (node.input, node.output):
                field[:] = [prefix + name if name in names and name else name for name in field]
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    prefixed(attribute.g, names)

        for name, array in test.inputs.items():
            merger.feed(array, prefix + name)
        for tensor in test.model.graph.initializer:
            copy = onnx.TensorProto()
            copy.CopyFrom(tensor)
            copy.name = prefix + tensor.name
            initializers.append(copy)
        names = set(test.inputs) | {tensor.name for tensor in test.model.graph.initializer}
        names |= {output for node in test.model.graph.node for output in node.output}
        for node in test.model.graph.node:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            rename(copy, names)
            copy.name = f"{test.name} {node.name}"
            nodes.append(copy)
        for index, (name, value) in enumerate(test.outputs.items()):
            merger.fetch(value, prefix + name, f"{prefix}out{index}")
    # A program has an input.
    if not inputs:
        data["unused"] = np.zeros((1, 1), np.float32)
        inputs.append(onnx.helper.make_tensor_value_info("unused", 1, [1, 1]))
    graph = onnx.helper.make_graph(nodes, "tests", inputs, outputs, initializers)
    # Before opset 5, Reshape had no second input.
    versions = [("", max(5, tests[0].version)), *tests[0].versions]
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid(*pair) for pair in versions])
    model.ir_version = 8
    return model, data


def agree(got, want, name):
    """Whether the outputs under this name are these."""
    if isinstance(want, list):
        return got[f"{name}_n"].item() == len(want) and all(agree(got, part, f"{name}_{index}") for index, part in enumerate(want))
    found = got[name]
    if want.size == 0:
        return found.reshape(-1).tolist() == list(want.shape)
    want = as_fed(want)
    if found.dtype.kind == "V":
        # NumPy reads numbers that it does not know as bytes.
        found = found.view(want.dtype)
    if found.dtype != want.dtype or found.size != want.size:
        return False
    if want.dtype.kind in "fV":
        # Of numbers with 16 bits the last ones depend on where they were rounded.
        precision = 2 * float(ml_dtypes.finfo(want.dtype).eps)
        found, want = found.astype(np.float64), want.astype(np.float64)
        return np.allclose(found.reshape(want.shape), want, rtol=max(1e-3, precision), atol=1e-5, equal_nan=True)
    return np.array_equal(found.reshape(want.shape), want)


def execute(build, folder, tests, target):
    """Answers for tests of the same opsets that are imported."""
    model, data = merged(tests)
    path = pathlib.Path(tempfile.mkdtemp(dir=folder))
    onnx.save(model, path / "m.onnx")
    np.savez(path / "in.npz", **data)
    for command in (
        [build / "bin" / "pp-compile", path / "m.onnx", "-o", path / "m", f"--target={target}"],
        [path / "m", "infer", "--data", path / "in.npz", "--output", path / "out.npz", "--watchdog", 0, "--device", target],
    ):
        done = run(command)
        if done.returncode:
            if len(tests) == 1:
                errors = [line for line in done.stderr.splitlines() if "error: " in line]
                return {tests[0].name: f"fails: {errors or done.stderr}"}
            half = len(tests) // 2
            return execute(build, folder, tests[:half], target) | execute(build, folder, tests[half:], target)
    got = np.load(path / "out.npz")
    answers = {}
    for number, test in enumerate(tests):
        wants = enumerate(test.outputs.values())
        good = all(agree(got, want, f"t{number}_out{index}") for index, want in wants)
        answers[test.name] = "pass" if good else "wrong numbers"
    return answers


def classify(build, folder, test):
    model, _ = merged([test])
    path = folder / f"{test.name.replace(':', '-')}.onnx"
    onnx.save(model, path)
    done = run([build / "bin" / "pp-opt", path])
    if done.returncode == 0:
        return None
    errors = re.findall(r": error: (.*)", done.stderr)
    if done.returncode not in (1, 3) or not errors:
        return f"crashes: {done.stderr[-300:]}"
    if "depends on the data" in errors[0] and test.know_numbers():
        return classify(build, folder, test)
    # Without the names of nodes and files.
    return "refused: " + re.sub(r"^node [^:]*: ", "", errors[0])[:100]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--target", choices=["cpu", "mock"], default="cpu")
    parser.add_argument("--only", action="append", metavar="PATTERN", help="names such as 'test_gather*'; may be repeated")
    options = parser.parse_args()
    build = options.build.resolve()
    known = known_inputs(build)
    tests = find_tests(known, [*KINDS, LARGE] if options.all or options.update else KINDS)
    tests = [test for test in tests if any(fnmatch.fnmatch(test.name, pattern) for pattern in options.only or ["*"])]
    answers = {test.name: f"refused: {obstacle}" for test in tests if (obstacle := test.find_obstacle(known))}
    if not options.all and not options.update:
        answers = {name: answer for name, answer in answers.items() if not answer.startswith("refused: operator")}
    tests = [test for test in tests if not test.find_obstacle(known)]
    with tempfile.TemporaryDirectory() as name, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        folder = pathlib.Path(name)
        classes = list(pool.map(lambda test: classify(build, folder, test), tests))
        answers |= {test.name: answer for test, answer in zip(tests, classes) if answer}
        by_opset = collections.defaultdict(list)
        for test, answer in zip(tests, classes):
            if not answer:
                # What is large is compiled alone.
                by_opset[test.version, test.versions, test.name if test.name.startswith(LARGE) else None].append(test)
        for found in pool.map(lambda group: execute(build, folder, group, options.target), by_opset.values()):
            answers |= found
    if options.update:
        LIST.parent.mkdir(exist_ok=True)
        LIST.write_text("".join(f"{name} {answer}\n" for name, answer in sorted(answers.items())))
    expected = dict(line.split(" ", 1) for line in LIST.read_text().splitlines())
    faults = 0
    for name, answer in sorted(answers.items()):
        # Another version of the package may have other tests.
        is_right = answer == "pass" or answer.startswith("refused")
        wanted = expected.get(name, answer if is_right else "pass")
        if answer.split(":")[0] != wanted.split(":")[0] or not is_right:
            faults += 1
            print(f"{name}: {answer}, expected {wanted}")
    counts = collections.Counter(answer.split(":")[0] for answer in answers.values())
    print(f"onnx {onnx.__version__}: {counts['pass']} passed, {counts['refused']} refused, {faults} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()

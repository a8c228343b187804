#!/usr/bin/env python3
"""Trained weights go back into the ONNX file, and nothing else changes.

`train --export` and `export --load` write the same bytes, from stages and
processes in any number. Every field of the file is as it was, but for the values
of what is trained, which are the snapshot's, and what sets the model for
inference. The program that is compiled from the new file infers the bits of
`infer --load`, and trains on with those of a training without a pause.
With --onnxruntime, its outputs are compared with `infer`'s, too.
"""

import json
import pathlib
import struct
import sys

import numpy as np

import common
from common import MODELS, model_file

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "models" / "bad"))
sys.path.insert(0, str(HERE.parent / "fuzz"))
import make  # noqa: E402
import wire  # noqa: E402

# (model, exporter, stages)
CASES = [
    ("mlp", "external", 2), ("mlp", "dynamo.dynamic", 1), ("lenet", "torchscript", 3), ("lenet", "dynamo", 2),
    ("resnet18", "torchscript", 2), ("resnet18", "dynamo", 1), ("unet", "dynamo", 4), ("gpt", "torchscript", 2),
    ("gpt", "dynamo", 2), ("gpt_tied", "torchscript", 2), ("gpt_tied", "dynamo", 2),
]  # fmt: skip
QUICK = [("mlp", "external", 2), ("lenet", "dynamo", 2), ("gpt_tied", "dynamo", 2)]
TOLERANCE = 1e-5
ELEMENTS = {1: "<f4", 10: "<f2", 11: "<f8", 16: "bf16"}


class Onnx:
    """A file as a tree, without the values of its tensors, and these by name."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.tree = wire.decode(self.path.read_bytes())
        self.values = {}
        (graph,) = [value for number, _, value in self.tree if number == 7]
        self.take(graph)
        self.graph = graph

    def take(self, graph):
        for number, _, node in graph:
            if number == 1:
                for field, _, attribute in node:
                    if field == 5:
                        for inner, _, value in attribute:
                            if inner in (6, 11):
                                self.take(value)
            if number == 5:
                name, array = self.read(node)
                self.values[name] = array

    def read(self, tensor):
        """Its values, which are taken out of the tree."""
        get = lambda wanted: [value for number, _, value in tensor if number == wanted]  # noqa: E731
        dims, (kind,), (name,) = get(1), get(2), get(8)
        name = name.decode()
        data, form = b"", None
        if get(14) == [1]:
            entries = {bytes(entry[0][2]): bytes(entry[1][2]) for entry in get(13)}
            offset, length = int(entries.get(b"offset", b"0")), int(entries[b"length"])
            data = (self.path.parent / entries[b"location"].decode()).read_bytes()[offset : offset + length]
            form = "external", offset, length
            for entry in get(13):
                if bytes(entry[0][2]) == b"location":
                    entry[1][2] = b"elsewhere"
        elif get(9):
            (data,), form = get(9), "raw"
        elif get(4):
            form = "floats"
            for value in get(4):
                data += value if isinstance(value, bytes) else struct.pack("<I", value)
        elif get(5):
            form = "integers"
            for value in get(5):
                if isinstance(value, int):
                    data += struct.pack("<H", value)
                    continue
                at = 0
                while at < len(value):
                    number, at = wire.read_varint(value, at)
                    data += struct.pack("<H", number)
        elif get(10):
            form = "doubles"
            for value in get(10):
                data += value if isinstance(value, bytes) else struct.pack("<Q", value)
        tensor[:] = [field for field in tensor if field[0] not in (4, 5, 9, 10)]
        tensor.append([1000, 2, repr(form).encode()])
        if kind not in ELEMENTS:
            return name, data
        return name, np.frombuffer(data, "<u2" if ELEMENTS[kind] == "bf16" else ELEMENTS[kind]).reshape(dims)

    def nodes(self):
        return [node for number, _, node in self.graph if number == 1]


def kind_of(node):
    return next(bytes(value) for number, _, value in node if number == 4)


def strings(node, wanted):
    return [bytes(value) for number, _, value in node if number == wanted]


def set_for_inference(tree):
    """What the documentation says, of opsets from 14 on; returns how many nodes change."""
    changed = 0
    for node in tree.nodes():
        before = json.dumps(node, default=bytes.hex)
        if kind_of(node) == b"BatchNormalization":
            for _, _, attribute in [field for field in node if field[0] == 5]:
                if any(number == 1 and value == b"training_mode" for number, _, value in attribute):
                    for field in attribute:
                        if field[0] == 3:
                            field[2] = 0
            for extra in [field for field in node if field[0] == 2][1:]:
                node.remove(extra)
        if kind_of(node) == b"Dropout":
            for extra in [field for field in node if field[0] == 1][2:]:
                node.remove(extra)
        changed += json.dumps(node, default=bytes.hex) != before
    return changed


def check_file(checks, where, original, exported, snapshot, renamed):
    """The tree is as it was, and the values are the snapshot's."""
    before, after = Onnx(original), Onnx(exported)
    set_for_inference(before)
    checks.check(before.tree == after.tree, f"{where}: more than values has changed")
    trained = {n: t for n, t in common.read_safetensors(snapshot).items() if n and "#" not in n}
    expected = dict(before.values)
    for name, value in trained.items():
        other = renamed.get(name, {"initializer": name, "transposed": False})
        stored = before.values[other["initializer"]]
        value = value.T if other["transposed"] else value
        expected[other["initializer"]] = value.astype(stored.dtype) if stored.dtype != np.dtype("<u2") else value
    changed = 0
    for name, value in expected.items():
        found = after.values[name]
        same = found == value if isinstance(value, bytes) else found.tobytes() == value.tobytes()
        checks.check(same, f"{where}: '{name}' is not what was trained")
        changed += isinstance(value, bytes) or value.tobytes() != before.values[name].tobytes()
    checks.check(changed >= len(trained) / 2, f"{where}: training has changed {changed} of {len(trained)} tensors")


def bits(arrays):
    return {name: (array.shape, array.tobytes()) for name, array in arrays.items()}


def one_batch(context, model):
    """As many samples as a batch, so that each step has the same data."""
    with np.load(context.data(model)) as arrays:
        path = context.path(".npz")
        np.savez(path, **arrays)
        return path, len(arrays["target"])


def check_outputs(checks, where, exported, data, outputs, tolerance=TOLERANCE):
    """Against ONNX Runtime."""
    import onnx
    import onnxruntime

    onnx.checker.check_model(str(exported))
    session = onnxruntime.InferenceSession(str(exported), providers=["CPUExecutionProvider"])
    arrays = np.load(data)
    found = session.run(None, {value.name: arrays[value.name] for value in session.get_inputs()})
    for value, array in zip(session.get_outputs(), found):
        error = common.relative_error(outputs[value.name], array)
        checks.check(error <= tolerance, f"{where}: ONNX Runtime's '{value.name}' is off by {error:.3g}")


def run_case(context, checks, model, exporter, stages, compare):
    where = f"{model}.{exporter} S={stages}"
    original = model_file(model, exporter)
    data, batch = one_batch(context, model)
    options = {"batch": batch, "microbatches": 2, "learning_rate": 0.05, "loss": common.LOSS.get(model, "cross_entropy")}
    binary = context.compile(original, stages=stages, **options)
    folder = context.path()
    folder.mkdir()
    snapshot, first, second = folder / "s.safetensors", folder / "first.onnx", folder / "second.onnx"
    steps = ["--no-shuffle", "--epochs", 9]
    binary.train(data, *steps, "--steps", 2, "--save", snapshot, "--export", first)
    common.run([binary.path, "export", "--load", snapshot, "-o", second])
    checks.check(
        first.read_bytes().replace(b"first.onnx", b"second.onnx") == second.read_bytes() or first.read_bytes() == second.read_bytes()
        or Onnx(first).tree == Onnx(second).tree,
        f"{where}: train --export and export differ",
    )
    names = json.loads((MODELS / model / "names.json").read_text()).get(original.name, {})
    # The compiler takes the names of PyTorch where the file has others.
    known = {n for n in common.read_safetensors(snapshot) if n and "#" not in n}
    names = {n: o for n, o in names.items() if n in known and o["initializer"] not in known}
    check_file(checks, where, original, first, snapshot, names)

    again = context.compile(first, stages=1, **options)
    expected = binary.infer(data, context.path(".npz"), "--load", snapshot)
    found = again.infer(data, context.path(".npz"))
    checks.check(bits(found) == bits(expected), f"{where}: compiled again: other outputs")
    # Plain SGD has no state.
    whole, rest = folder / "whole.safetensors", folder / "rest.safetensors"
    binary.train(data, *steps, "--steps", 4, "--save", whole)
    again.train(data, *steps, "--steps", 2, "--save", rest)
    without = lambda path: {n: t for n, t in common.tensor_bytes(path).items() if "#" not in n}  # noqa: E731
    checks.check(without(rest) == without(whole), f"{where}: compiled again: trains with other bits")
    if compare:
        check_outputs(checks, where, first, data, expected)
    if stages > 1:
        third = folder / "third.onnx"
        binary.train(data, *steps, "--steps", 2, "--processes", 2, "--export", third)
        checks.check(Onnx(third).values.keys() == Onnx(first).values.keys() and all(
            np.asarray(Onnx(third).values[n]).tobytes() == np.asarray(v).tobytes() for n, v in Onnx(first).values.items()
        ), f"{where}: two processes export something else")  # fmt: skip


def half(array):
    """Numbers of f16 in int32_data."""
    return [int(bits) for bits in np.asarray(array, "<f2").view("<u2").ravel()]


def typed_model():
    """Every form of values that a file may have, a batch norm and a dropout that train."""
    rng = np.random.default_rng(3)
    new = lambda *shape: rng.uniform(-0.5, 0.5, shape).astype(np.float32)  # noqa: E731
    floats, packed, raw = new(4, 6), new(6), new(6, 5)
    typed = lambda name, dims, kind, *fields: make.message((1, dims), (2, kind), *fields, (8, name), (12, "kept"))  # noqa: E731
    initializers = [
        # One number after the other, packed, and both.
        typed("w1", [4, 6], 1, (4, [float(v) for v in floats.ravel()])),
        typed("b1", [6], 1, (4, packed.tobytes())),
        typed("scale", [6], 1, (4, [1.0, 1.5]), (4, struct.pack("<4f", 1, 0.5, 2, 1))),
        typed("shift", [6], 1, (4, np.zeros(6, "<f4").tobytes())),
        typed("mean", [6], 1, (9, np.zeros(6, "<f4").tobytes())),
        typed("variance", [6], 1, (9, np.ones(6, "<f4").tobytes())),
        typed("w2", [6, 5], 10, (5, half(raw))),
        typed("b2", [5], 10, (9, np.asarray(new(5), "<f2").tobytes())),
        typed("ratio", [], 1, (4, [0.25])), typed("trains", [], 9, (5, [1])),
    ]  # fmt: skip
    nodes = [
        make.node("Gemm", ["x", "w1", "b1"], ["a"]),
        make.node("BatchNormalization", ["a", "scale", "shift", "mean", "variance"], ["n", "m", "v"], attributes=[make.integer("training_mode", 1)]),
        make.node("Dropout", ["n", "ratio", "trains"], ["d"]),
        make.node("Cast", ["d"], ["h"], attributes=[make.integer("to", 10)]),
        make.node("Gemm", ["h", "w2", "b2"], ["g"]),
        make.node("Cast", ["g"], ["y"], attributes=[make.integer("to", 1)]),
    ]
    body = make.graph(nodes, inputs=[make.value("x", [8, 4])], outputs=[make.value("y", [8, 5])], initializers=initializers)
    # Fields that nobody knows, and the operators' versions behind the graph.
    return make.message((1, 8), (7, body), (8, make.opset(17)), (2, "by hand"), (900, "kept"))


def check_typed(context, checks, compare):
    folder = context.path()
    folder.mkdir()
    original, exported, snapshot = folder / "typed.onnx", folder / "out.onnx", folder / "s.safetensors"
    original.write_bytes(typed_model())
    data = folder / "data.npz"
    rng = np.random.default_rng(1)
    np.savez(data, x=rng.standard_normal((8, 4), np.float32), target=rng.integers(0, 5, 8))
    binary = context.compile(original, loss="cross_entropy", learning_rate=0.5, stages=2)
    binary.train(data, "--steps", 3, "--epochs", 3, "--save", snapshot, "--export", exported)
    check_file(checks, "typed", original, exported, snapshot, {})
    after = Onnx(exported)
    (norm,) = [node for node in after.nodes() if kind_of(node) == b"BatchNormalization"]
    (dropout,) = [node for node in after.nodes() if kind_of(node) == b"Dropout"]
    checks.equal(strings(norm, 2), [b"n"], "outputs of the batch norm")
    checks.equal(strings(dropout, 1), [b"n", b"ratio"], "inputs of the dropout")
    expected = binary.infer(data, folder / "o.npz", "--load", snapshot)
    # 16 bits of a weight are fewer than those that were trained.
    again = context.compile(exported, loss="cross_entropy", stages=1)
    found = again.infer(data, folder / "p.npz")
    error = common.relative_error(found["y"], expected["y"])
    checks.check(error < 2e-3, f"typed: compiled again: outputs are off by {error:.3g}")
    if compare:
        # Products of 16 bits are added up in another way there.
        check_outputs(checks, "typed", exported, data, found, tolerance=2e-3)


def model_of(areNodes):
    """Weights as Constant nodes, as Paddle's converter writes them, or as initializers."""
    rng = np.random.default_rng(4)
    sizes = {"w": [4, 6], "b": [6], "gain": [6], "shift": [6], "mean": [6], "spread": [6], "v": [6, 5]}
    weights = [make.message((1, dims), (2, 1), (8, "" if areNodes else name), (9, rng.uniform(0.5, 1, dims).astype("<f4").tobytes())) for name, dims in sizes.items()]
    one = make.message((1, []), (2, 1), (9, np.float32(0.5).tobytes()))
    constant = lambda name, tensor: make.node("Constant", [], [name], attributes=[make.message((1, "value"), (5, tensor), (20, 4))])  # noqa: E731
    nodes = [
        constant("half", one), *(constant(name, tensor) for name, tensor in zip(sizes, weights) if areNodes),
        make.node("MatMul", ["x", "w"], ["a"]), make.node("Add", ["a", "b"], ["h"]),
        make.node("BatchNormalization", ["h", "gain", "shift", "mean", "spread"], ["n"]), make.node("Mul", ["n", "half"], ["m"]), make.node("MatMul", ["m", "v"], ["y"]),
    ]  # fmt: skip
    return make.model(make.graph(nodes, inputs=[make.value("x", [8, 4])], outputs=[make.value("y", [8, 5])], initializers=[] if areNodes else weights))


def check_constants(context, checks):
    folder = context.path()
    folder.mkdir()
    rng = np.random.default_rng(1)
    data = folder / "data.npz"
    np.savez(data, x=rng.standard_normal((8, 4), np.float32), target=rng.integers(0, 5, 8))
    found = []
    for areNodes in (False, True):
        original, exported, snapshot = (folder / f"{areNodes}{ending}" for ending in (".onnx", ".out.onnx", ".safetensors"))
        original.write_bytes(model_of(areNodes))
        binary = context.compile(original, loss="cross_entropy", learning_rate=0.5, stages=2)
        binary.train(data, "--steps", 3, "--epochs", 3, "--save", snapshot, "--export", exported)
        expected = bits(binary.infer(data, folder / "o.npz", "--load", snapshot))
        again = context.compile(exported, loss="cross_entropy", stages=1)
        checks.check(bits(again.infer(data, folder / "p.npz")) == expected, f"constants, nodes={areNodes}: the exported model has other outputs")
        checks.equal(exported.stat().st_size, original.stat().st_size, f"constants, nodes={areNodes}: size of the exported file")
        found.append((common.tensor_bytes(snapshot), expected))
    checks.check(found[0] == found[1], "constants: trains with other bits than initializers")
    trained = common.read_safetensors(snapshot)
    checks.equal(sorted(n for n in trained if n and "#" not in n), ["b", "gain", "mean", "shift", "spread", "v", "w"], "constants: what the snapshot has")


def check_merged(context, checks):
    """PyTorch's exporter merges norms of a fresh model, and transposes weights: all get back to where the module has them."""
    import onnx
    import torch

    torch.manual_seed(0)

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.LayerNorm(8), torch.nn.LayerNorm(8)
            self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

        def forward(self, x):
            return self.down(torch.tanh(self.up(self.first(x)))) + self.second(torch.tanh(x))

    for external in (False, True):
        where = f"merged, external={external}"
        folder = context.path()
        folder.mkdir()
        module = Block()
        original, exported, snapshot = folder / "m.onnx", folder / "out.onnx", folder / "s.safetensors"
        x = torch.randn(4, 3, 8)
        torch.onnx.export(module, (x,), original, dynamo=True, input_names=["x"], output_names=["y"], external_data=external)
        count = len(onnx.load(original, load_external_data=False).graph.initializer)
        data = folder / "d.npz"
        np.savez(data, x=x.numpy(), target=np.zeros((4, 3, 8), np.float32))
        binary = context.compile(original, loss="mse", learning_rate=0.5, stages=2)
        binary.train(data, "--no-shuffle", "--steps", 3, "--epochs", 3, "--save", snapshot, "--export", exported)
        tensors = {n: t for n, t in common.read_safetensors(snapshot).items() if n and "#" not in n}
        checks.equal(sorted(tensors), sorted(module.state_dict()), f"{where}: names")
        checks.check(count < len(tensors), f"{where}: the exporter has merged nothing")
        module.load_state_dict({n: torch.tensor(t) for n, t in tensors.items()})
        expected = binary.infer(data, folder / "o.npz", "--load", snapshot)
        error = common.relative_error(expected["y"], module(x).detach().numpy())
        checks.check(error <= TOLERANCE, f"{where}: PyTorch's output is off by {error:.3g}")
        check_outputs(checks, where, exported, data, expected)
        again = context.compile(exported, loss="mse", learning_rate=0.5, stages=1)
        checks.check(bits(again.infer(data, folder / "p.npz")) == bits(expected), f"{where}: compiled again: other outputs")
        whole, rest = folder / "whole.safetensors", folder / "rest.safetensors"
        binary.train(data, "--no-shuffle", "--steps", 5, "--epochs", 5, "--save", whole)
        again.train(data, "--no-shuffle", "--steps", 2, "--epochs", 5, "--save", rest)
        without = lambda path: {n: t for n, t in common.tensor_bytes(path).items() if "#" not in n}  # noqa: E731
        checks.check(without(rest) == without(whole), f"{where}: compiled again: trains with other bits")


def check_errors(context, checks):
    original = model_file("lenet")
    folder = context.path()
    folder.mkdir()
    model = folder / "lenet.torchscript.onnx"
    model.write_bytes(original.read_bytes())
    binary = context.path()
    common.run([context.compiler, model, "--loss=cross_entropy", "--batch=4", "--microbatches=2", "-o", binary])
    data = folder / "data.npz"
    arrays = np.load(context.data("lenet"))
    np.savez(data, **{name: array[:4] for name, array in arrays.items()})
    snapshot, out = folder / "s.safetensors", folder / "out.onnx"
    common.run([binary, "train", "--data", data, "--steps", 1, "--save", snapshot])

    def refused(what, code, *fragments, arguments=(), command=None):
        import subprocess

        command = command or ["export", "--load", snapshot, "-o", out, *arguments]
        done = subprocess.run([str(c) for c in [binary, *command]], capture_output=True, text=True, timeout=120)
        checks.equal(done.returncode, code, f"{what}: exit code")
        for fragment in fragments:
            checks.check(fragment in done.stderr, f"{what}: the message lacks '{fragment}': {done.stderr}")
        checks.check(not list(folder.glob("out*")), f"{what}: leaves {list(folder.glob('out*'))}")

    content = model.read_bytes()
    refused("its own file", 2, "own file", command=["export", "--load", snapshot, "-o", model])
    refused("before it trains", 2, "own file", command=["train", "--data", data, "--export", model])
    checks.check(model.read_bytes() == content, "the model was written over")
    refused("no such weights", 4, "none.safetensors", command=["export", "--load", folder / "none.safetensors", "-o", out])
    refused("no output", 2, "--output", command=["export", "--load", snapshot])
    tensors = {n: t for n, t in common.read_safetensors(snapshot).items() if n and "#" not in n}
    names = sorted(tensors)
    few = folder / "few.safetensors"
    common.write_safetensors(few, {n: tensors[n] for n in names[2:]})
    refused("missing tensors", 1, names[0], names[1], "missing", command=["export", "--load", few, "-o", out])
    common.write_safetensors(few, {**tensors, names[0]: np.zeros(3, np.float32)})
    refused("another shape", 1, names[0], "[3]", command=["export", "--load", few, "-o", out])
    for name, text in {"garbage": b"\xff\x00garbage", "empty": b"", "cut": content[: len(content) // 2]}.items():
        bad = folder / name
        bad.write_bytes(text)
        refused(name, 1, str(bad), "not an ONNX file", arguments=["--model", bad])
    other = model_file("mlp")
    refused("another model", 1, "is not the model", "--model", arguments=["--model", other])
    # One bit of a weight.
    weight = next(tensors[n] for n in names if tensors[n].ndim == 4)
    changed = bytearray(content)
    at = content.find(Onnx(original).values[next(n for n in names if tensors[n].ndim == 4)].tobytes())
    changed[at] ^= 1
    model.write_bytes(changed)
    refused("other values", 1, "other values", next(n for n in names if tensors[n].ndim == 4), "--no-verify-weights")
    model.write_bytes(content + make.message((900, "more")))
    refused("a longer file", 1, "bytes, and had")
    moved = folder / "elsewhere"
    moved.mkdir()
    model.rename(moved / model.name)
    refused("moved", 1, "is not there", "--model")
    for arguments in (["--weights", moved], ["--model", moved / model.name]):
        (moved / model.name).write_bytes(content)
        common.run([binary, "export", "--load", snapshot, "-o", out, *arguments])
        check_file(checks, "moved", original, out, snapshot, {})
        out.unlink()
    del weight


def check_hostile(context, checks):
    """Files with any byte changed are refused, or written with the same size."""
    import subprocess

    original = model_file("mlp").read_bytes()
    folder = context.path()
    folder.mkdir()
    data, batch = one_batch(context, "mlp")
    binary = context.compile(model_file("mlp"), loss="cross_entropy", batch=batch, stages=2)
    snapshot = folder / "s.safetensors"
    binary.train(data, "--steps", 1, "--save", snapshot)
    rng = np.random.default_rng(5)
    model = folder / "mlp.torchscript.onnx"
    for round in range(60):
        text = bytearray(original)
        # Mostly not in the values.
        for _ in range(3):
            text[int(rng.integers(0, len(text)) ** (0.4 if round % 2 else 1))] = int(rng.integers(0, 256))
        model.write_bytes(text)
        done = subprocess.run(
            [binary.path, "export", "--load", snapshot, "-o", folder / "out.onnx", "--model", model, "--no-verify-weights"],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        checks.check(done.returncode in (0, 1, 4), f"changed bytes, round {round}: exit code {done.returncode}: {done.stderr}")
        checks.check(done.returncode == 0 or "error:" in done.stderr, f"changed bytes, round {round}: says nothing")


def test(context, checks, arguments):
    check_typed(context, checks, arguments.onnxruntime)
    if arguments.onnxruntime:
        check_merged(context, checks)
    if not arguments.onnxruntime:
        check_constants(context, checks)
        check_errors(context, checks)
        check_hostile(context, checks)

    def guarded(case):
        try:
            run_case(context, checks, *case, arguments.onnxruntime)
        except common.Failure as failure:
            checks.check(False, f"{case}: {failure}")

    list(context.map(guarded, QUICK if arguments.quick else CASES))


def add_options(parser):
    parser.add_argument("--onnxruntime", action="store_true", help="compare outputs with ONNX Runtime")


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0], add_options)

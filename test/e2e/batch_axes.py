"""Models whose inputs or outputs do not all have the samples on axis 0.

    batch_axes.py BUILD

A recurrent model takes steps first, then samples, beside a table that is the same
for all samples. As it stands it is one micro-batch. With --batch-axis it runs in several, on two stages,
and has the same outputs and gradients. Outputs whose samples lie beside other rows, or behind them, are recognised: they have the rows
of all samples, where the model has them, and targets of a loss have the samples first.
"""

import pathlib
import subprocess
import sys

import numpy as np

import common

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import INT64, graph, integer, integers, model, node, opset, tensor, untyped, value  # noqa: E402

F = np.float32
STEPS, SAMPLES, WIDTH, HIDDEN, CLASSES = 5, 4, 3, 6, 7


def recurrent(path):
    rng = np.random.default_rng(0)
    weights = {"w": (1, 3 * HIDDEN, WIDTH), "r": (1, 3 * HIDDEN, HIDDEN), "b": (1, 6 * HIDDEN)}
    initializers = [
        tensor(name, list(shape), floats=[float(x) for x in rng.uniform(-0.5, 0.5, np.prod(shape))]) for name, shape in weights.items()
    ]
    nodes = [
        node("GRU", ["x", "w", "r", "b", "", "state"], ["all"], attributes=[integer("hidden_size", HIDDEN)]),
        node("Squeeze", ["all"], ["states"], attributes=[integers("axes", 1)]),
        node("MatMul", ["states", "table"], ["out"]),
    ]
    inputs = [value("x", [STEPS, SAMPLES, WIDTH]), value("state", [1, SAMPLES, HIDDEN]), value("table", [HIDDEN, CLASSES])]
    path.write_bytes(model(graph(nodes, inputs=inputs, outputs=[untyped("out")], initializers=initializers), opsets=[opset(12)]))
    return path


def rows(path, kind, sizes=(SAMPLES, STEPS)):
    """Gives steps of each sample: as rows of the samples, with the steps first, as an axis before them, or behind."""
    rng = np.random.default_rng(0)
    weights = tensor("w", [WIDTH, CLASSES], floats=[float(x) for x in rng.uniform(-0.5, 0.5, WIDTH * CLASSES)])
    names = iter("abc")
    nodes = [node("MatMul", ["x", "w"], ["a"])]
    last = next(names)
    if kind in ("steps x samples", "steps"):
        nodes.append(node("Transpose", [last], [last := next(names)], attributes=[integers("perm", 1, 0, 2)]))
    if kind in ("samples x steps", "steps x samples"):
        nodes.append(node("Reshape", [last, "shape"], [last := next(names)]))
    nodes.append(node("Tanh", [last], ["out"]))
    shape = tensor("shape", [2], ints=[-1, CLASSES], dtype=INT64)
    inputs = [value("x", [*sizes, WIDTH])]
    path.write_bytes(model(graph(nodes, inputs=inputs, outputs=[untyped("out")], initializers=[weights, shape]), opsets=[opset(12)]))
    return path


def test_rows(context, checks):
    rng = np.random.default_rng(1)
    count = 3 * SAMPLES
    data = {"x": rng.standard_normal((count, STEPS, WIDTH)).astype(F), "target": rng.standard_normal((count, STEPS, CLASSES)).astype(F)}
    archive = context.path(".npz")
    np.savez(archive, **data)
    wanted = None
    for kind in ("samples", "samples x steps", "steps x samples", "steps"):
        path = rows(context.path(".onnx"), kind)
        for options in ({}, {"microbatches": 4, "stages": 2}):
            binary = context.path()
            flags = {"batch": SAMPLES, "loss": "mse", "optimizer": "sgd", **options}
            common.run([context.compiler, path, "-o", binary, *context.arguments(flags)])
            binary = common.Binary(binary)
            out = binary.infer(archive, context.path(".npz"))["out"]
            found = gradients(context, binary, archive)[1]
            if wanted is None:
                wanted = out, found
            expected = wanted[0] if kind.startswith("samples") else wanted[0].swapaxes(0, 1)
            if "x" in kind:
                expected = expected.reshape(-1, CLASSES)
            checks.check(out.shape == expected.shape and np.allclose(out, expected, atol=1e-6), f"{kind}, {options}: outputs")
            for name, array in wanted[1].items():
                error = common.relative_error(found[name], array)
                checks.check(error <= 1e-5, f"{kind}, {options}: gradient of {name}: relative error {error:.1e}")


def test_sizes(context, checks):
    """A program for several numbers of steps, and data of another one."""
    x = np.random.default_rng(1).standard_normal((3 * SAMPLES, STEPS - 1, WIDTH)).astype(F)
    archive = context.path(".npz")
    np.savez(archive, x=x)
    outputs = []
    for kind in ("samples", "samples x steps", "steps x samples"):
        binary = context.path()
        path = rows(context.path(".onnx"), kind, ("samples", "steps"))
        common.run([context.compiler, path, "-o", binary, f"--batch={SAMPLES}", f"--dim=steps=2,{STEPS}"])
        outputs.append(common.Binary(binary).infer(archive, context.path(".npz"))["out"])
    plain, merged, behind = outputs
    checks.check(np.array_equal(merged, plain.reshape(-1, CLASSES)), "several sizes: samples x steps")
    checks.check(np.array_equal(behind, plain.swapaxes(0, 1).reshape(-1, CLASSES)), "several sizes: steps x samples")


def mixed(path):
    """Gives rows of its samples that were mixed, so that nothing says whose they are."""
    nodes = [
        node("Reshape", ["x", "pairs"], ["a"]),
        node("Softmax", ["a"], ["b"], attributes=[integer("axis", 1)]),
        node("Reshape", ["b", "rows"], ["out"]),
    ]
    shapes = [tensor("pairs", [2], ints=[2, -1], dtype=INT64), tensor("rows", [2], ints=[-1, 1], dtype=INT64)]
    inputs = [value("x", [SAMPLES, WIDTH])]
    path.write_bytes(model(graph(nodes, inputs=inputs, outputs=[untyped("out")], initializers=shapes), opsets=[opset(13)]))
    return path


def test_mixed(context, checks):
    binary = context.path()
    common.run([context.compiler, mixed(context.path(".onnx")), "-o", binary])
    for samples, code, text in (
        (SAMPLES, 0, ""),
        (SAMPLES - 1, 0, "warning: 'node_a' mixes samples"),
        (3 * SAMPLES, 1, f"output 'out' [12, 1] has no axis that is that of the samples, but is another one for each mini-batch: give {SAMPLES}"),
    ):
        archive = context.path(".npz")
        np.savez(archive, x=np.random.default_rng(2).standard_normal((samples, WIDTH)).astype(F))
        done = subprocess.run(
            [binary, "infer", "--data", archive, "--output", context.path(".npz")], capture_output=True, text=True
        )
        checks.check(done.returncode == code and text in done.stderr, f"{samples} samples: {done.returncode}, {done.stderr}")


def test_centred(context, checks):
    """A sample less the mean of its mini-batch: infer says that another size of these has other results."""
    path, binary, out = (context.path(suffix) for suffix in (".onnx", "", ".npz"))
    nodes = [node("ReduceMean", ["x"], ["mean"], attributes=[integers("axes", 0)]), node("Sub", ["x", "mean"], ["out"])]
    path.write_bytes(model(graph(nodes, inputs=[value("x", [SAMPLES, WIDTH])], outputs=[untyped("out")]), opsets=[opset(12)]))
    common.run([context.compiler, path, "-o", binary])
    for batches in (1, 2):
        archive, x = context.path(".npz"), np.random.default_rng(3).standard_normal((batches, SAMPLES, WIDTH)).astype(F)
        np.savez(archive, x=x.reshape(-1, WIDTH))
        done = subprocess.run([binary, "infer", "--data", archive, "--output", out], capture_output=True, text=True)
        text = f"mixes samples; the {batches * SAMPLES} samples were computed in mini-batches of {SAMPLES}: in others"
        checks.check(done.returncode == 0 and (text in done.stderr) == (batches > 1), f"{batches} batches: {done.stderr}")
        want = (x - x.mean(1, keepdims=True)).reshape(-1, WIDTH)
        checks.check(np.allclose(np.load(out)["out"], want, atol=1e-6), f"{batches} batches: other numbers")


def test_sums(context, checks):
    """An output that adds up samples is that of the last mini-batch, and infer says so."""
    path, binary, archive, out = (context.path(suffix) for suffix in (".onnx", "", ".npz", ".npz"))
    nodes = [node("ReduceSum", ["x"], ["out"], attributes=[integer("keepdims", 0)])]
    path.write_bytes(model(graph(nodes, inputs=[value("x", [SAMPLES, WIDTH])], outputs=[untyped("out")]), opsets=[opset(12)]))
    common.run([context.compiler, path, "-o", binary])
    np.savez(archive, x=np.arange(2 * SAMPLES * WIDTH, dtype=F).reshape(-1, WIDTH))
    done = subprocess.run([binary, "infer", "--data", archive, "--output", out], capture_output=True, text=True)
    text = "warning: output 'out' has no axis of samples, and another value in each mini-batch: this is that of the last one"
    checks.check(done.returncode == 0 and text in done.stderr, f"a sum: {done.returncode}, {done.stderr}")


def data_of(samples):
    rng = np.random.default_rng(1)

    def draw(*shape):
        return rng.standard_normal(shape).astype(F)

    arrays = {"x": draw(STEPS, samples, WIDTH), "state": draw(1, samples, HIDDEN), "target": draw(STEPS, samples, CLASSES)}
    return arrays, {"table": draw(HIDDEN, CLASSES)}


def write(context, arrays, shared, samples_first):
    path = context.path(".npz")
    np.savez(path, **shared, **{name: array.swapaxes(0, 1) if samples_first else array for name, array in arrays.items()})
    return path


def gradients(context, binary, data):
    path = context.path(".safetensors")
    (line,) = binary.train(data, "--no-shuffle", "--steps", 1, "--dump-gradients", path)
    return line["loss"], {name: array for name, array in common.read_safetensors(path).items() if name is not None}


def test(context, checks, arguments):
    test_rows(context, checks)
    test_sizes(context, checks)
    test_mixed(context, checks)
    test_centred(context, checks)
    test_sums(context, checks)
    path = recurrent(context.path(".onnx"))
    arrays, shared = data_of(SAMPLES)
    plain = write(context, arrays, shared, False)
    moved = write(context, arrays, shared, True)
    axes = ["--batch-axis=x=1", "--batch-axis=state=1", "--batch-axis=out=1"]

    def compile_(flags, **options):
        binary = context.path()
        common.run([context.compiler, path, "-o", binary, *flags, *context.arguments(options)])
        return common.Binary(binary)

    wanted = compile_([]).infer(plain, context.path(".npz"))["out"]
    first = compile_(axes)
    found = first.infer(moved, context.path(".npz"))["out"]
    checks.check(np.allclose(found.swapaxes(0, 1), wanted, atol=1e-6), "outputs with the samples first")
    # More samples than the program's.
    more, _ = data_of(3 * SAMPLES)
    found = first.infer(write(context, more, shared, True), context.path(".npz"))["out"]
    parts = [{name: array[:, at : at + SAMPLES] for name, array in more.items()} for at in range(0, 3 * SAMPLES, SAMPLES)]
    wanted = [first.infer(write(context, part, shared, True), context.path(".npz"))["out"] for part in parts]
    checks.check(np.array_equal(found, np.concatenate(wanted)), "outputs of several mini-batches")

    training = {"loss": "mse", "optimizer": "sgd"}
    loss, wanted = gradients(context, compile_([], microbatches=1, **training), plain)
    for options in ({"microbatches": 1}, {"microbatches": 4, "stages": 2}):
        binary = compile_(axes, batch=SAMPLES, **options, **training)
        other, found = gradients(context, binary, moved)
        checks.check(abs(other - loss) <= 1e-6 * abs(loss), f"{options}: loss {other} instead of {loss}")
        checks.equal(sorted(found), sorted(wanted), f"{options}: parameters")
        for name, array in wanted.items():
            error = common.relative_error(found[name], array)
            checks.check(error <= 1e-5, f"{options}: gradient of {name}: relative error {error:.1e}")


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

#!/usr/bin/env python3
"""What programs draw at random: the numbers of a generator written here, the same for every cut.

    random_numbers.py BUILD

A model whose dropouts have the samples on the first axis, on the second, and as either
factor of an axis is trained, and compared with NumPy, which draws the masks itself.
Stages, schedules, recomputation, replicas, threads, devices and a pause change no
bit, another number of micro-batches no mask. And what inference programs draw.
"""

import pathlib
import sys

import numpy as np

import common
import philox

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import FLOAT, INT64, graph, integer, integers, message, model, node, opset, tensor, untyped, value  # noqa: E402

F = np.float32
CODES = {"float32": FLOAT, "int64": INT64, "bool": 9, "float64": 11}
BATCH, TOKENS, WIDTH, CLASSES = 16, 64, 64, 5
SEED, OWN_SEED, STEPS = 2**32 + 11, 2**33 + 7, 3
RATIOS = (0.25, 0.5, 0.125, 0.75)


def number(name, number_):
    return message((1, name), (2, float(number_)), (20, 1))


def save(context, nodes, inputs, outputs, constants, version):
    def constant(name, array):
        return tensor(name, list(array.shape), raw=array.tobytes(), dtype=CODES[array.dtype.name])

    infos = [value(name, list(array.shape), CODES[array.dtype.name]) for name, array in inputs.items()]
    initializers = [constant(name, np.asarray(array)) for name, array in constants.items()]
    body = graph(nodes, inputs=infos, outputs=[untyped(name) for name in outputs], initializers=initializers)
    path = context.path(".onnx")
    path.write_bytes(model(body, opsets=[opset(version)]))
    return path


class Network:
    """A layer, four dropouts, each of the same samples in another form, and a second layer."""

    def __init__(self):
        rng = np.random.default_rng(1)
        self.first = (rng.standard_normal((WIDTH, WIDTH)) / 8).astype(F)
        self.second = (rng.standard_normal((WIDTH, CLASSES)) / 8).astype(F)
        self.x = rng.standard_normal((2 * BATCH, TOKENS, WIDTH)).astype(F)
        self.target = rng.integers(0, CLASSES, 2 * BATCH)

    def save(self, context, version=17):
        constants = {
            "first": self.first, "second": self.second, "merged": np.array([BATCH * TOKENS, WIDTH]),
            "samples": np.array([BATCH, TOKENS, WIDTH]), "tokens": np.array([TOKENS, BATCH, WIDTH]), "active": np.array(True),
            **{f"ratio{i}": np.array(ratio, F) for i, ratio in enumerate(RATIOS)},
        }  # fmt: skip
        nodes = []

        def add(operator, operands, output, *attributes):
            nodes.append(node(operator, operands, [output], attributes=attributes))

        def dropout(i, operand):
            if version < 12:
                add("Dropout", [operand], f"d{i}", number("ratio", RATIOS[i]))
            else:
                seed = [integer("seed", OWN_SEED)] if i == 1 else []
                # As PyTorch writes the dropout of attention.
                add("Dropout", [operand, f"ratio{i}", "active"][: 2 if i == 3 else 3], f"d{i}", *seed)

        swapped = integers("perm", 1, 0, 2)
        add("MatMul", ["x", "first"], "h")
        add("Relu", ["h"], "r")
        dropout(0, "r")
        add("Reshape", ["d0", "merged"], "m")
        dropout(1, "m")
        add("Reshape", ["d1", "samples"], "s")
        add("Transpose", ["s"], "t", swapped)
        dropout(2, "t")
        add("Reshape", ["d2", "merged"], "c")
        dropout(3, "c")
        add("Reshape", ["d3", "tokens"], "a")
        add("ReduceMean", ["a"], "p", integers("axes", 0), integer("keepdims", 0))
        add("MatMul", ["p", "second"], "y")
        return save(context, nodes, {"x": self.x[:BATCH]}, ["y"], constants, version)

    def compute(self, rows, step=None, own=OWN_SEED):
        """Output, loss and gradients of a mini-batch; without a step nothing is dropped."""
        x, target = self.x[rows].astype(np.float64), self.target[rows]
        scale = np.ones((BATCH, TOKENS, WIDTH))
        for i, ratio in enumerate(RATIOS if step else ()):
            drawn = philox.uniform(TOKENS * WIDTH, np.arange(BATCH), step, i, SEED, own if i == 1 else 0)
            scale *= (drawn >= F(ratio)).reshape(scale.shape) / (1 - ratio)
        h = x @ self.first
        pooled = (np.maximum(h, 0) * scale).mean(1)
        y = pooled @ self.second
        shares = np.exp(y - y.max(1, keepdims=True))
        shares /= shares.sum(1, keepdims=True)
        at = np.arange(BATCH), target
        loss = -np.log(shares[at]).mean()
        shares[at] -= 1
        gradient = shares / BATCH
        inner = (gradient @ self.second.T)[:, None] / TOKENS * scale * (h > 0)
        return y, loss, {"first": np.einsum("bti,btj->ij", x, inner), "second": pooled.T @ gradient}


def generator(checks):
    for counter, key, want in philox.KNOWN_ANSWERS:
        got = tuple(int(word) for word in philox.philox(counter, key))
        checks.equal(got, want, "Philox's known answers")
    drawn = philox.uniform(100000, np.arange(4), 1, 0)
    checks.check(np.abs(drawn.mean(1) - 0.5).max() < 0.005, f"the means of {drawn.mean(1)}")


def read(context, binary, data, *arguments, steps=STEPS):
    snapshot, gradients = context.path(".safetensors"), context.path(".safetensors")
    lines = binary.train(
        data, "--seed", SEED, "--no-shuffle", "--steps", steps, "--epochs", STEPS, "--log-bits", "--save", snapshot,
        "--dump-gradients", gradients, *arguments,
    )  # fmt: skip
    lines = [line for line in lines if "loss_bits" in line]
    bits = [line["loss_bits"] for line in lines], common.tensor_bytes(snapshot)
    return bits, [line["loss"] for line in lines], common.read_safetensors(gradients), snapshot


def training(context, checks, quick):
    network = Network()
    file = network.save(context)
    data = context.path(".npz")
    np.savez(data, x=network.x, target=network.target)

    def compile(file=file, **options):
        return context.compile(file, **{
            "loss": "cross_entropy", "optimizer": "sgd", "learning_rate": 0, "batch": BATCH, "microbatches": 4, **options,
        })  # fmt: skip

    def reference(checks, where, found, own=OWN_SEED):
        """With a learning rate of 0, steps differ by samples and masks."""
        _, losses, gradients, _ = found
        for step in range(1, STEPS + 1):
            rows = np.arange(BATCH) + (step - 1) % 2 * BATCH
            _, loss, want = network.compute(rows, step, own)
            checks.check(abs(losses[step - 1] - loss) < 1e-5, f"{where}: loss {losses[step - 1]} instead of {loss}")
        for name, array in want.items():
            error = common.relative_error(gradients[name], array)
            checks.check(error < 1e-5, f"{where}: the gradient of {name} is off by {error:.1e}")

    base = compile()
    expected = read(context, base, data)
    reference(checks, "one stage", expected)
    output = base.infer(data, context.path(".npz"))["y"]
    want = np.concatenate([network.compute(np.arange(BATCH) + first)[0] for first in (0, BATCH)])
    checks.check(np.allclose(output, want, atol=1e-5), "an inference program drops something")

    # What is computed again draws again, and nothing keeps masks.
    cases = {
        "2 stages": {"stages": 2}, "recomputed": {"stages": 3, "checkpoint": "always", "schedule": "gpipe"},
        "zero-bubble": {"stages": 2, "schedule": "zb-h1"}, "2 threads": {"threads_per_stage": 2},
        "4 replicas": {"replicas": 4}, "4 replicas of 2 stages": {"replicas": 4, "stages": 2},
    }  # fmt: skip
    for where, options in list(cases.items())[: 2 if quick else None]:
        binary = compile(**options)
        checks.check(read(context, binary, data)[0] == expected[0], f"{where}: other bits")
        if where == "2 stages":
            checks.check(read(context, binary, data, "--device", "mock")[0] == expected[0], "mock device: other bits")
            checks.check(read(context, binary, data, "--processes", 2)[0] == expected[0], "2 processes: other bits")
    # A pause: the step goes on.
    half = read(context, base, data, steps=STEPS - 1)[3]
    resumed = read(context, base, data, "--resume", half)[0]
    checks.equal(resumed[0], expected[0][0][-1:], "resumed: the losses")
    checks.check(resumed[1] == expected[0][1], "resumed: other tensors")
    # Other micro-batches add in another order, with the masks of the same samples.
    for count in (1, 16):
        reference(checks, f"{count} micro-batches", read(context, compile(microbatches=count), data))
    if quick:
        return
    reference(checks, "2 replicas", read(context, compile(replicas=2), data))
    reference(checks, "mock target", read(context, compile(target="mock", stages=2), data, "--device", "mock"))
    reference(checks, "opset 7", read(context, compile(network.save(context, 7)), data), own=0)


def drawing(context, checks, quick):
    """Inference programs draw with seed 0, in each mini-batch as in a step."""
    rng = np.random.default_rng(2)
    shapes = [(6, 1), (6, 3), (6, 2, 9)] if quick else [(6, 1), (6, 2), (6, 3), (6, 5), (6, 7, 5), (6, 2, 9), (6, 1, 1, 8)]
    inputs, nodes, constants = {}, [], {}
    for i, shape in enumerate(shapes):
        inputs[f"x{i}"] = rng.standard_normal(shape).astype(F)
        nodes.append(node("RandomUniformLike", [f"x{i}"], [f"u{i}"]))
        # The sum belongs to samples, so what is drawn does.
        nodes.append(node("Mul", [f"x{i}", "zero"], [f"z{i}"]))
        nodes.append(node("Add", [f"z{i}", f"u{i}"], [f"y{i}"]))
    # Of samples that are a factor of an axis, broadcast along another one.
    inputs["v"], inputs["w"] = rng.standard_normal((6, 5)).astype(F), rng.standard_normal((6, 5, 3)).astype(F)
    constants |= {"flat": np.array([30]), "rows": np.array([30, 3]), "cube": np.array([6, 5, 3])}
    swapped = integers("perm", 1, 0)
    nodes += [
        node("Reshape", ["v", "flat"], ["vf"]), node("RandomUniformLike", ["vf"], ["vu"]),
        node("Reshape", ["w", "rows"], ["wr"]), node("Transpose", ["wr"], ["wt"], attributes=[swapped]),
        node("Mul", ["wt", "zero"], ["wz"]), node("Add", ["wz", "vu"], ["ws"]),
        node("Transpose", ["ws"], ["wb"], attributes=[swapped]), node("Reshape", ["wb", "cube"], ["spread"]),
    ]  # fmt: skip
    nodes.append(node("RandomUniform", [], ["all"], attributes=[integers("shape", 5, 3), number("low", -1), number("high", 3)]))
    constants["zero"] = np.array(0, F)
    outputs = [f"y{i}" for i in range(len(shapes))] + ["all", "spread"]
    file = save(context, nodes, inputs, outputs, constants, 17)
    data = context.path(".npz")
    np.savez(data, **{name: np.concatenate([array, array]) for name, array in inputs.items()})
    for options in ({}, {"microbatches": 3}, {"microbatches": 3, "target": "mock"}):
        found = context.compile(file, batch=6, **options).infer(data, context.path(".npz"), "--device", "mock" if "target" in options else "cpu")
        for i, shape in enumerate(shapes):
            for step in (1, 2):
                want = philox.uniform(int(np.prod(shape[1:])), np.arange(6), step, i).reshape(shape)
                got = found[f"y{i}"][6 * (step - 1) : 6 * step]
                checks.check(np.array_equal(got, want), f"{shape} in step {step}, {options}: other numbers than NumPy's")
        for step in (1, 2):
            want = philox.uniform(5, np.arange(6), step, len(shapes))[:, :, None]
            got = found["spread"][6 * (step - 1) : 6 * step]
            checks.check(np.array_equal(got, np.broadcast_to(want, got.shape)), f"broadcast in step {step}, {options}: other numbers")
        want = philox.uniform(15, [0], 2, len(shapes) + 1).reshape(5, 3) * F(4) - F(1)
        checks.check(np.array_equal(found["all"], want), f"without samples, {options}: {found['all']}")


def layouts(context, checks):
    """In any layout of images, an element has the same number."""
    rng = np.random.default_rng(3)
    shape = (4, 64, 6, 6)
    identity = np.eye(64, dtype=F).reshape(64, 64, 1, 1)
    nodes = [
        node("Conv", ["x", "identity"], ["c"]), node("RandomUniformLike", ["c"], ["u"]), node("Mul", ["c", "zero"], ["z"]),
        node("Add", ["z", "u"], ["s"]), node("Conv", ["s", "identity"], ["y"]),
    ]  # fmt: skip
    file = save(context, nodes, {"x": rng.standard_normal(shape).astype(F)}, ["y"], {"identity": identity, "zero": np.array(0, F)}, 17)
    data = context.path(".npz")
    np.savez(data, x=rng.standard_normal(shape).astype(F))
    want = philox.uniform(64 * 36, np.arange(4), 1, 0).reshape(shape)
    for layout in ("plain", "blocked", "channels_last"):
        found = context.compile(file, batch=4, layouts=layout).infer(data, context.path(".npz"))["y"]
        checks.check(np.array_equal(found, want), f"layout {layout}: other numbers")


def distributions(context, checks):
    x = np.full((8, 10000), 0.3, F)
    attributes = [number("mean", 2), number("scale", 3), number("seed", 5)]
    nodes = [
        node("Bernoulli", ["x"], ["drawn"]), node("Add", ["drawn", "x"], ["b"]),
        node("RandomNormalLike", ["x"], ["normal"], attributes=attributes), node("Add", ["normal", "x"], ["n"]),
        node("Dropout", ["x", "half", "active"], ["y", "mask"]),
    ]  # fmt: skip
    constants = {"half": np.array(0.5, F), "active": np.array(True)}
    file = save(context, nodes, {"x": x}, ["b", "n", "y", "mask"], constants, 17)
    data = context.path(".npz")
    np.savez(data, x=x)
    found = context.compile(file, batch=8).infer(data, context.path(".npz"))
    drawn, normal = found["b"] - x, (found["n"] - x - 2) / 3
    checks.equal(sorted(set(np.round(drawn, 3).ravel().tolist())), [0, 1], "Bernoulli draws")
    checks.check(np.abs(drawn.mean(1) - 0.3).max() < 0.02, f"Bernoulli: means of {drawn.mean(1)}")
    # Five times the deviation of such moments, and the normal distribution's own quantiles.
    checks.check(abs(normal.mean()) < 0.02 and abs(normal.std() - 1) < 0.02, f"normal: {normal.mean()}, {normal.std()}")
    for bound, share in ((-2, 0.02275), (-1, 0.15866), (0, 0.5), (1, 0.84134), (2, 0.97725)):
        got = (normal < bound).mean()
        checks.check(abs(got - share) < 0.01, f"normal: {got} below {bound} instead of {share}")
    checks.check(np.array_equal(found["y"], x) and found["mask"].all(), "Dropout of an inference program drops")


def test(context, checks, arguments):
    generator(checks)
    training(context, checks, arguments.quick)
    drawing(context, checks, arguments.quick)
    layouts(context, checks)
    distributions(context, checks)


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

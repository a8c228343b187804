"""Programs that are compiled for several sizes of a dimension.

    buckets.py BUILD

A model of attention with a mask, for sequences of up to 4, 8 and 16: what it infers and
trains with padding is what NumPy does without it. A model that has no mask is found out.
"""

import pathlib
import subprocess
import sys

import numpy as np

import common

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import FLOAT, INT64, graph, integer, message, model, node, opset, tensor  # noqa: E402

WORDS, WIDTH, CLASSES, BATCH = 11, 8, 5, 4
IGNORED = -100


def value(name, dims, dtype):
    """Words stand for symbols."""
    shape = message((1, [message((2 if isinstance(d, str) else 1, d)) for d in dims]))
    return message((1, name), (2, message((1, message((1, dtype), (2, shape))))))


def parameters():
    rng = np.random.default_rng(0)
    shapes = {"embedding.weight": (WORDS, WIDTH), "query.weight": (WIDTH, WIDTH), "head.weight": (WIDTH, CLASSES)}
    return {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}


def write(path, weights, is_masked=True, pools=False):
    nodes = [
        node("Gather", ["embedding.weight", "ids"], ["e"]),
        node("MatMul", ["e", "query.weight"], ["q"]),
        node("Transpose", ["e"], ["t"], attributes=[message((1, "perm"), (8, [0, 2, 1]), (20, 7))]),
        node("MatMul", ["q", "t"], ["scores"]),
    ]
    if is_masked:
        nodes += [
            node("Cast", ["mask"], ["seen"], attributes=[integer("to", FLOAT)]),
            node("Sub", ["one", "seen"], ["unseen"]),
            node("Mul", ["unseen", "hidden"], ["added"]),
            node("Unsqueeze", ["added", "axis"], ["row"]),
            node("Add", ["scores", "row"], ["masked"]),
        ]
    nodes += [
        node("Softmax", ["masked" if is_masked else "scores"], ["shares"], attributes=[integer("axis", -1)]),
        node("MatMul", ["shares", "e"], ["sum"]),
        node("MatMul", ["sum", "head.weight"], ["y"]),
    ]
    constants = [tensor(name, list(array.shape), raw=array.tobytes()) for name, array in weights.items()]
    constants += [tensor("one", [], raw=np.float32(1).tobytes()), tensor("hidden", [], raw=np.float32(-1e9).tobytes())]
    constants += [tensor("axis", [1], raw=np.int64(1).tobytes(), dtype=INT64)]
    outputs = [value("y", ["batch", "seq", CLASSES], FLOAT)]
    if pools:
        nodes.append(node("Concat", ["y", "y"], ["twice"], attributes=[integer("axis", 1)]))
        outputs = [value("twice", ["batch", "double", CLASSES], FLOAT)]
    inputs = [value(name, ["batch", "seq"], INT64) for name in ("ids", "mask")[: 1 + is_masked]]
    path.write_bytes(model(graph(nodes, inputs=inputs, outputs=outputs, initializers=constants), opsets=[opset(17)]))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def infer(w, ids, mask):
    w = {name: array.astype(np.float64) for name, array in w.items()}
    e = w["embedding.weight"][ids]
    scores = e @ w["query.weight"] @ e.transpose(0, 2, 1) + np.where(mask[:, None, :] == 0, -1e9, 0)
    return softmax(scores) @ e @ w["head.weight"]


def head_gradient(w, ids, mask, labels):
    """Of the mean cross entropy over the labels that count."""
    w64 = {name: array.astype(np.float64) for name, array in w.items()}
    e = w64["embedding.weight"][ids]
    scores = e @ w64["query.weight"] @ e.transpose(0, 2, 1) + np.where(mask[:, None, :] == 0, -1e9, 0)
    h = softmax(scores) @ e
    shares, counts = softmax(h @ w64["head.weight"]), labels != IGNORED
    safe = np.where(counts, labels, 0)
    picked = np.take_along_axis(shares, safe[..., None], -1)[..., 0]
    loss = -(np.log(picked) * counts).sum() / counts.sum()
    d = (shares - np.eye(CLASSES)[safe]) * counts[..., None] / counts.sum()
    return loss, np.einsum("nsw,nsc->wc", h, d)


def sample(rng, length):
    mask = (np.arange(length) < rng.integers(1, length + 1, BATCH)[:, None]).astype(np.int64)
    mask[0] = 1
    labels = np.where(mask == 1, rng.integers(0, CLASSES, mask.shape), IGNORED)
    return {"ids": rng.integers(0, WORDS, mask.shape), "mask": mask}, labels


def refuse(context, checks, text, *command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    checks.check(done.returncode in (1, 2, 3, 64, 65) and text in done.stderr, f"{command[1:]}: {done.returncode}: {done.stderr}, expected '{text}'")


def test(context, checks, arguments):
    rng = np.random.default_rng(1)
    weights = parameters()
    path, archive = context.path(".onnx"), context.path(".npz")
    write(path, weights)
    settings = {"loss": "cross_entropy", "batch": BATCH, "microbatches": 2}
    for stages in (1, 2):
        binary = context.compile(path, dim="seq=8,4,16", stages=stages, **settings)
        for length in (1, 3, 4, 6, 8, 16):
            inputs, labels = sample(rng, length)
            np.savez(archive, **inputs, target=labels)
            where = f"{stages} stages, length {length}"
            y = binary.infer(archive, context.path(".npz"))["y"]
            checks.equal(y.shape, (BATCH, length, CLASSES), f"{where}: shape")
            error = common.relative_error(y, infer(weights, **inputs))
            checks.check(error < 1e-5, f"{where}: inference is off by {error:.1e}")
            gradients = context.path(".safetensors")
            (line,) = binary.train(archive, "--no-shuffle", "--steps", 1, "--dump-gradients", gradients)
            loss, wanted = head_gradient(weights, **inputs, labels=labels)
            checks.check(abs(line["loss"] - loss) < 1e-5 * loss, f"{where}: loss {line['loss']}, expected {loss}")
            error = common.relative_error(common.read_safetensors(gradients)["head.weight"], wanted)
            checks.check(error < 1e-4, f"{where}: the gradient is off by {error:.1e}")
        # The snapshot of one size is one of another.
        snapshot = context.path(".safetensors")
        binary.train(archive, "--steps", 1, "--save", snapshot)
        inputs, labels = sample(rng, 5)
        np.savez(archive, **inputs, target=labels)
        trained = {n: t for n, t in common.read_safetensors(snapshot).items() if n in weights}
        y = binary.infer(archive, context.path(".npz"), "--load", snapshot)["y"]
        error = common.relative_error(y, infer(trained, **inputs))
        checks.check(error < 1e-5, f"{stages} stages: inference with trained weights is off by {error:.1e}")

    text = common.run([binary.path, "info"])
    for size in (4, 8, 16):
        checks.check(f"several sizes of 'seq', this one is for up to {size}" in text, f"info does not tell of {size}")
    checks.equal([binary.plan(mode)["bucket"]["size"] for mode in ("train", "infer")], [16, 16], "the plans that info prints")
    long, _ = sample(rng, 17)
    np.savez(archive, **long)
    refuse(context, checks, "has 17 of 'seq'; the model was compiled for 4, 8, 16", binary.path, "infer", "--data", archive)
    uneven, _ = sample(rng, 5)
    np.savez(archive, ids=uneven["ids"], mask=uneven["mask"][:, :4])
    refuse(context, checks, "has 4 of 'seq', 'ids' has 5", binary.path, "infer", "--data", archive)
    np.savez(archive, **uneven)
    refuse(context, checks, "--pad x=0: no input 'x'", binary.path, "infer", "--data", archive, "--pad", "x=0")
    # A mask that shows the padding is as bad as none.
    refuse(context, checks, "depends on the padding", binary.path, "infer", "--data", archive, "--pad", "mask=1")
    binary.infer(archive, context.path(".npz"), "--pad", "mask=1", "--no-verify-padding")

    write(path, weights, is_masked=False)
    bare = context.compile(path, dim="seq=4,8,16", batch=BATCH)
    for length in (3, 6):
        np.savez(archive, ids=uneven["ids"][:, :length] if length < 5 else sample(rng, length)[0]["ids"])
        refuse(context, checks, "output 'y' depends on the padding", bare.path, "infer", "--data", archive)
    write(path, weights, pools=True)
    command = [context.compiler, path, "-o", context.path(), f"--batch={BATCH}"]
    refuse(context, checks, "output 'twice' has 8 on axis 1 with seq=4 and 16 with seq=8", *command, "--dim=seq=4,8")
    refuse(context, checks, "expected NAME=SIZE", *command, "--dim=seq=4,x")
    refuse(context, checks, "IR and --dry-run are of one size", *command, "--dim=seq=4,8", "--dry-run")


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

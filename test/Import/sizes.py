"""Gives the importer sizes that no machine has memory for.

    sizes.py

Each model must be refused with a message, at once and in little memory: not
with an overflow, nor with as many operations as a tensor has elements.
"""

import pathlib
import resource
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import INT64, graph, integer, model, node, opset, tensor, untyped, value  # noqa: E402

HUGE = 2**62
LIMIT = 8 * 2**30  # Of address space: libraries alone map more than one.


def numbers(name, *values):
    return tensor(name, [len(values)], ints=list(values), dtype=INT64)


def number(name, value):
    return tensor(name, [], ints=[value], dtype=INT64)


def one(operator, inputs, *initializers, dims=(2, 12), attributes=()):
    """A model with one node."""
    body = graph(
        [node(operator, inputs, ["y"], name="n", attributes=attributes)],
        inputs=[value("x", list(dims))], outputs=[untyped("y")], initializers=initializers,
    )  # fmt: skip
    return model(body, opsets=[opset(18)])


CASES = {
    "input": (one("Relu", ["x"], dims=[2, HUGE]), "input 'x' has more than"),
    "input of many axes": (one("Relu", ["x"], dims=[2**21, 2**21, 2**22]), "input 'x' has more than"),
    "result": (one("Expand", ["x", "s"], numbers("s", 2**39, 2, 12)), "output 'y' has more than"),
    "single pieces": (one("SplitToSequence", ["x"], dims=[2**39]), "at most 65536 are supported"),
    "equal pieces": (one("SplitToSequence", ["x", "s"], number("s", 1), dims=[2**39]), "at most 65536 pieces are supported"),
    "sum of pieces": (one("SplitToSequence", ["x", "s"], numbers("s", 2**63 - 1, 2**63 - 1, 4), attributes=[integer("axis", 0)]),
                      "has a piece of size"),
    "padding": (one("Pad", ["x", "p"], numbers("p", 2**63 - 1, 2**63 - 1), dims=[12]), "pads axis 0 with more than"),
    "sum of Split": (one("Split", ["x", "s"], numbers("s", 2**63 - 1), dims=[12]), "has a piece of size"),
}  # fmt: skip


def main():
    sanitized = "--quick" in sys.argv
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (contents, expected) in CASES.items():
            path = pathlib.Path(folder) / "model.onnx"
            path.write_bytes(contents)
            limit = None if sanitized else lambda: resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))
            done = subprocess.run(["pp-opt", str(path)], capture_output=True, text=True, timeout=120, preexec_fn=limit)
            if done.returncode != 1 or "error: " not in done.stderr or expected not in done.stderr:
                failures += 1
                print(f"{name}: exit code {done.returncode}\n{done.stderr}", file=sys.stderr)
    print(f"{len(CASES)} models, {failures} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()

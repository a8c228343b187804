"""Writes a GRU whose weights lie in PyTorch's order of gates, as its exporter does.

    recurrent_gates.py FILE
"""

import pathlib
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import INT64, graph, integer, model, node, tensor, untyped, value  # noqa: E402

HIDDEN, WIDTH = 5, 4


def main():
    bounds = [tensor(f"at{k}", [1], raw=struct.pack("<q", k * HIDDEN), dtype=INT64) for k in range(4)]
    weights = {"w": [3 * HIDDEN, WIDTH], "r": [3 * HIDDEN, HIDDEN], "b": [3 * HIDDEN], "c": [3 * HIDDEN]}
    nodes = []
    for name in weights:
        # Update, reset, hidden of reset, update, hidden.
        for place, k in enumerate((1, 0, 2)):
            nodes.append(node("Slice", [name, f"at{k}", f"at{k + 1}", "at0"], [f"{name}{place}"]))
        nodes.append(node("Concat", [f"{name}{place}" for place in range(3)], [f"{name}_gates"], attributes=[integer("axis", 0)]))
    nodes.append(node("Concat", ["b_gates", "c_gates"], ["biases"], attributes=[integer("axis", 0)]))
    for name, wide in (("w_gates", "W"), ("r_gates", "R"), ("biases", "B")):
        nodes.append(node("Unsqueeze", [name, "at0"], [wide]))
    attributes = [integer("hidden_size", HIDDEN), integer("linear_before_reset", 1)]
    nodes.append(node("GRU", ["x", "W", "R", "B"], ["y"], attributes=attributes))
    initializers = [*bounds, *(tensor(name, dims, floats=[0.5] * dims[0] * (dims[1:] or [1])[0]) for name, dims in weights.items())]
    content = graph(nodes, inputs=[value("x", [6, 2, WIDTH])], outputs=[untyped("y")], initializers=initializers)
    pathlib.Path(sys.argv[1]).write_bytes(model(content))


if __name__ == "__main__":
    main()

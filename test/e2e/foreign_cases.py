"""Nodes of other domains than ONNX's own, whose gradients operator_gradients.py compares.

What they compute is compared elsewhere: with ONNX Runtime in test/onnx/functions.py, and by the
node tests of the onnx package. Here only the shape of the first output is said.
"""

import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "models" / "bad"))
from make import graph, message, node, untyped  # noqa: E402

F = np.float32
MICROSOFT, ML, PREVIEW, TRAINING = "com.microsoft", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training"
DOMAINS = (MICROSOFT, ML, PREVIEW, TRAINING)


def body(name, nodes, inputs, outputs):
    """An attribute that is a graph."""
    content = graph(nodes, inputs=[untyped(each) for each in inputs], outputs=[untyped(each) for each in outputs])
    return message((1, name), (6, content), (20, 5))


def all_cases(cases):
    """Pairs of an operator and its case."""
    found = []

    def add(domain, op, operands, shape, outputs=1, graphs=(), constants=None, **attributes):
        names = [None if operand is None else f"x{i}" for i, operand in enumerate(operands)]
        inputs = {name: x for name, x in zip(names, operands) if isinstance(x, np.ndarray)}
        known = {name: x.array for name, x in zip(names, operands) if isinstance(x, cases.Known)}

        def nodes(prefix):
            listed = [cases.attribute_of(name, given) for name, given in attributes.items()]
            results = [f"{prefix}y{i}" for i in range(outputs)]
            return [node(op, [prefix + name if name else "" for name in names], results, domain=domain, attributes=[*listed, *graphs])]

        found.append((f"{domain}.{op}", cases.Case(nodes, inputs, known, [np.zeros(shape, F)], 0)))

    numbers, whole = cases.numbers, np.int32
    x, key, value = numbers(2, 3, 8), numbers(2, 5, 8), numbers(2, 5, 8)
    weight, bias = numbers(8, 24, low=-0.5, high=0.5), numbers(24)
    add(MICROSOFT, "Attention", [x, weight, bias], (2, 3, 8), num_heads=2)
    past, scores = numbers(2, 2, 2, 2, 4), numbers(2, 2, 3, 5)
    add(MICROSOFT, "Attention", [x, weight, bias, None, past, scores], (2, 3, 8), outputs=2, num_heads=2, unidirectional=1)
    add(MICROSOFT, "MultiHeadAttention", [x, key, value, bias], (2, 3, 8), num_heads=2)
    mask = np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], whole)
    add(MICROSOFT, "MultiHeadAttention", [x, key, value, None, mask, scores], (2, 3, 8), num_heads=2, scale=0.3)
    packed = [numbers(2, 3, 16), None, None]
    caches = [numbers(2, 1, 2, 4), numbers(2, 1, 2, 4)]
    lengths, total = np.array([4, 4], whole), cases.Known(5, dtype=whole)
    add(MICROSOFT, "GroupQueryAttention", [*packed, *caches, lengths, total], (2, 3, 8), outputs=3, num_heads=2, kv_num_heads=1)
    grouped = [x, numbers(2, 3, 4), numbers(2, 3, 4)]
    angles = [numbers(9, 2), numbers(9, 2)]
    add(MICROSOFT, "GroupQueryAttention", [*grouped, *caches, lengths, total, *angles], (2, 3, 8), outputs=3, num_heads=2, kv_num_heads=1, do_rotary=1)
    add(MICROSOFT, "FusedConv", [numbers(2, 3, 5), numbers(4, 3, 2), numbers(4), numbers(2, 4, 4)], (2, 4, 4), activation="Tanh")
    add(MICROSOFT, "FusedGemm", [numbers(2, 5), numbers(5, 3), numbers(3)], (2, 3), activation="LeakyRelu", activation_alpha=0.25)
    bits = np.random.default_rng(5).integers(0, 256, (3, 2, 8)).astype(np.uint8)
    scales, rows = numbers(3, 2, low=0.1, high=1), numbers(2, 20, low=-0.3, high=0.3)
    add(MICROSOFT, "MatMulNBits", [rows, cases.Known(bits, dtype=np.uint8), scales], (2, 3), K=20, N=3, bits=4, block_size=16)

    q, k, v = numbers(2, 4, 3, 4), numbers(2, 2, 5, 4), numbers(2, 2, 5, 6)
    add(PREVIEW, "FlexAttention", [q, k, v], (2, 4, 3, 6))
    squashed = body("score_mod", [node("Tanh", ["scores"], ["changed"])], ["scores"], ["changed"])
    halved = body("prob_mod", [node("Mul", ["weights", "weights"], ["squares"])], ["weights"], ["squares"])
    add(PREVIEW, "FlexAttention", [q, k, v], (2, 4, 3, 6), graphs=[squashed, halved], scale=0.7)

    rate, count = np.array(0.1, F), np.array(2)
    parameter, gradient, state, second = (numbers(2, 3) for _ in range(4))
    squares = numbers(2, 3, low=0.5, high=2)
    add(TRAINING, "Adagrad", [rate, count, parameter, gradient, squares], (2, 3), outputs=2, norm_coefficient=0.1, decay_factor=0.1, epsilon=0.01)
    moments = {"alpha": 0.9, "beta": 0.8, "norm_coefficient": 0.1, "epsilon": 0.01}
    add(TRAINING, "Adam", [rate, count, parameter, gradient, state, squares], (2, 3), outputs=3, **moments)
    velocity = {"alpha": 0.9, "beta": 0.8, "norm_coefficient": 0.1}
    for mode in ("standard", "nesterov"):
        add(TRAINING, "Momentum", [rate, count, parameter, gradient, second], (2, 3), outputs=2, mode=mode, **velocity)
    add(ML, "Binarizer", [numbers(3, 5)], (3, 5), threshold=0.2)
    add(ML, "ArrayFeatureExtractor", [numbers(3, 5), np.array([4, 0, 4])], (3, 3))
    return found

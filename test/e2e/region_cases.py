"""Cases of operator_cases.py on places in images, scatters that combine, and determinants."""

import itertools
import math

import numpy as np

F = np.float32


def combined(cases):
    x, at, updates = cases.numbers(3, 4), np.array([[0, -1, 0, 3], [3, 3, 1, 0]]), cases.numbers(2, 4)
    pairs, rows = np.array([[1], [1], [0], [-1]]), cases.numbers(4, 4)
    for word, function in (("mul", np.multiply), ("max", np.maximum), ("min", np.minimum)):
        want = x.copy()
        for i, j in np.ndindex(at.shape):
            want[i, at[i, j]] = function(want[i, at[i, j]], updates[i, j])
        cases.case("ScatterElements", [x, at, updates], want, axis=1, reduction=word)
        want = x.copy()
        for (row,), update in zip(pairs, rows):
            want[row] = function(want[row], update)
        cases.case("ScatterND", [x, pairs, rows], want, reduction=word)
    whole = np.array([[5, -3], [2, 7]])
    want = np.array([[5, 9], [2, 7]])
    cases.case("ScatterElements", [whole, np.array([[1, 1], [0, 0]]), np.array([[9, 4], [-1, 2]])], want, axis=1, reduction="max")


def pools(cases):
    x = cases.numbers(2, 3, 5, 6)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 1)), constant_values=-np.inf)
    taken = cases.windows(padded, (2, 3), (2, 1))
    best = taken.max((-2, -1)).astype(F)
    inside = taken.reshape(*taken.shape[:4], -1).argmax(-1)
    row = 2 * np.arange(3)[:, None] - 1 + inside // 3
    column = np.arange(5)[None] + inside % 3
    plane = np.arange(6).reshape(2, 3, 1, 1)
    options = {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 0, 0, 1]}
    cases.case("MaxPool", [x], [best, (plane * 5 + row) * 6 + column], **options)
    cases.case("MaxPool", [x], [best, plane * 30 + column * 5 + row], storage_order=1, **options)
    line = cases.numbers(1, 1, 9)
    taken = cases.windows(line, (2,), (2,), (3,))
    places = 2 * np.arange(3) + 3 * taken.argmax(-1)
    cases.case("MaxPool", [line], [taken.max(-1).astype(F), places], kernel_shape=[2], strides=[2], dilations=[3])

    x = cases.numbers(2, 2, 2, 2)
    places = np.array([[5, 2, 8, 15], [0, 7, 13, 10]] * 2).reshape(2, 2, 2, 2) + 16 * np.arange(4).reshape(2, 2, 1, 1)
    want = np.zeros(64, F)
    want[places.ravel()] = x.ravel()
    want = want.reshape(2, 2, 4, 4)
    cases.case("MaxUnpool", [x, places], want, kernel_shape=[2, 2], strides=[2, 2])
    larger = np.pad(want, ((0, 0), (0, 0), (0, 1), (0, 2)))
    cases.case("MaxUnpool", [x, places, cases.Known([2, 2, 5, 6])], larger, kernel_shape=[2, 2], strides=[2, 2])

    image = cases.numbers(1, 2, 4, 6)

    def nodes(prefix):
        attributes = [cases.integers("kernel_shape", 2, 2), cases.integers("strides", 2, 2)]
        return [
            cases.node("MaxPool", [prefix + "x0"], [prefix + "p", prefix + "i"], attributes=attributes),
            cases.node("MaxUnpool", [prefix + "p", prefix + "i"], [prefix + "y0"], attributes=attributes),
        ]

    blocks = image.reshape(1, 2, 2, 2, 3, 2)
    kept = np.where(blocks == blocks.max((3, 5), keepdims=True), blocks, 0).reshape(image.shape)
    cases.add("MaxUnpool", nodes, {"x0": image}, {}, [kept])


def at(image, row, column):
    """The channels at a place between elements; zeros outside."""
    result = np.zeros(image.shape[0])
    for r, c in itertools.product((math.floor(row), math.floor(row) + 1), (math.floor(column), math.floor(column) + 1)):
        if 0 <= r < image.shape[1] and 0 <= c < image.shape[2]:
            result += (1 - abs(row - r)) * (1 - abs(column - c)) * image[:, r, c]
    return result


def aligned(image, region, bins, samples, half):
    """RoiAlign of one region inside the image, with means."""
    left, top, right, bottom = np.asarray(region, np.float64) * 0.5 - half
    width, height = (max(length, 1) if half == 0 else length for length in (right - left, bottom - top))
    result = np.zeros((image.shape[0], *bins))
    for i, j in np.ndindex(*bins):
        rows = samples or math.ceil(height / bins[0])
        columns = samples or math.ceil(width / bins[1])
        for r, c in np.ndindex(rows, columns):
            row = top + (i + (r + 0.5) / rows) * height / bins[0]
            column = left + (j + (c + 0.5) / columns) * width / bins[1]
            # Within one element outside, the last element counts.
            row, column = min(max(row, 0), image.shape[1] - 1), min(max(column, 0), image.shape[2] - 1)
            result[:, i, j] += at(image, row, column) / (rows * columns)
    return result


def regions(cases):
    x = cases.numbers(2, 3, 6, 8)
    boxes = np.array([[0.6, 1.4, 9.2, 7.6], [3, 2, 12.4, 10.8], [2.2, 1.0, 5.8, 6.4]], F)
    sample = np.array([1, 0, 1])
    size = {"output_height": 2, "output_width": 3, "spatial_scale": 0.5}
    for mode, half in (("half_pixel", 0.5), ("output_half_pixel", 0)):
        options = {"coordinate_transformation_mode": mode, **size}
        want = np.stack([aligned(x[n], box, (2, 3), 2, half) for n, box in zip(sample, boxes)]).astype(F)
        cases.case("RoiAlign", [x, boxes, sample], want, version=16, sampling_ratio=2, tolerance=1e-5, **options)
        want = np.stack([aligned(x[n], box, (2, 3), 0, half) for n, box in zip(sample, boxes)]).astype(F)
        cases.case("RoiAlign", [x, cases.Known(boxes, dtype=F), sample], want, version=16, tolerance=1e-5, **options)

    x, w, bias = cases.numbers(2, 4, 5, 4), cases.numbers(6, 2, 2, 2), cases.numbers(6)
    offset = cases.numbers(2, 2 * 4 * 2, 3, 2, low=-0.8, high=0.8)
    # Where an offset is a whole number, there is no derivative.
    offset += np.copysign(F(0.1), offset)
    mask = cases.numbers(2, 2 * 4, 3, 2, low=0.1, high=1)
    strides, dilations, pads = (2, 1), (1, 2), (1, 0)

    def deformed(mask):
        want = np.zeros((2, 6, 3, 2)) + bias[:, None, None]
        moves = offset.reshape(2, 2, 4, 2, 3, 2).astype(np.float64)
        weights = mask.reshape(2, 2, 4, 3, 2)
        for n, part, tap, i, j in np.ndindex(2, 2, 4, 3, 2):
            row = i * strides[0] - pads[0] + tap // 2 * dilations[0] + moves[n, part, tap, 0, i, j]
            column = j * strides[1] - pads[1] + tap % 2 * dilations[1] + moves[n, part, tap, 1, i, j]
            # Two groups of channels, which are the parts of the offsets too.
            value = at(x[n, 2 * part : 2 * part + 2], row, column) * weights[n, part, tap, i, j]
            want[n, 3 * part : 3 * part + 3, i, j] += w[3 * part : 3 * part + 3, :, tap // 2, tap % 2] @ value
        return want.astype(F)

    options = {"group": 2, "offset_group": 2, "strides": strides, "dilations": dilations, "pads": [1, 0, 1, 0], "version": 19, "tolerance": 1e-5}
    cases.case("DeformConv", [x, w, offset, bias, mask], deformed(mask), **options)
    cases.case("DeformConv", [x, w, offset, bias], deformed(np.ones_like(mask)), **options)


def determinants(cases):
    x = cases.numbers(2, 3, 4, 4)
    # Of rank 2, with a column of zeros: no determinant, but a gradient.
    singular = np.random.default_rng(3).uniform(-1, 1, (2, 3, 3)).astype(F)
    singular[:, :, 0] = 0
    cases.case("Det", [singular], np.zeros(2, F))
    cases.case("Det", [x], np.linalg.det(x.astype(np.float64)).astype(F), tolerance=1e-4)
    turned = np.array([[0, 2, 1], [3, 0.5, 4], [6, 1, 7]], F)
    cases.case("Det", [turned], np.linalg.det(turned.astype(np.float64)).astype(F), tolerance=1e-5)
    cases.case("Det", [np.zeros((2, 2), F)], np.zeros((), F))


PARTS = (combined, pools, regions, determinants)

#!/usr/bin/env python3
"""The kernels of a GPU compute what those of the processor compute.

Compiles small programs for the targets cpu and mock, which runs the launches of
a GPU on the processor, and compares every result: with equal bits where nothing
is summed, else within a few roundings.
"""

import itertools

import numpy as np

import common

COLUMNS = (1, 3, 31, 32, 33, 127, 1000)
SHORT_BITS = {"bf16": 8, "f16": 11}
ELEMENTS = {"f32": np.float32, "f64": np.float64, "i8": np.int8, "ui8": np.uint8, "i64": np.int64, "i32": np.int32, "i1": np.bool_}


def tensor(shape, element="f32"):
    return f"tensor<{'x'.join(map(str, (*shape, element)))}>"


def size(shape):
    return int(np.prod(shape, dtype=np.int64))


class Program:
    """A function in the nn dialect: each result has a name."""

    def __init__(self):
        self.inputs, self.lines, self.results, self.data = [], [], [], {}
        self.expected = {}  # by the name of a result
        self.rounded = {}  # the name of a result to the number of the same in f32
        self.generator = np.random.default_rng(11)
        self.values = 0

    def feed(self, shape, element="f32", low=None, high=None):
        """A new input with random numbers; integers and floats of a range, or normal floats."""
        name = f"in{len(self.inputs)}"
        flat = (1, size(shape))
        if element in ("f32", "f64") and low is None:
            data = self.generator.standard_normal(flat).astype(ELEMENTS[element])
        elif element in ("f32", "f64"):
            data = self.generator.uniform(low, high, flat).astype(ELEMENTS[element])
        elif element == "i1":
            data = self.generator.integers(0, 2, flat).astype(np.bool_)
        else:
            data = self.generator.integers((0 if element == "ui8" else -9) if low is None else low, 10 if high is None else high, flat)
            data = data.astype(ELEMENTS[element])
        self.data[name] = data
        self.inputs.append(f'%{name}: {tensor(flat, element)} {{step.feed = "{name}", step.role = #step.role<input>}}')
        return self.op(f"nn.reshape %{name} : {tensor(flat, element)} -> {tensor(shape, element)}")

    def op(self, text, count=1):
        name = f"%v{self.values}"
        self.values += 1
        self.lines.append(f"{name}{f':{count}' if count > 1 else ''} = {text}")
        return name

    def splat(self, shape, value, element="f32"):
        return self.op(f"nn.constant dense<{value}> : {tensor(shape, element)}")

    def result(self, name, value, shape, element="f32", exact=False):
        flat = (1, size(shape))
        flat_value = self.op(f"nn.reshape {value} : {tensor(shape, element)} -> {tensor(flat, element)}")
        self.results.append((name, flat_value, tensor(flat, element), exact or element not in ("f32", "f64")))

    def text(self):
        types = ", ".join(f'{type} {{step.fetch = "r{number}"}}' for number, (_, _, type, _) in enumerate(self.results))
        body = "\n      ".join(self.lines)
        values = ", ".join(value for _, value, _, _ in self.results)
        list_of_types = ", ".join(type for _, _, type, _ in self.results)
        return f"""module @kernels {{
  module @inference {{
    func.func @main({', '.join(self.inputs)}) -> ({types}) {{
      {body}
      return {values} : {list_of_types}
    }}
  }}
}}
"""


def elementwise(p):
    for columns in COLUMNS:
        shape = (3, columns)
        x, y, b = p.feed(shape), p.feed(shape), p.feed((columns,))
        row, type = p.op(f"nn.broadcast {b} [1] : {tensor((columns,))} -> {tensor(shape)}"), tensor(shape)
        total = p.op(f"nn.add {x}, {row} : {type}")
        p.result(f"add {columns}", p.op(f"nn.relu {total} : {type}"), shape, exact=True)
        rows = p.feed((3,))
        rows = p.op(f"nn.broadcast {rows} [0] : {tensor((3,))} -> {type}")
        p.result(f"mul by row {columns}", p.op(f"nn.mul {y}, {rows} : {type}"), shape, exact=True)
        less = p.op(f"nn.compare lt {x}, {y} : {type} -> {tensor(shape, 'i1')}")
        p.result(f"compare {columns}", less, shape, "i1")
        chosen = p.op(f"nn.select {less}, {x}, {y} : {tensor(shape, 'i1')}, {type}")
        p.result(f"select {columns}", chosen, shape, exact=True)
        mask = p.feed(shape, "i1")
        p.result(f"and {columns}", p.op(f"nn.and {mask}, {less} : {tensor(shape, 'i1')}"), shape, "i1")
        for element in ("i64", "i32"):
            i, j, integers = p.feed(shape, element), p.feed(shape, element), tensor(shape, element)
            p.result(f"{element} mul {columns}", p.op(f"nn.mul {i}, {j} : {integers}"), shape, element)
            greater = p.op(f"nn.compare ge {i}, {j} : {integers} -> {tensor(shape, 'i1')}")
            chosen = p.op(f"nn.select {greater}, {i}, {j} : {tensor(shape, 'i1')}, {integers}")
            p.result(f"{element} select {columns}", chosen, shape, element)
            p.result(f"{element} cast {columns}", p.op(f"nn.cast {j} : {integers} -> {type}"), shape, exact=True)
    for name in "neg abs sign floor ceil exp sin cos tanh logistic erf relu gelu".split():
        x = p.feed((5, 33))
        p.result(name, p.op(f"nn.{name} {x} : {tensor((5, 33))}"), (5, 33))
    for name in "log sqrt rsqrt".split():
        x = p.feed((5, 32), low=0.1, high=9)
        p.result(name, p.op(f"nn.{name} {x} : {tensor((5, 32))}"), (5, 32))
    x, y = p.feed((7,), low=0.1, high=4), p.feed((7,))
    p.result("pow", p.op(f"nn.pow {x}, {y} : {tensor((7,))}"), (7,))
    x = p.feed((4, 1, 8, 1, 3))
    p.result("five axes", p.op(f"nn.exp {x} : {tensor((4, 1, 8, 1, 3))}"), (4, 1, 8, 1, 3))
    x = p.feed(())
    p.result("no axes", p.op(f"nn.exp {x} : {tensor(())}"), ())


def moves(p):
    for shape in ((5,), (3, 32), (3, 33), (4, 31, 6), (2, 3, 4, 5, 8)):
        rank = len(shape)
        for axis in range(rank):
            for element in ("i64", "f32"):
                count = p.op(f"nn.iota {axis} : {tensor(shape, element)}")
                x = p.feed(shape, element)
                total = p.op(f"nn.add {x}, {count} : {tensor(shape, element)}")
                p.result(f"iota {shape} {axis} {element}", total, shape, element, exact=True)
    for shape, permutation in (
        ((3, 32), (1, 0)), ((33, 4), (1, 0)), ((4, 31, 6), (2, 0, 1)), ((4, 8, 12), (1, 0, 2)),
        ((2, 3, 4, 5, 8), (4, 2, 0, 3, 1)), ((2, 3, 4, 5, 8), (0, 2, 1, 3, 4)),
    ):
        for element in ("f32", "f64", "i64", "i8", "ui8", "i1"):
            to = [shape[axis] for axis in permutation]
            x = p.feed(shape, element)
            moved = p.op(f"nn.transpose {x} {list(permutation)} : {tensor(shape, element)} -> {tensor(to, element)}")
            p.result(f"transpose {shape} {permutation} {element}", moved, to, element, exact=True)
    for shape, starts, limits, strides in (
        ((40,), [4], [36], [1]), ((40,), [3], [40], [1]), ((40,), [0], [40], [2]), ((6, 32), [1, 8], [6, 28], [1, 1]),
        ((6, 32), [0, 1], [6, 32], [5, 3]), ((6, 33), [2, 0], [6, 32], [1, 1]), ((3, 4, 16), [0, 1, 4], [3, 4, 8], [2, 1, 1]),
    ):
        to = [-((start - limit) // stride) for start, limit, stride in zip(starts, limits, strides)]
        for element in ("f32", "i64"):
            x = p.feed(shape, element)
            part = p.op(f"nn.slice {x} starts {starts} limits {limits} strides {strides} : "
                        f"{tensor(shape, element)} -> {tensor(to, element)}")
            p.result(f"slice {shape} {starts} {strides} {element}", part, to, element, exact=True)
    for shape, low, high, interior in (
        ((5,), [2], [1], [0]), ((3, 32), [0, 4], [1, 4], [0, 0]), ((3, 32), [1, 1], [0, 2], [1, 2]),
        ((3, 31), [0, 0], [0, 1], [0, 0]), ((2, 3, 4), [1, 0, 2], [0, 1, 2], [0, 2, 0]),
    ):
        to = [l + n + (n - 1) * i + h for n, l, h, i in zip(shape, low, high, interior)]
        x = p.feed(shape)
        padded = p.op(f"nn.pad {x} low {low} high {high} interior {interior} {{value = 2.5 : f64}} : "
                      f"{tensor(shape)} -> {tensor(to)}")
        p.result(f"pad {shape} {low} {interior}", padded, to, exact=True)
    for shapes, axis in ((((3,), (1,), (32,)), 0), (((2, 8), (2, 4), (2, 12)), 1), (((2, 8), (2, 3)), 1),
                         (((2, 3, 4), (2, 5, 4)), 1)):
        for element in ("f32", "f64", "i64", "i8", "i1"):
            inputs = [p.feed(shape, element) for shape in shapes]
            to = list(shapes[0])
            to[axis] = sum(shape[axis] for shape in shapes)
            types = ", ".join(tensor(shape, element) for shape in shapes)
            joined = p.op(f"nn.concat {', '.join(inputs)} axis {axis} : ({types}) -> {tensor(to, element)}")
            p.result(f"concat {shapes} {axis} {element}", joined, to, element, exact=True)


def short_moves(p):
    """Numbers of 16 bits; NumPy has the same for small integers."""
    for element in SHORT_BITS:
        def feed(shape):
            integers = p.feed(shape, "i32")
            array = p.data[f"in{len(p.inputs) - 1}"].reshape(shape).astype(np.float32)
            wide = p.op(f"nn.cast {integers} : {tensor(shape, 'i32')} -> {tensor(shape)}")
            return p.op(f"nn.cast {wide} : {tensor(shape)} -> {tensor(shape, element)}"), array

        def expect(name, moved, array):
            case = f"{name} {element}"
            p.expected[case] = np.ascontiguousarray(array)
            wide = p.op(f"nn.cast {moved} : {tensor(array.shape, element)} -> {tensor(array.shape)}")
            p.result(case, wide, array.shape, exact=True)

        for shape in ((3, 32), (5, 33)):
            rows, columns = shape
            half = columns // 2
            x, array = feed(shape)
            short = tensor(shape, element)
            to = tensor((columns, rows), element)
            expect(f"transpose {shape}", p.op(f"nn.transpose {x} [1, 0] : {short} -> {to}"), array.T)
            to = tensor((rows, columns - half), element)
            part = p.op(f"nn.slice {x} starts [0, {half}] limits [{rows}, {columns}] strides [1, 1] : {short} -> {to}")
            expect(f"slice {shape}", part, array[:, half:])
            to = tensor((rows + 1, columns + half), element)
            padded = p.op(f"nn.pad {x} low [1, 0] high [0, {half}] interior [0, 0] {{value = 2.5 : f64}} : {short} -> {to}")
            expect(f"pad {shape}", padded, np.pad(array, ((1, 0), (0, half)), constant_values=2.5))
            y, other = feed((rows, half))
            to = tensor((rows, columns + half), element)
            joined = p.op(f"nn.concat {x}, {y} axis 1 : ({short}, {tensor((rows, half), element)}) -> {to}")
            expect(f"concat {shape}", joined, np.concatenate([array, other], 1))
            indices = p.feed((4,), "i64", low=0, high=rows)
            picked = p.data[f"in{len(p.inputs) - 1}"].reshape(4)
            to = tensor((4, columns), element)
            taken = p.op(f"nn.gather {x}[{indices}] axis 0 : ({short}, {tensor((4,), 'i64')}) -> {to}")
            expect(f"gather {shape}", taken, array[picked])


# Shape of a table, axis, shape of the indices.
TABLES = (
    ((10, 8), 0, (6,)), ((10, 33), 0, (2, 3)), ((7,), 0, (5,)), ((3, 10), 1, (40,)), ((3, 5, 4), 1, (2, 3)),
    ((3, 5, 4), 1, ()), ((2, 40), 1, (300,)), ((3, 1000), 0, (4,)), ((2, 3, 4, 5), 3, (7,)),
)


def tables(p):
    for shape, axis, indices_shape in TABLES:
        for element in ("i64", "i32"):
            # Repeated and out of range.
            indices = p.feed(indices_shape, element, low=-2, high=shape[axis] + 2)
            to = (*shape[:axis], *indices_shape, *shape[axis + 1 :])
            x = p.feed(shape)
            at = tensor(indices_shape, element)
            taken = p.op(f"nn.gather {x}[{indices}] axis {axis} : ({tensor(shape)}, {at}) -> {tensor(to)}")
            p.result(f"gather {shape} {axis} {indices_shape} {element}", taken, to, exact=True)
            updates = p.feed(to)
            added = p.op(f"nn.scatter_add {updates} at [{indices}] axis {axis} : ({at}, {tensor(to)}) -> {tensor(shape)}")
            p.result(f"scatter_add {shape} {axis} {indices_shape} {element}", added, shape, exact=True)
    # Indices that the kernel makes itself.
    x, at = p.feed((10, 8)), p.splat((), 3, "i64")
    taken = p.op(f"nn.gather {x}[{at}] axis 0 : ({tensor((10, 8))}, {tensor((), 'i64')}) -> {tensor((8,))}")
    p.result("gather at a constant", taken, (8,), exact=True)
    count = p.op(f"nn.iota 0 : {tensor((5,), 'i64')}")
    taken = p.op(f"nn.gather {x}[{count}] axis 0 : ({tensor((10, 8))}, {tensor((5,), 'i64')}) -> {tensor((5, 8))}")
    p.result("gather at a count", taken, (5, 8), exact=True)
    updates = p.feed((8,))
    added = p.op(f"nn.scatter_add {updates} at [{at}] axis 0 : ({tensor((), 'i64')}, {tensor((8,))}) -> {tensor((10, 8))}")
    p.result("scatter_add at a constant", added, (10, 8), exact=True)
    one, updates = p.feed((), "i64", low=0, high=9), p.feed(())
    added = p.op(f"nn.scatter_add {updates} at [{one}] axis 0 : ({tensor((), 'i64')}, {tensor(())}) -> {tensor((9,))}")
    p.result("scatter_add of a number", added, (9,), exact=True)


def scatters(p):
    """Scatter-adds of many positions: every row is the sum of its updates in their order."""
    generator = np.random.default_rng(3)
    for positions, size, width, element in ((1024, 50, 8, "i64"), (600, 1000, 132, "i32"), (301, 7, 5, "i64"), (2048, 9, 1, "i32")):
        last = size - 1
        cases = {
            "random": generator.integers(0, size, positions),
            "out of range": generator.integers(-3 * size, 3 * size, positions),
            "equal": np.full(positions, size // 2),
            "at the ends": generator.choice([0, last], positions),
            "outside of the ends": generator.choice([np.iinfo(ELEMENTS[element]).min, -1, size, np.iinfo(ELEMENTS[element]).max], positions),
            "falling": np.arange(positions)[::-1] * size // positions,
        }
        for case, values in cases.items():
            indices = p.feed((positions,), element)
            p.data[f"in{len(p.inputs) - 1}"] = values.astype(ELEMENTS[element]).reshape(1, -1)
            updates = p.feed((positions, width))
            expected = np.zeros((size, width), np.float32)
            rows = np.clip(np.where(values < 0, values + size, values), 0, last)
            for position, row in enumerate(p.data[f"in{len(p.inputs) - 1}"].reshape(positions, width)):
                expected[rows[position]] += row
            at, to = tensor((positions,), element), tensor((size, width))
            added = p.op(f"nn.scatter_add {updates} at [{indices}] axis 0 : ({at}, {tensor((positions, width))}) -> {to}")
            name = f"{positions} updates of {size} x {width}, {case}"
            p.result(name, added, (size, width), exact=True)
            p.expected[name] = expected


def replacements(p):
    """Scatters: of slices with the same index the last one counts, or they are combined in their order; of samples with their own indices too."""
    generator = np.random.default_rng(4)
    # Of some, threads share the slices of the axis; of one, there is a single thread.
    for shared, positions, size, width in ((0, 600, 50, 8), (0, 2048, 9, 1), (0, 5, 7, 0), (3, 40, 12, 5), (2, 300, 7, 0), (70, 9, 9, 64)):
        first, rest = ((shared,) if shared else ()), ((width,) if width else ())
        values = generator.integers(-size, size, (*first, positions))
        indices = p.feed(values.shape, "i64")
        p.data[f"in{len(p.inputs) - 1}"] = values.reshape(1, -1)
        x, u = p.feed((*first, size, *rest)), p.feed((*first, positions, *rest))
        into, updates = (p.data[f"in{len(p.inputs) - back}"] for back in (2, 1))
        into, updates = into.reshape(-1, size, max(width, 1)), updates.reshape(-1, positions, max(width, 1))
        types = (tensor((*first, positions), "i64"), tensor((*first, positions, *rest)), tensor((*first, size, *rest)))
        where = f"at [{indices}] axis {len(first)} {'shared 1' if shared else ''}"
        for how, combine in {"": lambda old, new: new, "max": max, "product": lambda old, new: old * new}.items():
            expected = into.copy()
            for sample, position, column in np.ndindex(updates.shape):
                at = (sample, values.reshape(-1, positions)[sample, position], column)
                expected[at] = combine(expected[at], updates[sample, position, column])
            result = p.op(f"nn.scatter {u} into {x} {where} {how and 'combine ' + how} : ({types[2]}, {types[0]}, {types[1]}) -> {types[2]}")
            name = f"scatter {shared} {positions} {size} {width} {how}"
            p.result(name, result, (*first, size, *rest), exact=True)
            p.expected[name] = expected.reshape(*first, size, *rest)
        if shared:
            name = f"scatter_add of samples {shared} {positions} {size} {width}"
            added = p.op(f"nn.scatter_add {u} {where} : ({types[0]}, {types[1]}) -> {types[2]}")
            p.result(name, added, (*first, size, *rest), exact=True)


def reductions(p):
    shapes = [(n,) for n in COLUMNS] + [(3, n) for n in COLUMNS] + [(n, 3) for n in COLUMNS]
    # Long enough for sums in parts; the first of them cannot be halved.
    shapes += [(769, 33), (1024, 5), (20000,), (3, 65536)]
    shapes += [(40, 32), (1000, 33), (2, 31, 32), (4, 40, 6), (33, 2, 36), (1, 1, 5), (2, 3, 4, 5, 6)]
    for shape in shapes:
        for count in range(1, len(shape) + 1):
            for axes in itertools.combinations(range(len(shape)), count):
                to = [n for axis, n in enumerate(shape) if axis not in axes]
                if len(shape) > 3 and count not in (1, 3, 5):
                    continue
                for kind, element in (("sum", "f32"), ("max", "f32"), ("min", "f32"), ("sum", "i64"), ("max", "i64"), ("min", "i32")):
                    if len(shape) > 2 and (kind, element) in (("min", "f32"), ("max", "i64")):
                        continue
                    x = p.feed(shape, element)
                    reduced = p.op(f"nn.reduce {kind} {x} {list(axes)} : {tensor(shape, element)} -> {tensor(to, element)}")
                    p.result(f"{kind} {element} {shape} {axes}", reduced, to, element, exact=kind != "sum")
    # With what is computed before, and two in one kernel.
    x, b = p.feed((40, 36)), p.feed((36,))
    row = p.op(f"nn.broadcast {b} [1] : {tensor((36,))} -> {tensor((40, 36))}")
    product = p.op(f"nn.mul {x}, {row} : {tensor((40, 36))}")
    for axes, to in (([0], (36,)), ([1], (40,)), ([0, 1], ())):
        reduced = p.op(f"nn.reduce sum {product} {axes} : {tensor((40, 36))} -> {tensor(to)}")
        p.result(f"sum of products {axes}", reduced, to)
    lines = p.op(f"nn.iota 1 : {tensor((40, 36), 'f32')}")
    product = p.op(f"nn.mul {x}, {lines} : {tensor((40, 36))}")
    reduced = p.op(f"nn.reduce sum {product} [0] : {tensor((40, 36))} -> {tensor((36,))}")
    p.result("sum with a count", reduced, (36,))


def rows(p):
    for columns in COLUMNS + (4099, 4100):
        for leading in ((1,), (5,), (2, 3)) if columns < 1000 else ((3,),):
            shape, scale_shape = (*leading, columns), (columns,)
            where, type, column = f"{shape}", tensor(shape), tensor(leading)
            x, g = p.feed(shape), p.feed(shape)
            p.result(f"softmax {where}", p.op(f"nn.softmax {x} : {type}"), shape)
            p.result(f"log_softmax {where}", p.op(f"nn.log_softmax {x} : {type}"), shape)
            scale, shift = p.feed(scale_shape), p.feed(scale_shape)
            norm = p.op(f"nn.layer_norm {x}, {scale}, {shift} epsilon 1.0e-5 : ({type}, {tensor(scale_shape)}, "
                        f"{tensor(scale_shape)}) -> ({type}, {column}, {column})", 3)
            p.result(f"layer_norm {where}", f"{norm}#0", shape)
            p.result(f"mean {where}", f"{norm}#1", leading)
            p.result(f"rstd {where}", f"{norm}#2", leading)
            mean, rstd = p.feed(leading), p.feed(leading, low=0.5, high=2)
            back = p.op(f"nn.layer_norm_backward {g}, {x}, {scale}, {mean}, {rstd} : ({type}, {type}, "
                        f"{tensor(scale_shape)}, {column}, {column}) -> {type}")
            p.result(f"layer_norm_backward {where}", back, shape)
            for element in ("i64", "i32"):
                labels = p.feed(leading, element, low=0, high=columns)
                label_type = tensor(leading, element)
                loss = p.op(f"nn.softmax_cross_entropy {x}, {labels} : ({type}, {label_type}) -> "
                            f"({tensor(())}, {column})", 2)
                p.result(f"cross entropy {where} {element}", f"{loss}#0", ())
                p.result(f"log normalizer {where} {element}", f"{loss}#1", leading)
                factor = p.feed(())
                back = p.op(f"nn.softmax_cross_entropy_backward {x}, {labels}, {loss}#1, {factor} : "
                            f"({type}, {label_type}, {column}, {tensor(())}) -> {type}")
                p.result(f"cross entropy backward {where} {element}", back, shape)
    x, labels = p.feed((40, 33)), p.feed((40,), "i64", low=0, high=33)
    loss = p.op(f"nn.softmax_cross_entropy {x}, {labels} : ({tensor((40, 33))}, {tensor((40,), 'i64')}) -> "
                f"({tensor(())}, {tensor((40,))})", 2)
    p.result("cross entropy alone", f"{loss}#0", ())
    labels = p.feed((40,), "i64", low=0, high=33)
    normalizers, one = p.feed((40,)), p.splat((), 0.5)
    back = p.op(f"nn.softmax_cross_entropy_backward {x}, {labels}, {normalizers}, {one} : ({tensor((40, 33))}, "
                f"{tensor((40,), 'i64')}, {tensor((40,))}, {tensor(())}) -> {tensor((40, 33))}")
    p.result("cross entropy backward by a constant", back, (40, 33))


def short_rows(p):
    """Operations on rows between casts, in one kernel, and the same with kernels for the casts."""
    for element, columns in itertools.product(SHORT_BITS, (3, 32, 33, 132, 1000)):
        shape, scale_shape, leading = (5, columns), (columns,), (5,)
        type, short, column = tensor(shape), tensor(shape, element), tensor(leading)

        def feed_short():
            return p.op(f"nn.cast {p.feed(shape)} : {type} -> {short}")

        def both(name, operands, operation):
            """`operation` next to the casts, and with reshapes in between."""
            casts = [p.op(f"nn.cast {operand} : {short} -> {type}") for operand in operands]
            result = operation(casts)
            narrow = p.op(f"nn.cast {result} : {type} -> {short}")
            narrow = p.op(f"nn.cast {narrow} : {short} -> {type}")
            flat, flat_short = tensor((size(shape),)), tensor((size(shape),), element)
            apart = [p.op(f"nn.reshape {operand} : {short} -> {flat_short}") for operand in operands]
            apart = [p.op(f"nn.cast {operand} : {flat_short} -> {flat}") for operand in apart]
            apart = [p.op(f"nn.reshape {operand} : {flat} -> {type}") for operand in apart]
            name = f"{name} {shape} {element}"
            p.rounded[name] = len(p.results) + 1
            p.result(name, narrow, shape)
            p.result(f"{name} long", operation(apart), shape)

        x, g = feed_short(), feed_short()
        both("softmax", [x], lambda rows: p.op(f"nn.softmax {rows[0]} : {type}"))
        both("log_softmax", [x], lambda rows: p.op(f"nn.log_softmax {rows[0]} : {type}"))
        scale, shift = p.feed(scale_shape), p.feed(scale_shape)
        both("layer_norm", [x], lambda rows: p.op(
            f"nn.layer_norm {rows[0]}, {scale}, {shift} epsilon 1.0e-5 : ({type}, {tensor(scale_shape)}, "
            f"{tensor(scale_shape)}) -> ({type}, {column}, {column})", 3) + "#0")
        mean, rstd = p.feed(leading), p.feed(leading, low=0.5, high=2)
        both("layer_norm_backward", [g, x], lambda rows: p.op(
            f"nn.layer_norm_backward {rows[0]}, {rows[1]}, {scale}, {mean}, {rstd} : ({type}, {type}, "
            f"{tensor(scale_shape)}, {column}, {column}) -> {type}"))
        labels, normalizers, factor = p.feed(leading, "i64", low=0, high=columns), p.feed(leading), p.feed(())
        both("cross entropy backward", [x], lambda rows: p.op(
            f"nn.softmax_cross_entropy_backward {rows[0]}, {labels}, {normalizers}, {factor} : "
            f"({type}, {tensor(leading, 'i64')}, {column}, {tensor(())}) -> {type}"))
        wide = p.op(f"nn.cast {x} : {short} -> {type}")
        loss = p.op(f"nn.softmax_cross_entropy {wide}, {labels} : ({type}, {tensor(leading, 'i64')}) -> "
                    f"({tensor(())}, {column})", 2)
        p.result(f"cross entropy {shape} {element}", f"{loss}#0", ())


def doubles(p):
    for shape in ((40,), (3, 33), (33, 3), (40, 32), (2, 31, 36)):
        type = tensor(shape, "f64")
        x, y = p.feed(shape, "f64"), p.feed(shape, "f64", low=0.1, high=4)
        product = p.op(f"nn.mul {x}, {y} : {type}")
        p.result(f"f64 div {shape}", p.op(f"nn.div {product}, {y} : {type}"), shape, "f64")
        p.result(f"f64 sqrt {shape}", p.op(f"nn.sqrt {y} : {type}"), shape, "f64")
        p.result(f"f64 floor {shape}", p.op(f"nn.floor {x} : {type}"), shape, "f64")
        p.result(f"f64 to f32 {shape}", p.op(f"nn.cast {x} : {type} -> {tensor(shape)}"), shape, exact=True)
        for axis, kind in itertools.product(range(len(shape)), ("sum", "max", "min")):
            to = shape[:axis] + shape[axis + 1 :]
            z = p.feed(shape, "f64")
            reduced = p.op(f"nn.reduce {kind} {z} [{axis}] : {type} -> {tensor(to, 'f64')}")
            p.result(f"f64 {kind} {shape} {axis}", reduced, to, "f64", exact=kind != "sum")


GROUPS = {"doubles": doubles, "elementwise": elementwise, "moves": moves, "tables": tables, "reductions": reductions, "rows": rows,
          "scatters": scatters, "replacements": replacements, "short rows": short_rows, "short moves": short_moves}


def run_target(context, source, data, target):
    binary = common.Binary(context.path())
    common.run([context.compiler, source, "-o", binary.path, "--compile-from=graph", f"--target={target}"])
    # All of a group is one action, and takes its time where it is instrumented.
    return binary.infer(data, context.path(".npz"), "--device", target, "--watchdog", 0)


def check_group(context, checks, name):
    program = Program()
    GROUPS[name](program)
    source, data = context.path(".mlir"), context.path(".npz")
    source.write_text(program.text())
    np.savez(data, **program.data)
    expected = run_target(context, source, data, "cpu")
    found = run_target(context, source, data, "mock")
    for number, (case, _, _, exact) in enumerate(program.results):
        a, b = expected[f"r{number}"], found[f"r{number}"]
        if case in program.expected:
            known = program.expected[case]
            checks.check(known.tobytes() == b.tobytes(), f"{name}: {case}: differs from NumPy")
        if case in program.rounded:
            # At most the rounding to a number of 16 bits.
            long, bits = found[f"r{program.rounded[case]}"], SHORT_BITS[case.split()[-1]]
            checks.check(np.allclose(b, long, rtol=2.0**-bits, atol=1e-6), f"{name}: {case}: differs from what is computed in f32")
            checks.check(not np.array_equal(b, long), f"{name}: {case}: not rounded")
            continue
        if exact:
            checks.check(a.tobytes() == b.tobytes(), f"{name}: {case}: bits differ")
            continue
        scale = max(1, np.abs(a).max(initial=0))
        checks.check(
            np.isfinite(b).all() and np.abs(a - b).max(initial=0) <= 2e-5 * scale,
            f"{name}: {case}: differs by {np.abs(a - b).max(initial=0)} of {scale}",
        )
    print(f"{name}: {len(program.results)} results")


def test(context, checks, arguments):
    def guarded(name):
        try:
            check_group(context, checks, name)
        except common.Failure as failure:
            checks.check(False, f"{name}: {failure}")

    context.map(guarded, [name for name in GROUPS if not arguments.only or name in arguments.only])


def add_options(parser):
    parser.add_argument("--only", action="append", help="only this group; may be repeated")


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0], add_options)

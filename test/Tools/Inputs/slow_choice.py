"""A model for which times that are wrong choose kernels that are much slower.

    slow_choice.py make MODEL.onnx
    slow_choice.py prefer IN COMPILER MODEL.onnx OUT
                                    a file of IN's processor: tiles of 4 x 4 take no time, all else that a tuning measures a
                                    second; and there is a kernel of another model
    slow_choice.py mislead IN COMPILER MODEL.onnx OUT
                                    the same, and what no candidate has for this model: kernels of packed layouts whose
                                    weights are not packed, which make layouts be chosen by times whatever else is known
    slow_choice.py list FILE        which of the three the file has
"""

import json
import pathlib
import re
import struct
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "models" / "bad"))
from make import graph, integers, model, node, opset, tensor, value  # noqa: E402

CHANNELS = 256
TILES, OTHER = "algorithm=winograd4", "matmul of another model"
# What pp-profile --tune measures: layouts, convolutions, whether weights are packed.
CANDIDATES = [
    ("plain", "direct", "never"),
    ("channels_last", "direct", "always"),
    *(("blocked", algorithm, "always") for algorithm in ("direct", "winograd", "winograd2", "winograd4")),
]


def make(path):
    """Windows of 3 x 3 on 2 x 2 pixels, whose weights are four times as large in tiles of 4 x 4."""
    count = CHANNELS * CHANNELS * 9
    weights = struct.pack(f"<{count}f", *(0.001 * (i % 7 - 3) for i in range(count)))
    names = ["x", "h", "y"]
    nodes = [
        node("Conv", [names[i], f"w{i}"], [names[i + 1]], attributes=[integers("kernel_shape", 3, 3), integers("pads", 1, 1, 1, 1)])
        for i in range(2)
    ]
    image = [1, CHANNELS, 2, 2]
    content = graph(
        nodes, inputs=[value("x", image)], outputs=[value("y", image)],
        initializers=[tensor(f"w{i}", [CHANNELS, CHANNELS, 3, 3], raw=weights) for i in range(2)],
    )  # fmt: skip
    pathlib.Path(path).write_bytes(model(content, opsets=[opset(17)]))


def write(source, compiler, model_path, target, is_misleading):
    kernels = {OTHER: 0.5}
    for layouts, convolutions, packed in CANDIDATES:
        flags = [f"--layouts={layouts}", f"--convolutions={convolutions}", f"--pack-weights={packed}"]
        command = [compiler, model_path, *flags, "--compile-to=lower", "-o", "-"]
        ir = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for kernel in re.findall(r'"((?:(?:pack_)?conv_forward|reorder) [^"]+)"', ir):
            # Behind the calls, the IR has operations that could have been packed.
            if is_misleading or packed == "never" or "packed=" in kernel or kernel.startswith("reorder"):
                kernels[kernel] = 1e-9 if TILES in kernel else 1.0
    costs = json.loads(pathlib.Path(source).read_text())
    costs["kernels"] = kernels
    pathlib.Path(target).write_text(json.dumps(costs))


def prefer(*arguments):
    write(*arguments, is_misleading=False)


def mislead(*arguments):
    write(*arguments, is_misleading=True)


def show(path):
    kernels = json.loads(pathlib.Path(path).read_text())["kernels"]
    print("tiles of 4 x 4:", any(TILES in kernel for kernel in kernels))
    print("others:", any(kernel.startswith("conv_") and TILES not in kernel for kernel in kernels))
    print("of another model:", kernels.get(OTHER))


if __name__ == "__main__":
    {"make": make, "prefer": prefer, "mislead": mislead, "list": show}[sys.argv[1]](*sys.argv[2:])

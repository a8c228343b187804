#!/usr/bin/env python3
"""Writes what the two trainings of test/python/side_by_side begin with, net.onnx and, where it is asked for, the weights for
PyTorch; and the curve of PyTorch's, curve.json. Needs PyTorch.

usage: test/python/export_side_by_side.py [weights.pt]
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import onnx
import torch

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE / "side_by_side"
DIGITS = HERE.parent / "models" / "digits"
sys.path.insert(0, str(FOLDER))


def strip(path):
    """Without what the exporter says of its own source lines."""
    model = onnx.load(path)
    for each in [*model.graph.node, *model.graph.value_info, *model.graph.initializer, *model.graph.input, *model.graph.output]:
        del each.metadata_props[:]
        each.doc_string = ""
    onnx.save(model, path)


def curve(weights):
    with tempfile.TemporaryDirectory() as folder:
        text = subprocess.run([sys.executable, FOLDER / "with_pytorch.py", DIGITS / "digits-train.npz", DIGITS / "digits-test.npz", weights,
                               pathlib.Path(folder) / "trained.onnx"], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def main():
    from with_pytorch import Net
    torch.manual_seed(3)
    net = Net().train()
    with tempfile.TemporaryDirectory() as folder:
        weights = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(folder) / "net.pt"
        torch.save(net.state_dict(), weights)
        torch.onnx.export(net, torch.zeros(32, 1, 8, 8), FOLDER / "net.onnx", dynamo=True, optimize=False, external_data=False,
                          input_names=["image"])
        strip(FOLDER / "net.onnx")
        (FOLDER / "curve.json").write_text(json.dumps(curve(weights), indent=1) + "\n")


if __name__ == "__main__":
    main()

"""The two trainings of docs/pytorch.md: what the page shows is what runs, and the curves are the same."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

# They are processes of their own, which have tools as processes: one of the two sanitizers would be missing.
pytestmark = pytest.mark.skipif("PP_SANITIZED" in os.environ, reason="a program of the user's has no sanitizer")

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE / "side_by_side"
DIGITS = HERE.parent / "models" / "digits"
PAGE = HERE.parent.parent / "docs" / "pytorch.md"


def run(script, model, output):
    done = subprocess.run([sys.executable, FOLDER / script, DIGITS / "digits-train.npz", DIGITS / "digits-test.npz", model, output],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [line["loss"] for line in lines if "loss" in line], lines[-1]["accuracy"]


def require_same(ours, theirs):
    """Dropout draws other numbers, so a mean over an epoch differs by about a percent."""
    assert len(ours[0]) == len(theirs[0]) == 10
    for our_loss, their_loss in zip(ours[0], theirs[0]):
        assert our_loss == pytest.approx(their_loss, rel=0.04)
    assert ours[1] == pytest.approx(theirs[1], abs=0.015)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    output = tmp_path_factory.mktemp("ours") / "trained.onnx"
    curve = run("with_pp_mlir.py", FOLDER / "net.onnx", output)
    assert output.exists()
    return curve


def test_the_curve_is_what_pytorch_had(ours):
    lines = json.loads((FOLDER / "curve.json").read_text())
    require_same(ours, ([line["loss"] for line in lines if "loss" in line], lines[-1]["accuracy"]))


def test_the_curve_is_that_of_pytorch(ours, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("onnx")
    torch = sys.modules["torch"]
    import onnx
    from onnx import numpy_helper
    weights = {tensor.name: torch.tensor(numpy_helper.to_array(tensor)) for tensor in onnx.load(FOLDER / "net.onnx").graph.initializer}
    sys.path.insert(0, str(FOLDER))
    from with_pytorch import Net
    torch.save({name: weights[name] for name in Net().state_dict()}, tmp_path / "net.pt")
    require_same(ours, run("with_pytorch.py", tmp_path / "net.pt", tmp_path / "trained.onnx"))


def test_the_page_shows_these_scripts():
    page = PAGE.read_text()
    for script in ("with_pytorch.py", "with_pp_mlir.py"):
        text = (FOLDER / script).read_text()
        assert f"```python\n{text}```" in page, script
        lines = sum(1 for line in text.splitlines() if line.strip())
        assert f"{lines} lines" in page, (script, lines)

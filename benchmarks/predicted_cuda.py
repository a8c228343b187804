#!/usr/bin/env python3
"""What pp-plan predicts for a GPU against what scripts/test-cuda measured there.

    benchmarks/predicted_cuda.py DIR [--build BUILD] [--models MODELS]

DIR has results.json and costs/ of scripts/test-cuda. The models, without
weights, are those of DIR/models; without these they are exported, which wants
PyTorch. For each model, plans the step that was measured with the cost file
that was measured, for one device, and prints predicted and measured times.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "scripts" / "cuda_test"


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(str(c) for c in command)}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done.stdout


def copy_model(source, folder, name):
    """The model, and a file for its weights, which nobody reads."""
    for suffix in ("onnx", "json"):
        (folder / f"{name}.{suffix}").write_bytes((source / name / f"{name}.{suffix}").read_bytes())
    size = json.loads((folder / f"{name}.json").read_text())["bytes"]
    with open(folder / f"{name}.bin", "wb") as file:
        file.truncate(size)
    return folder / f"{name}.onnx"


def predict(tools, folder, directory, models, row, target):
    """Seconds of a step."""
    path, plan = copy_model(models, folder, row["model"]), folder / "plan.json"
    run(tools / "pp-plan", path, f"--target={target}", f"--precision={row['precision']}", f"--batch={row['batch']}",
        f"--microbatches={row['microbatches']}", f"--loss={row['loss']}", "--optimizer=sgd", "--momentum=0.9",
        f"--cost-file={directory / row['costs']}", "--cores=1", "--checkpoints=never", "--top=1", "-o", plan)
    return json.loads(plan.read_text())["predicted"]["period_seconds"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--models", type=pathlib.Path)
    arguments = parser.parse_args()
    results = json.loads((arguments.directory / "results.json").read_text())
    rows = results["tables"].get("profiles", [])
    if not rows:
        sys.exit(f"error: {arguments.directory / 'results.json'} has no profiles")
    models = arguments.models or arguments.directory / "models"
    form = "{:<12} {:<10} {:>12} {:>14} {:>8} {:>18} {:>8}   {}"
    print(form.format("model", "precision", "predicted ms", "with graphs ms", "error", "without graphs ms", "error", "device"))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if not models.exists():
            models = folder / "models"
            run(sys.executable, SCRIPTS / "export.py", models, results["sizes"])
        for row in rows:
            device = json.loads((arguments.directory / row["costs"]).read_text())["device"]
            predicted = predict(arguments.build / "bin", folder, arguments.directory, models, row, results["target"])
            error = [f"{100 * (predicted / row[key] - 1):+.1f} %" for key in ("graph_seconds", "plain_seconds")]
            print(form.format(row["model"], row["precision"], f"{1e3 * predicted:.3f}", f"{1e3 * row['graph_seconds']:.3f}",
                              error[0], f"{1e3 * row['plain_seconds']:.3f}", error[1], device))


if __name__ == "__main__":
    main()

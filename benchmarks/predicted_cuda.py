#!/usr/bin/env python3
"""What pp-plan predicts for a GPU against what scripts/test-cuda measured there.

    benchmarks/predicted_cuda.py DIR [--build BUILD] [--models MODELS]

DIR has results.json and costs/ of scripts/test-cuda. The models are exported,
which wants PyTorch, where MODELS (default DIR/models) lacks their files of
weights: holes, but for masks, which say what attention is. For each model,
plans the step that was measured with the cost file that was measured, for one
device, and prints predicted and measured times.
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


def write_cluster(folder, gpu):
    """The file of one GPU; `gpu` is nvidia-smi's line of its name, driver and memory."""
    # A test of the test itself had none.
    mebibytes = int(gpu.rpartition(",")[2].split()[0]) if gpu else 1 << 20
    device = {"name": "gpu", "memory_bytes": mebibytes << 20}
    path = folder / "cluster.json"
    path.write_text(json.dumps({"version": 2, "root": {"link": {"bandwidth": 1e9, "latency": 0}, "members": [device]}}))
    return path


def predict(tools, folder, directory, models, row, target, cluster):
    """Seconds of a step."""
    path, plan = models / row["model"] / f"{row['model']}.onnx", folder / "plan.json"
    run(tools / "pp-plan", path, f"--target={target}", f"--precision={row['precision']}", f"--batch={row['batch']}",
        f"--microbatches={row['microbatches']}", f"--loss={row['loss']}", "--optimizer=sgd", "--momentum=0.9",
        f"--cost-file={directory / row['costs']}", f"--cluster={cluster}", "--checkpoints=never", "--top=1", "-o", plan)
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
    is_complete = all((models / row["model"] / f"{row['model']}.bin").exists() for row in rows)
    form = "{:<12} {:<10} {:>12} {:>14} {:>8} {:>18} {:>8}   {}"
    print(form.format("model", "precision", "predicted ms", "with graphs ms", "error", "without graphs ms", "error", "device"))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if not is_complete:
            models = folder / "models"
            run(sys.executable, SCRIPTS / "export.py", models, results["sizes"])
        cluster = write_cluster(folder, results["machine"]["gpu"])
        for row in rows:
            device = json.loads((arguments.directory / row["costs"]).read_text())["device"]
            predicted = predict(arguments.build / "bin", folder, arguments.directory, models, row, results["target"],
                                cluster)
            error = [f"{100 * (predicted / row[key] - 1):+.1f} %" for key in ("graph_seconds", "plain_seconds")]
            print(form.format(row["model"], row["precision"], f"{1e3 * predicted:.3f}", f"{1e3 * row['graph_seconds']:.3f}",
                              error[0], f"{1e3 * row['plain_seconds']:.3f}", error[1], device))


if __name__ == "__main__":
    main()

"""Imports every model of a folder with pp-opt, for inference and for training.

    models.py FOLDER

Also sends each through the nn passes up to kernels, and parses what was printed.
"""

import pathlib
import subprocess
import sys

TRAINING = ["--nn-rebatch=batch=2 microbatches=2", "--nn-attach-loss=microbatches=2",
            "--nn-differentiate", "--canonicalize", "--nn-attach-optimizer", "--nn-form-kernels"]
INFERENCE = ["--nn-rebatch=batch=2", "--canonicalize", "--nn-form-kernels"]


def run(*arguments, text=None):
    done = subprocess.run(["pp-opt", *arguments], input=text, capture_output=True, text=True,
                          timeout=120)
    # Warnings are fine: masks are taken as constants.
    if done.returncode or "error:" in done.stderr:
        raise RuntimeError(f"pp-opt {' '.join(arguments)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def main():
    root = pathlib.Path(sys.argv[1])
    models = sorted(path for path in root.glob("*/*.onnx") if path.parent.name != "bad")
    for path in models:
        for flags, passes in (["--training"], TRAINING), ([], INFERENCE):
            module = run(str(path), *flags)
            assert run("-", text=module) == module, f"{path}: printing is not stable"
            trained = module.count("nn.trained")
            assert bool(trained) == bool(flags), f"{path}: {trained} trained parameters"
            if path.parent.name == "unet":
                passes = [p.replace("nn-attach-loss=", "nn-attach-loss=loss=mse ") for p in passes]
            kernels = run(str(path), *flags, *passes)
            assert "nn.kernel" in kernels, path
            # Every trained parameter gets its gradient once.
            added = kernels.count("nn.accumulate  gradient") + kernels.count("nn.accumulate gradient")
            assert added == trained, f"{path}: {trained} parameters, {added} gradients"
    print(f"{len(models)} models")
    sys.exit(0 if len(models) >= 17 else 1)


if __name__ == "__main__":
    main()

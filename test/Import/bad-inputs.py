"""Runs pp-opt over the files of test/models/bad.

    bad-inputs.py FOLDER

FOLDER was made by test/models/bad/make.py. Every file must end with the right
exit code and its message, never with a signal, and within a few seconds. Files
that give a warning only are imported with it.
"""

import json
import pathlib
import subprocess
import sys

# Valid, but more than can be done: exit code 3. All other faults are the model's, 1.
UNSUPPORTED = {
    "B06-ir-version.onnx", "B08-opset.onnx", "B09-unknown-op.onnx", "B09-unknown-ops.onnx",
    "B10-unknown-domain.onnx",
}  # fmt: skip
# Not of make.py: a model that is not there cannot be read, 4.
MISSING = {"none.onnx": {"severity": "error", "fragments": ["No such file"]}}


def expected_code(name, severity):
    if severity == "warning":
        return 0
    return 3 if name in UNSUPPORTED else 4 if name in MISSING else 1


def check(path, entry, flags):
    try:
        run = subprocess.run(["pp-opt", str(path), "-o", "-", *flags], capture_output=True,
                             text=True, errors="replace", timeout=60)
    except subprocess.TimeoutExpired:
        return "took more than a minute"
    if run.returncode < 0:
        return f"died of signal {-run.returncode}\n{run.stderr}"
    code = expected_code(path.name, entry["severity"])
    if run.returncode != code:
        return f"exit code {run.returncode}, expected {code}\n{run.stderr}"
    if path.name not in run.stderr:
        return f"the message does not name the file\n{run.stderr}"
    for fragment in entry["fragments"]:
        if fragment not in run.stderr:
            return f"no '{fragment}' in: {run.stderr}"
    if code != 0 and run.stdout:
        return f"printed a module in spite of the error\n{run.stdout}"
    return None


def main():
    folder = pathlib.Path(sys.argv[1])
    expected = json.loads((folder / "expected.json").read_text())
    failures = 0
    for name, entry in (expected | MISSING).items():
        for flags in ([], ["--training"]):
            problem = check(folder / name, entry, flags)
            if problem:
                failures += 1
                print(f"{' '.join([name, *flags])}: {problem}", file=sys.stderr)
    print(f"{len(expected)} files, {failures} failures")
    sys.exit(1 if failures or len(expected) < 60 else 0)


if __name__ == "__main__":
    main()

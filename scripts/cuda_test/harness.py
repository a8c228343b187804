"""What the checks share: reports, a budget of time, programs and their files."""

import json
import os
import pathlib
import struct
import subprocess
import tempfile
import threading
import time

import numpy as np

DTYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4", "I8": "i1", "U8": "u1", "BOOL": "?"}


class Failure(Exception):
    """A program failed, or did not end."""


class OutOfTime(Exception):
    """The budget is spent."""


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = np.frombuffer(data, np.uint8, end - begin, 8 + length + begin)
        tensors[name] = raw.view(DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


class Harness:
    """`folder` is what scripts/prepare-cuda-test made. Any thread may call its
    functions."""

    def __init__(self, folder, budget):
        self.folder = pathlib.Path(folder).resolve()
        self.manifest = json.loads((self.folder / "manifest.json").read_text())
        self.target = self.manifest["target"]
        self.sizes = self.manifest["sizes"]
        default = "cuda:0" if self.target.startswith("cuda") else self.target
        self.device = os.environ.get("PP_TEST_DEVICE") or default
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="pp-cuda-"))
        # For the programs alone: Python has libraries of its own.
        places = [str(self.folder / "libraries"), os.environ.get("LD_LIBRARY_PATH")]
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(place for place in places if place)}
        self.start = time.monotonic()
        self.deadline = self.start + budget
        self.results = {"target": self.target, "device": self.device, "sizes": self.sizes, "checks": [], "tables": {}}
        self.lock = threading.Lock()
        self.failures = 0

    # Reports

    def report(self, result, name, text="", **values):
        """`result`: PASS, FAIL or SKIP."""
        with self.lock:
            self.failures += result == "FAIL"
            print(f"{result}  {name}{': ' + text if text else ''}", flush=True)
            self.results["checks"].append({
                "name": name, "result": result, "text": text, "seconds": round(time.monotonic() - self.start, 1),
                **values})
            self.write()

    def add_row(self, table, row):
        """A measurement, for the machine-readable result."""
        with self.lock:
            self.results["tables"].setdefault(table, []).append(row)
            self.write()

    def write(self):
        """After each report, so that nothing is lost when all ends early."""
        path = self.folder / "results.json"
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(self.results, indent=1) + "\n")
        partial.replace(path)

    def attempt(self, name, work, *arguments, **options):
        """Runs `work`; what it raises is a failed check, and lack of time a
        skipped one. Returns its result, or None."""
        try:
            return work(*arguments, **options)
        except OutOfTime:
            self.report("SKIP", name, "no time is left")
        except Exception as error:  # A broken file is a failed check too.
            self.report("FAIL", name, f"{type(error).__name__}: {error}")
        return None

    def compare(self, name, error, tolerance, what=""):
        # NaN compares as smaller than any tolerance.
        good = error == error and error <= tolerance
        self.report("PASS" if good else "FAIL", name, f"{error:.2e}{f' ({what})' if what else ''}, at most {tolerance:.1e}",
                    error=error if error == error else "nan", tolerance=tolerance)

    # Programs

    def left(self):
        return self.deadline - time.monotonic()

    def run(self, command, timeout=60, environment=None):
        """Returns standard output; Failure says what went wrong."""
        command = [str(part) for part in command]
        if self.left() < 5:
            raise OutOfTime()
        # So that one hang does not cost the rest.
        timeout = min(timeout, self.left())
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=timeout, env={**self.environment, **(environment or {})})
        except subprocess.TimeoutExpired:
            if self.left() < 5:
                raise OutOfTime() from None
            raise Failure(f"did not end within {timeout:.0f} s: {' '.join(command)}") from None
        if done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
            raise Failure(f"exit code {done.returncode}: {' '.join(command)}\n{tail}")
        return done.stdout

    def program(self, name):
        return self.folder / "programs" / name

    def cases(self, use):
        return [case for case in self.manifest["cases"] if case["use"] == use]

    def model_folder(self, model):
        return self.folder / "models" / model

    def make_folder(self):
        return pathlib.Path(tempfile.mkdtemp(dir=self.scratch))


class Training:
    """What one training gives: `lines`, the loss and gradients of the first step,
    and a snapshot after `steps`."""

    def __init__(self, harness, program, data, weights, device, steps, *arguments):
        common = ["--data", data, "--weights", weights, "--no-verify-weights", "--device", device, "--no-shuffle"]
        self.folder = harness.make_folder()
        self.paths = {"gradients": self.folder / "gradients", "snapshot": self.folder / "snapshot"}

        def train(count, *more):
            command = [harness.program(program), "train", *common, "--steps", count, *more, *arguments]
            lines = harness.run(command, timeout=90).splitlines()
            return [json.loads(line) for line in lines if line.startswith("{")]

        self.loss = train(1, "--dump-gradients", self.paths["gradients"])[-1]["loss"]
        lines = train(steps, "--log-bits", "--save", self.paths["snapshot"])
        # Times differ from run to run; losses and their bits must not.
        self.losses = [{k: v for k, v in line.items() if "loss" in k or "bits" in k} for line in lines]

    @property
    def gradients(self):
        return read_safetensors(self.paths["gradients"])

    @property
    def snapshot(self):
        return read_safetensors(self.paths["snapshot"])


def difference(one, other):
    """The first thing that differs between the bits of two trainings, or nothing."""
    if not one.losses or one.losses != other.losses:
        return f"losses {one.losses} and {other.losses}"
    for what in ("gradients", "snapshot"):
        mine, yours = getattr(one, what), getattr(other, what)
        if not mine or set(mine) != set(yours):
            return f"{what}: tensors {sorted(set(mine) ^ set(yours))}"
        for name in mine:
            if mine[name].tobytes() != yours[name].tobytes():
                count = np.count_nonzero(mine[name] != yours[name])
                return f"{what}: {name}: {count} of {mine[name].size} elements"
    return ""


def check_same_bits(harness, name, one, other):
    if one and other:
        text = difference(one, other)
        harness.report("FAIL" if text else "PASS", name, text)

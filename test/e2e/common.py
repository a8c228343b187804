"""What the end-to-end tests share: compiling, running, reading files.

Each test is a script that takes the build folder and exits with 0 or 1:

    python3 test/e2e/against_pytorch.py build/release

Binaries are kept in <build>/test/e2e-cache under a hash of everything that
they depend on, so that scripts share them and a second run starts at once.
"""

import argparse
import contextlib
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
LOSS = {"unet": "mse"}

# The settings of test/models/export.py.
OPTIMIZERS = {
    "sgd": {"optimizer": "sgd", "learning-rate": 0.05, "momentum": 0.9, "weight-decay": 1e-4},
    "adamw": {"optimizer": "adamw", "learning-rate": 1e-3, "weight-decay": 0.01},
    "lamb": {"optimizer": "lamb", "learning-rate": 0.01, "weight-decay": 0.01},
}


class Failure(Exception):
    """A command that did not do what it should; the text says which and why."""


def run(command, timeout=300, expect=0):
    """Runs a command; returns its standard output."""
    command = [str(c) for c in command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failure(f"{' '.join(command)}\n  did not end within {timeout} s") from None
    if done.returncode != expect:
        text = "\n".join((done.stdout[-1000:] + done.stderr[-3000:]).splitlines()[-30:])
        raise Failure(f"{' '.join(command)}\n  exit code {done.returncode}:\n{text}")
    return done.stdout


def model_file(model, exporter="torchscript"):
    return MODELS / model / f"{model}.{exporter}.onnx"


class Binary:
    """A compiled model."""

    def __init__(self, path):
        self.path = path
        self._plans = {}

    def plan(self, mode="train"):
        if mode not in self._plans:
            self._plans[mode] = json.loads(run([self.path, "info", "--plan", "--mode", mode]))
        return self._plans[mode]

    def train(self, data, *arguments):
        """Returns one dictionary per line of progress."""
        out = run([self.path, "train", "--data", data, *arguments])
        return [json.loads(line) for line in out.splitlines()]

    def infer(self, data, output, *arguments):
        run([self.path, "infer", "--data", data, "--output", output, *arguments])
        return dict(np.load(output))


# The transports between processes of one machine, and the devices on which each works.
TRANSPORTS = {"peer": ("cpu", "mock"), "host-staged": ("cpu", "mock")}

# What is said where a process is stopped or cut off, with --watchdog of at most 2 seconds: the alarm misses signs of life
# or the watchdog misses progress, whichever is first.
FOUND_STOPPED = r"gave no sign of life for 2 s|stuck: no action completed for"


class Context:
    """The build under test, its cache of binaries and a scratch folder."""

    def __init__(self, build, jobs):
        self.build = pathlib.Path(build).resolve()
        self.compiler = self.build / "bin" / "pp-compile"
        if not self.compiler.exists():
            raise Failure(f"{self.compiler} does not exist")
        self.jobs = jobs
        self.cache = self.build / "test" / "e2e-cache"
        self.cache.mkdir(parents=True, exist_ok=True)
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="pp-e2e-"))
        self._lock = threading.Lock()
        self._locks = {}
        self._counter = 0
        self.compiled = 0
        self.compile_seconds = 0.0
        # They decide what is in a binary.
        self._version = [
            (str(p), p.stat().st_size, p.stat().st_mtime_ns)
            for p in (self.compiler, *sorted((self.build / "lib").glob("libpprt*.a")))
        ]
        # Binaries of older builds.
        stamp = hashlib.sha256(repr(self._version).encode()).hexdigest()[:12]
        for old in self.cache.iterdir():
            # Another test may have removed it by now.
            with contextlib.suppress(FileNotFoundError):
                if old.name != stamp and time.time() - old.stat().st_mtime > 3600:
                    shutil.rmtree(old, ignore_errors=True)
        self.cache = self.cache / stamp
        self.cache.mkdir(exist_ok=True)

    def path(self, suffix=""):
        """A new name in the scratch folder."""
        with self._lock:
            self._counter += 1
            return self.scratch / f"{self._counter}{suffix}"

    def close(self):
        shutil.rmtree(self.scratch, ignore_errors=True)

    def arguments(self, options):
        return [
            f"--{name.replace('_', '-')}={value}" if value is not None else f"--{name.replace('_', '-')}"
            for name, value in options.items()
        ]

    def compile(self, model, **options):
        """Compiles an ONNX file (or takes the binary from the cache)."""
        arguments = self.arguments(options)
        stat = pathlib.Path(model).stat()
        key = hashlib.sha256(
            repr((str(model), stat.st_size, stat.st_mtime_ns, arguments)).encode()
        ).hexdigest()[:24]
        with self._lock:
            lock = self._locks.setdefault(key, threading.Lock())
        path = self.cache / key
        with lock:
            if not path.exists():
                partial = self.cache / f"{key}.{os.getpid()}"
                start = time.monotonic()
                try:
                    # Tests run programs for the processor on the mock device too.
                    run([self.compiler, model, "-o", partial, "--link-device=mock", *arguments])
                    os.replace(partial, path)
                finally:
                    partial.unlink(missing_ok=True)
                with self._lock:
                    self.compiled += 1
                    self.compile_seconds += time.monotonic() - start
        return Binary(path)

    def training(self, model, exporter="torchscript", optimizer="sgd", **options):
        """Compiles a test model for training with its loss."""
        return self.compile(
            model_file(model, exporter),
            **options,
            loss=LOSS.get(model, "cross_entropy"),
            **OPTIMIZERS[optimizer],
        )

    def data(self, model, samples=None):
        """The inputs and targets of a reference (of a model, or a path) as an archive
        for `train`, repeated up to `samples`."""
        if isinstance(model, str):
            model = MODELS / model / "reference.npz"
        with np.load(model) as reference:
            arrays = {k: v for k, v in reference.items() if "/" not in k and v.ndim}
        arrays = {k: v for k, v in arrays.items() if k != "output" and not k.endswith("_output")}
        if samples:
            arrays = {k: np.resize(v, (samples, *v.shape[1:])) for k, v in arrays.items()}
        path = self.path(".npz")
        np.savez(path, **arrays)
        return path

    def map(self, function, items):
        """Like `map`, on `jobs` threads; raises the first exception."""
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            futures = [pool.submit(function, item) for item in items]
            try:
                return [f.result() for f in futures]
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


DTYPES = {"F32": "<f4", "F64": "<f8", "I64": "<i8", "I32": "<i4", "I8": "i1", "U8": "u1", "BOOL": "?"}


def read_safetensors(path):
    """Tensors by name; the metadata is under None."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    tensors = {None: header.pop("__metadata__", {})}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = data[8 + length + begin : 8 + length + end]
        tensors[name] = np.frombuffer(raw, DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def write_safetensors(path, tensors):
    """Arrays of single precision by name."""
    header, data = {}, b""
    for name, array in tensors.items():
        end = len(data) + array.nbytes
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [len(data), end]}
        data += array.astype("<f4").tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def tensor_bytes(path):
    """What has to be equal when two runs have the same bits."""
    return {k: (v.shape, v.tobytes()) for k, v in read_safetensors(path).items() if k is not None}


def relative_error(value, expected):
    """Of the Frobenius norms; absolute where the expected norm is 0."""
    if value.shape != expected.shape:
        return float("inf")
    difference = np.linalg.norm((value.astype(np.float64) - expected).ravel())
    norm = np.linalg.norm(expected.astype(np.float64).ravel())
    return float(difference / norm) if norm > 0 else float(difference)


class Checks:
    """Counts what was checked and prints what failed."""

    def __init__(self):
        self.done = 0
        self.failures = []
        self._lock = threading.Lock()

    def check(self, condition, text):
        with self._lock:
            self.done += 1
            if not condition:
                self.failures.append(text)
                print(f"FAILED: {text}", flush=True)
        return bool(condition)

    def equal(self, value, expected, text):
        return self.check(value == expected, f"{text}: {value}, expected {expected}")


def main(test, description, add_options=None):
    """Runs `test(context, checks, arguments)` and ends the process."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("build", help="build folder, for example build/release")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how much runs at a time")
    parser.add_argument("--quick", action="store_true", help="a few cases of small models, for instrumented builds")
    if add_options:
        add_options(parser)
    arguments = parser.parse_args()
    start = time.monotonic()
    checks = Checks()
    context = None
    try:
        context = Context(arguments.build, arguments.jobs)
        test(context, checks, arguments)
    except Failure as failure:
        checks.check(False, str(failure))
    finally:
        if context:
            context.close()
    compiled = f"{context.compiled} binaries compiled in {context.compile_seconds:.1f} s of work, " if context else ""
    print(
        f"{'failed' if checks.failures else 'passed'}: {checks.done} checks, "
        f"{len(checks.failures)} failed, {compiled}{time.monotonic() - start:.1f} s"
    )
    sys.exit(1 if checks.failures else 0)

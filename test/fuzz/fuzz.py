#!/usr/bin/env python3
"""Gives the tools of a build mutated inputs and looks how they end.

    fuzz.py BUILD --kind onnx|import|plan|cost|cluster|problem|ir|snapshot
            --count N [--seed S] [--jobs J] [--keep FOLDER]

The same count and seed give the same inputs. `import` runs many files in one
process (pp-import-files), the others start the tool for each. Faults are:
signals, assertions, reports of sanitizers, exit codes other than those of
docs/runtime.md, refusals without "error:", more than a minute (--timeout), and
more than 1 GB of memory (--memory; sanitizers need a multiple). Inputs at fault
are kept with the command that shows it.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import random
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import zipfile

import generate
import mutate
from mutate_text import mutate_ir, mutate_json, mutate_safetensors

MODELS = mutate.MODELS
LENET = MODELS / "lenet" / "lenet.torchscript.onnx"
CLUSTERS = pathlib.Path(__file__).resolve().parents[2] / "lib" / "Planner" / "clusters"
PHASES = ["import", "graph", "differentiate", "kernels", "cost", "partition", "schedule", "lower"]
TRAINING = ["--loss=cross_entropy", "--batch=8", "--microbatches=4"]
#: docs/runtime.md; 70 would be a fault of ours.
EXIT_CODES = {0, 1, 2, 3, 4}
REPORTS = re.compile(
    rb"Sanitizer|runtime error:|Assertion|UNREACHABLE|LLVM ERROR|PLEASE submit|Stack dump|terminate called|^fault: ", re.M
)
MEBIBYTE = 2**20


@dataclasses.dataclass
class Ended:
    code: int
    output: bytes
    peak: int  #: bytes
    late: bool

    def fault(self, limit):
        """Why this is a fault, or None."""
        if self.late:
            return "did not end"
        if self.code < 0:
            return f"signal {-self.code}"
        report = REPORTS.search(self.output)
        if report:
            return report.group().decode().strip(": ")
        if self.code not in EXIT_CODES:
            return f"exit code {self.code}"
        if self.code and b"error: " not in self.output:
            return f"exit code {self.code} without an error"
        if self.peak > limit:
            return f"{self.peak // MEBIBYTE} MiB"
        return None


def run(command, timeout):
    """Runs a command with what it used; its output goes through a file."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [str(c) for c in command], stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment()
        )
        late = threading.Event()
        timer = threading.Timer(timeout, lambda: (late.set(), process.kill()))
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        return Ended(process.returncode, output.read(), usage.ru_maxrss * 1024, late.is_set())


def environment():
    # LLVM's libraries are not instrumented and keep what they allocated.
    # Freed memory need not be kept long to be noticed in short programs.
    # The limit protects the machine; address space cannot be limited here.
    options = "allow_user_poisoning=0:detect_leaks=0:quarantine_size_mb=32:hard_rss_limit_mb=6000:max_allocation_size_mb=4000"
    return {**os.environ, "ASAN_OPTIONS": options, "UBSAN_OPTIONS": "print_stacktrace=1"}


def must(command, timeout=600):
    ended = run(command, timeout)
    if ended.code != 0:
        sys.exit(f"{shlex.join(map(str, command))}\n{ended.output.decode(errors='replace')}")
    return ended


class Inputs:
    """The right inputs of a kind, and how a mutated one is used."""

    def __init__(self, build, folder, kind):
        self.bin, self.folder, self.kind = build / "bin", folder, kind
        self.seeds, self.suffix, self.mutate = [], ".json", mutate_json
        getattr(self, "prepare_" + kind)()

    def path(self, name):
        return self.folder / name

    def add(self, path, *extra):
        """A seed, and the rest of the command that takes it."""
        self.seeds.append((path.read_bytes(), extra))

    def make(self, rng, name):
        """A mutated input as a file, and the command for it."""
        data, extra = rng.choice(self.seeds)
        path = self.path(name + self.suffix)
        path.write_bytes(self.mutate(rng, data))
        return path, self.command(rng, path, extra)

    def prepare_onnx(self):
        (self.folder / "weights.bin").write_bytes(bytes(64))
        sources = mutate.Sources(smallest_only=False)
        self.seeds, self.suffix = [(b"", ())], ".onnx"
        self.mutate = lambda rng, _: mutate.mutate(rng, sources)

    def prepare_plan(self):
        for flags in (["--cores=2"], ["--cores=2", "--schedules=zb-h1,interleaved"], ["--cores=4"]):
            plan = self.path("seed.json")
            must([self.bin / "pp-plan", LENET, "--loss=cross_entropy", "--batch=32", "--microbatches=4", *flags, "-o", plan])
            self.add(plan)

    def prepare_cost(self):
        ir = self.path("seed.mlir")
        must([self.bin / "pp-compile", LENET, *TRAINING, "--compile-to=cost", "-o", ir])
        keys = sorted(set(re.findall(r'"((?:generated|matmul|conv)[^"]*)"', ir.read_text())))[:40] or ["generated 0281bc2e5a9d53b8"]
        costs = self.path("seed.json")
        listed = ",".join(f'"{key}": {i + 1}e-6' for i, key in enumerate(keys))
        costs.write_text('{"version": 1, "target": "cpu", "device": "any", "gap_seconds": 1e-7, "update_seconds_per_byte": 1e-10, '
                         '"transfer_latency_seconds": 2e-5, "kernels": {' + listed + "}}")  # fmt: skip
        self.add(costs)

    def prepare_cluster(self):
        for path in sorted(CLUSTERS.glob("*.json")):
            self.add(path)
        for path in sorted((MODELS.parent / "Tools" / "Inputs").glob("*m*.json")):
            self.add(path)

    def prepare_problem(self):
        for name, flags in (("a", []), ("b", ["--loss=cross_entropy"])):
            problem = self.path(f"seed-{name}.json")
            must([self.bin / "pp-plan", LENET, "--batch=8", "--cores=2", "--microbatches=4", *flags, f"--save-problem={problem}"])
            self.add(problem)

    def prepare_ir(self):
        self.suffix, self.mutate = ".mlir", mutate_ir
        for phase in PHASES:
            for flags in ([], ["--loss=cross_entropy", "--stages=2"]):
                ir = self.path("seed.mlir")
                must([self.bin / "pp-compile", LENET, "--batch=8", "--microbatches=4", *flags, f"--compile-to={phase}", "-o", ir])
                self.add(ir, phase, *flags)

    def prepare_snapshot(self):
        self.suffix, self.mutate = ".st", mutate_safetensors
        program, data = self.path("program"), self.path("data.npz")
        must([self.bin / "pp-compile", LENET, *TRAINING, "--optimizer=adamw", "--stages=2", "-o", program])
        write_data(data)
        snapshot = self.path("seed.st")
        self.train = [program, "train", "--data", data, "--steps"]
        must([*self.train, "3", "--save", snapshot])
        self.add(snapshot)

    def command(self, rng, path, extra):
        compile_, plan = self.bin / "pp-compile", self.bin / "pp-plan"
        if self.kind == "onnx":
            return rng.choice([
                [self.bin / "pp-opt", path, "-o", "/dev/null"], [compile_, path, "--dry-run"],
                [compile_, path, "--dry-run", "--loss=mse", "--batch=4", "--microbatches=2"],
                [compile_, path, "--dry-run", "--loss=cross_entropy", "--optimizer=adamw"],
            ])  # fmt: skip
        if self.kind == "plan":
            return [compile_, LENET, "--loss=cross_entropy", "--batch=32", "--dry-run", f"--plan={path}"]
        if self.kind == "cost":
            return [compile_, LENET, *TRAINING, "--dry-run", f"--cost-file={path}"]
        if self.kind == "cluster":
            return [plan, LENET, *TRAINING[:2], "--microbatches=4", "--time-limit=2", "--top=1", f"--cluster={path}"]
        if self.kind == "problem":
            return [plan, path, "--time-limit=2"]
        if self.kind == "ir":
            phase, *flags = extra
            if rng.random() < 0.2:
                return [self.bin / "pp-opt", path, "-o", "/dev/null"]
            return [compile_, path, *flags, "--batch=8", "--microbatches=4", f"--compile-from={phase}", "-o", path.with_suffix(".out")]
        return [*self.train, "5", "--resume", path]


def write_data(path):
    """Numbers of the shapes that LeNet takes; the labels are its classes."""
    rng = random.Random(0)
    image = struct.pack("<1024f", *(rng.gauss(0, 1) for _ in range(1024)))
    target = struct.pack("<16q", *(rng.randrange(10) for _ in range(16)))
    with zipfile.ZipFile(path, "w") as archive:
        for name, kind, shape, data in (("image", "<f4", (16, 1, 8, 8), image), ("target", "<i8", (16,), target)):
            header = repr({"descr": kind, "fortran_order": False, "shape": shape}).ljust(117) + "\n"
            archive.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


class Faults:
    def __init__(self, keep, limit):
        self.keep, self.limit, self.found = keep, limit, []
        self.codes, self.peak = collections.Counter(), 0

    def note(self, path, command, ended):
        """Counts a run; keeps what is at fault."""
        self.codes[ended.code] += 1
        self.peak = max(self.peak, ended.peak)
        why = ended.fault(self.limit)
        if not why:
            return
        self.keep.mkdir(parents=True, exist_ok=True)
        kept = self.keep / path.name
        shutil.copyfile(path, kept)
        line = shlex.join(str(kept if c == path else str(c).replace(str(path), str(kept))) for c in command)
        kept.with_suffix(".log").write_bytes(line.encode() + b"\n" + ended.output)
        self.found.append(f"{why}: {line}")
        print(self.found[-1], flush=True)


def each(arguments, folder, faults):
    """One process for each input."""
    inputs = Inputs(arguments.build, folder, arguments.kind)

    def one(i):
        rng = random.Random(f"{arguments.kind} {arguments.seed} {i}")
        path, command = inputs.make(rng, f"{arguments.kind}-{arguments.seed}-{i:05}")
        faults.note(path, command, run(command, arguments.timeout))
        path.unlink()
        path.with_suffix(".out").unlink(missing_ok=True)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(one, range(arguments.first, arguments.first + arguments.count)))


def together(arguments, folder, faults):
    """Many files in one process; after a fault, the next takes those that are left."""
    tool, batch = arguments.build / "bin" / "pp-import-files", 250
    sources = mutate.Sources(arguments.smallest_only)

    def some(first):
        own = folder / str(first)
        own.mkdir()
        (own / "weights.bin").write_bytes(bytes(64))
        left = []
        for i in range(first, min(first + batch, arguments.first + arguments.count)):
            left.append(own / f"import-{arguments.seed}-{i:05}.onnx")
            left[-1].write_bytes(mutate.mutate(random.Random(f"{arguments.seed} {i}"), sources))
        while left:
            (own / "list").write_text("".join(f"{path}\n" for path in left))
            ended = run([tool, own / "list"], arguments.timeout + len(left))
            said = re.findall(rb"^(\d+) (/.*\.onnx|end)$", ended.output, re.M)
            if ended.code == 0 and said and said[-1][1] == b"end" and not ended.fault(faults.limit):
                faults.codes["imported or refused"] += len(left)
                faults.peak = max(faults.peak, ended.peak)
                break
            # The one that was printed last, or that took the memory.
            at = len(said) - 1
            for number, (peak, name) in enumerate(said):
                if int(peak) * 1024 > faults.limit and number:
                    at = number - 1
                    break
            (own / "one").write_text(f"{left[at]}\n")
            ended.output = ended.output[-20000:]
            faults.note(left[at], [tool, own / "one"], ended)
            if not ended.fault(faults.limit):
                faults.found.append(f"{left[at]} ended with {ended.code}")
            left = left[at + 1 :]
        shutil.rmtree(own)

    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(some, range(arguments.first, arguments.first + arguments.count, batch)))


KINDS = ["import", "onnx", "plan", "cost", "cluster", "problem", "ir", "snapshot"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda p: pathlib.Path(p).resolve())
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--first", type=int, default=0, help="number of the first input: goes on where another run stopped")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=60, help="seconds of an input")
    parser.add_argument("--memory", type=int, default=1000, help="megabytes")
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("fuzz-faults"), help="folder for inputs at fault")
    parser.add_argument("--smallest-only", action="store_true", help="import: of test/models, only files below 20 kB")
    arguments = parser.parse_args()
    faults = Faults(arguments.keep.resolve(), arguments.memory * 10**6)
    with tempfile.TemporaryDirectory() as folder:
        (together if arguments.kind == "import" else each)(arguments, pathlib.Path(folder), faults)
    ends = ", ".join(f"{code}: {n}" for code, n in sorted(faults.codes.items(), key=str))
    print(f"{arguments.kind}: {arguments.count} inputs, {len(faults.found)} faults ({ends}; at most {faults.peak // 10**6} MB)")
    sys.exit(1 if faults.found else 0)


if __name__ == "__main__":
    main()

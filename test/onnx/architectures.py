"""Compiles architectures of PyTorch, infers and trains them, and compares numbers.

    architectures.py BUILD [--only PATTERN] [--quick] [--jobs N] [--update]

Each architecture of zoo/ is exported by both exporters of PyTorch (see
export_architecture.py). Inference is compared with ONNX Runtime; the loss and every
gradient of one training step, of two stages with two micro-batches, with PyTorch in
double precision. A gradient may be as far from it as single precision makes it: as
PyTorch's is, or as far as rounding errors in PyTorch's operators move it (a network of
many ReLUs has some near their kinks). One that is further away passes if the same model
exported in double precision has all gradients right, which is said. architectures.txt says what passes, with the relative error of the
worst tensor, and why the others do not. --update writes it. What a former run of the
same build found is kept in FOLDER and not run again.
"""

import argparse
import collections
import concurrent.futures
import fnmatch
import json
import pathlib
import re
import shutil
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "e2e"))
import common  # noqa: E402

LIST = HERE / "architectures.txt"
EXPORTERS = ("torchscript", "dynamo")
# Small, and of every kind: for each test run.
QUICK = [
    "everyday/mlp", "everyday/positions", "everyday/gru_cells", "everyday/experts", "everyday/temperature", "torchvision/resnet", "torchvision/swin", "timm/densenet",
    "transformers/vit", "transformers/bert", "transformers/gpt2", "transformers/llama", "transformers/t5", "odd/last_token", "odd/index_put",
    "odd/per_sample",
]  # fmt: skip

TOLERANCE = 1e-3
INFERENCE_TOLERANCE = 1e-4
# A tensor whose gradient is less than this part of all is compared with this part.
SMALL_PART = 1e-3
# As much worse than PyTorch in single precision may a gradient be, where that is far from double precision.
ALLOWANCE = 4.0
# As much further may it be than the furthest of the drawn rounding errors moves it.
SPREAD = 2.0
# Off by less, where the loss is right, may be rounding; then double precision has to be right, with this tolerance.
INEXACT = 5e-2
DOUBLE_TOLERANCE = 1e-8


def gradient_error(value, expected, whole):
    if value.shape != expected.shape:
        return float("inf")
    difference = np.linalg.norm((value.astype(np.float64) - expected).ravel())
    return float(difference / max(np.linalg.norm(expected.ravel().astype(np.float64)), SMALL_PART * whole))


class Mismatch(Exception):
    """Numbers that are not the expected ones."""

    word = "wrong"


class Inexact(Mismatch):
    """A gradient of a loss that is right, off by less than INEXACT."""

    word = "inexact"

    def __init__(self, error, text):
        super().__init__(text)
        self.error = error


class TrainsOther(Mismatch):
    """Something is trained that is no parameter of the module."""


class Part:
    """One exporter and phase of an architecture."""

    def __init__(self, context, name, folder, exporter, phase):
        self.context, self.name, self.folder, self.exporter, self.phase = context, name, folder / name, exporter, phase
        self.model = self.folder / f"{exporter}.{phase}.onnx"

    def read(self, name):
        with np.load(self.folder / name) as arrays:
            return dict(arrays)

    def infer(self):
        # What depends on the number of samples is found where they are parted.
        options = {"stages": 2, "microbatches": 2} if self.name.startswith("odd/") else {"stages": 1}
        binary = self.context.compile(self.model, **options)
        found = binary.infer(self.folder / "data.npz", self.context.path(".npz"))
        wanted = self.read(f"{self.exporter}.infer.npz")
        if set(found) != set(wanted):
            raise Mismatch(f"outputs {sorted(found)}, expected {sorted(wanted)}")
        error = max(common.relative_error(found[name], wanted[name]) for name in wanted)
        if not error <= INFERENCE_TOLERANCE:
            raise Mismatch(f"relative error {error:.1e}")
        return f"pass {error:.0e}"

    def train(self):
        names = json.loads((self.folder / "names.json").read_text())
        try:
            return f"pass {self.compare_gradients(names):.0e}"
        except Inexact as inexact:
            error = self.error_in_double(names)
            if error <= DOUBLE_TOLERANCE:
                return f"pass {inexact.error:.0e}, in double precision {error:.0e}"
            # A clamp, or a constant of the exporter, may change what double precision trains.
            self.draw_errors()
            return f"pass {self.compare_gradients(names):.0e}"
        except TrainsOther:
            # Files do not tell which parameters are frozen, those of the old exporter not even buffers from parameters.
            trained = {n.removeprefix("grad/") for n in self.read("reference.npz") if n.startswith("grad/")}
            path = self.context.path(".safetensors")
            common.write_safetensors(path, {n: np.zeros(0, np.float32) for n, first in names.items() if first in trained})
            return f"pass {self.compare_gradients(names, parameter_names=path):.0e}, with --parameter-names"

    def compare_gradients(self, names, **options):
        loss, found = self.find_gradients(self.model, names, **options)
        reference, wanted, whole = self.read_reference()
        if extra := sorted(set(found) - set(wanted)):
            raise TrainsOther(f"trains {', '.join(extra[:3])}, no parameter of the module")
        worst = abs(loss - reference["loss"]) / abs(reference["loss"])
        if not worst <= TOLERANCE:
            raise Mismatch(f"loss: relative error {worst:.1e}")
        doubtful = []
        for name, expected in wanted.items():
            if name not in found:
                if np.any(expected):
                    raise Mismatch(f"does not train {name}")
                continue
            error = gradient_error(found[name], expected, whole)
            single = gradient_error(reference[f"float32/{name}"], expected, whole)
            worst = max(worst, error)
            if error <= max(TOLERANCE, ALLOWANCE * single):
                continue
            text = f"gradient of {name}: relative error {error:.1e}, of PyTorch {single:.1e}"
            # To draw errors takes long; double precision tells as well.
            if error < INEXACT and not (self.folder / "sensitivity.npz").exists():
                doubtful.append((error, text))
                continue
            spread = self.spread(name) / max(np.linalg.norm(expected.ravel()), SMALL_PART * whole)
            if error <= SPREAD * spread:
                continue
            text += f", by rounding {spread:.1e}"
            if not error < INEXACT:
                raise Mismatch(text)
            doubtful.append((error, text))
        if doubtful:
            raise Inexact(*max(doubtful))
        return worst

    def find_gradients(self, model, names, **options):
        """The loss of one step, and its gradients by the names of the module's parameters."""
        batch = len(self.read("data.npz")["target"])
        if self.name.startswith("transformers/"):
            # With a mask, that is left to longer sequences than these are.
            options["fuse_attention"] = "always"
        binary = self.context.compile(model, stages=2, batch=batch, microbatches=2, loss="mse", optimizer="sgd", **options)
        path = self.context.path(".safetensors")
        (line,) = binary.train(self.folder / "data.npz", "--no-shuffle", "--steps", 1, "--dump-gradients", path)
        return line["loss"], {names.get(n, n): array for n, array in common.read_safetensors(path).items() if n is not None and "#" not in n}

    def read_reference(self):
        """PyTorch's arrays, its gradients, and the norm of all of them."""
        reference = self.read("reference.npz")
        wanted = {n.removeprefix("grad/"): array for n, array in reference.items() if n.startswith("grad/")}
        return reference, wanted, np.sqrt(sum(np.linalg.norm(array.ravel().astype(np.float64)) ** 2 for array in wanted.values()))

    def error_in_double(self, names):
        """How far the worst gradient is from PyTorch's, of the same model in double precision."""
        model = self.folder / f"{self.exporter}.double.onnx"
        if not model.exists():
            common.run([sys.executable, HERE / "export_architecture.py", self.name, self.folder, "--double", self.exporter], timeout=600)
        _, found = self.find_gradients(model, names)
        _, wanted, whole = self.read_reference()
        return max(gradient_error(found[name], expected, whole) for name, expected in wanted.items() if name in found or np.any(expected))

    def draw_errors(self):
        if not (self.folder / "sensitivity.npz").exists():
            common.run([sys.executable, HERE / "export_architecture.py", self.name, self.folder, "--sensitivity"], timeout=1200)

    def spread(self, name):
        """How far rounding errors move a gradient."""
        self.draw_errors()
        return float(np.max(self.read("sensitivity.npz")[name]))

    def result(self):
        reason = self.folder / f"{self.exporter}.{self.phase}.error"
        if reason.exists():
            return reason.read_text()
        if not self.model.exists():
            return "exporter: takes too long, or ends the process"
        try:
            return getattr(self, self.phase)()
        except Mismatch as mismatch:
            return f"{mismatch.word}: {mismatch}"
        except common.Failure as failure:
            return explain(str(failure))


def explain(text):
    """The first error of a tool, without the names of nodes and files."""
    errors = re.findall(r"error: (.*)", text)
    if not errors:
        return "crash: " + (re.search(r"exit code \S+|did not end.*", text) or [text])[0].rstrip(":")
    first = next((error for error in errors if not re.match(r"\d+ nodes? ", error)), errors[0])
    return "refused: " + re.sub(r"^(node|in node) [^:]*: (error: )?", "", first)[:200]


def export(name, folder, timeout):
    """In a process of its own, which is ended where it takes too long."""
    done = folder / name / "exported"
    if done.exists():
        return
    command = [sys.executable, HERE / "export_architecture.py", name, folder / name]
    try:
        common.run(command, timeout)
    except common.Failure as failure:
        if not (folder / name / "names.json").exists():
            raise common.Failure(f"{name}: {failure}") from None
    done.touch()


def examine(context, name, folder, options):
    """Results by exporter and phase."""
    export(name, folder, options.timeout)
    path = folder / name / "results.json"
    stamp = context.cache.name
    former = json.loads(path.read_text()) if path.exists() else {}
    results = {}
    for exporter in EXPORTERS:
        for phase in ("infer", "train"):
            key = f"{exporter} {phase}"
            known = former.get(key)
            if known and (former["build"] == stamp or options.keep_passed and known.startswith("pass")):
                results[key] = known
            else:
                results[key] = Part(context, name, folder, exporter, phase).result()
    path.write_text(json.dumps({"build": stamp, **results}, indent=1))
    return results


def read_list():
    """Expected results by (name, "EXPORTER PHASE")."""
    lines = LIST.read_text().splitlines() if LIST.exists() else []
    rows = (re.split(r"\s+", line, maxsplit=3) for line in lines if line and not line.startswith("#"))
    return {(name, f"{exporter} {phase}"): answer for name, exporter, phase, answer in rows}


def print_totals(results):
    for exporter in EXPORTERS:
        for phase in ("infer", "train"):
            answers = [answer for (_, key), answer in results.items() if key == f"{exporter} {phase}"]
            counts = collections.Counter(answer.split(":")[0].split()[0] for answer in answers)
            print(f"{exporter} {phase}: {len(answers)} architectures: {', '.join(f'{count} {word}' for word, count in counts.most_common())}")


def test(context, checks, options):
    from zoo import ALL

    folder = options.folder or context.build / "test" / "architectures"
    if options.again:
        shutil.rmtree(folder, ignore_errors=True)
    names = [n for n in ALL if (not options.quick or n in QUICK) and any(fnmatch.fnmatch(n, p) for p in options.only or ["*"])]
    expected = read_list()
    found = {}

    def guarded(name):
        try:
            return name, examine(context, name, folder, options)
        except common.Failure as failure:
            return name, {f"{exporter} {phase}": f"model: {failure}"[:300] for exporter in EXPORTERS for phase in ("infer", "train")}

    for name, results in context.map(guarded, names):
        for key, answer in results.items():
            found[name, key] = answer
            wanted = expected.get((name, key), "pass")
            checks.check(
                answer.startswith("pass") or (options.update or answer.split(":")[0] == wanted.split(":")[0]) and not answer.startswith(("wrong", "crash")),
                f"{name} {key}: {answer}, expected {wanted}",
            )
    if options.update:
        merged = {key: answer for key, answer in (expected | found).items() if key[0] in ALL}
        rows = sorted(merged.items(), key=lambda row: (list(ALL).index(row[0][0]), row[0][1].split()[0] == "dynamo", row[0][1]))
        LIST.write_text("".join(f"{name:<40} {key.split()[0]:<12}{key.split()[1]:<6} {answer}\n" for (name, key), answer in rows))
    print_totals(found)


def add_options(parser):
    parser.add_argument("--only", action="append", metavar="PATTERN", help="names such as 'timm/*'; may be repeated")
    parser.add_argument("--folder", type=pathlib.Path, help="where models and results are kept; BUILD/test/architectures")
    parser.add_argument("--again", action="store_true", help="export everything again")
    parser.add_argument("--keep-passed", action="store_true", help="do not run again what passed with an older build")
    parser.add_argument("--timeout", type=int, default=600, help="seconds for the exports of an architecture")
    parser.add_argument("--update", action="store_true", help="write the results into architectures.txt")


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0], add_options)

"""Makes everything that scripts/test-cuda runs; see scripts/prepare-cuda-test.

    python prepare.py OUT_DIR TARGET SIZES PP_COMPILE PP_PROFILE MODELS_DIR
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tarfile

import numpy as np

import cases
import stored
from harness import Harness

OPTIMIZER = ["--optimizer=sgd", "--momentum=0.9", "--weight-decay=1e-4"]


class Compiler:
    def __init__(self, out, target, compiler, profiler):
        self.out, self.target, self.compiler, self.profiler = out, target, compiler, profiler

    def run(self, command, path):
        """Returns what was wrong, or nothing."""
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode:
            return done.stderr.strip() or f"exit code {done.returncode}"
        subprocess.run(["strip", path], check=True)
        return ""

    def stored(self, model, loss, batch, target, stages, replicas=1):
        path = self.out / "programs" / cases.stored_name(model, target, stages, replicas)
        source = self.out / "stored" / model / f"{model}.torchscript.onnx"
        error = self.run([
            self.compiler, source, f"--loss={loss}", f"--batch={batch}",
            f"--microbatches={cases.STORED_MICROBATCHES}", f"--stages={stages}", f"--replicas={replicas}",
            "--schedule=1f1b", "--checkpoint=never", f"--target={target}", "--learning-rate=0.05", *OPTIMIZER, "-o", path], path)
        if error:
            raise SystemExit(f"error: {path.name}: {error}")

    def case(self, case, model):
        """Returns what the manifest says of it. A precision that the compiler
        refuses for this target falls back to f32."""
        path = self.out / "programs" / case.name
        source = self.out / "models" / case.model / f"{case.model}.onnx"
        tool = [self.profiler, "--emit-program", path] if case.use == "profile" else [self.compiler, "-o", path]
        common = [
            *tool, source, f"--batch={case.batch}", f"--microbatches={case.microbatches}", f"--stages={case.stages}",
            f"--target={self.target}"]
        if case.use != "infer":
            common += [f"--loss={model.loss}", *(f"--freeze={name}" for name in model.frozen), "--schedule=1f1b", "--checkpoint=never",
                       f"--learning-rate={case.learning_rate}", *OPTIMIZER]
        if case.fuse_attention:
            common.append(f"--fuse-attention={case.fuse_attention}")
        wanted, refused = case.precision, ""
        error = self.run([*common, f"--precision={case.precision}"], path)
        if error and case.precision != "f32":
            refused, case.precision = error.splitlines()[0], "f32"
            error = self.run([*common, "--precision=f32"], path)
        entry = {**case.to_json(), "loss": model.loss, "wanted_precision": wanted, "refused": refused, "error": error}
        print(f"{case.name} ({case.precision}){': ' + error.splitlines()[0] if error else ''}", flush=True)
        return entry


def sample_count(path):
    with np.load(path) as arrays:
        return len(arrays["target"])


def collect_libraries(programs):
    """All but the C and C++ libraries, which the other machine's compiler brings."""
    ours = ("libc.", "libm.", "libstdc++.", "libgcc_s.", "libpthread.", "libdl.", "librt.", "ld-linux", "linux-vdso")
    paths = set()
    for program in programs:
        for line in subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.splitlines():
            parts = line.split()
            if "=>" in parts and not parts[0].startswith(ours):
                paths.add(pathlib.Path(parts[2]))
    return sorted(paths)


def pack(out):
    """One archive, since programs have most of their bytes in common."""
    programs = sorted((out / "programs").iterdir())
    with tarfile.open(out / "programs.tar.xz", "w:xz", preset=6) as archive:
        for path in programs:
            archive.add(path, f"programs/{path.name}")
        for path in collect_libraries(programs):
            archive.add(path.resolve(), f"libraries/{path.name}")
    shutil.rmtree(out / "programs")
    # The weights are holes, and are made where they are used.
    for path in (out / "models").glob("*/*.bin"):
        path.unlink()


def main(out, target, sizes, compiler, profiler, models_folder):
    out = pathlib.Path(out).resolve()
    compile = Compiler(out, target, compiler, profiler)
    (out / "programs").mkdir()
    manifest = {"target": target, "sizes": sizes, "stored": [], "cases": []}
    for model, (loss, reference, steps) in cases.STORED.items():
        if sizes == "smoke" and model not in cases.SMOKE_STORED:
            continue
        folder = out / "stored" / model
        folder.mkdir(parents=True)
        source = pathlib.Path(models_folder) / model
        shutil.copy(source / f"{model}.torchscript.onnx", folder)
        shutil.copy(source / reference, folder / "reference.npz")
        batch = sample_count(folder / "reference.npz")
        for stages in cases.STORED_STAGES:
            compile.stored(model, loss, batch, target, stages)
        compile.stored(model, loss, batch, target, *cases.STORED_REPLICATED)
        if target != "cpu":
            compile.stored(model, loss, batch, "cpu", 1)
        manifest["stored"].append({"model": model, "batch": batch, "steps": steps})
        print(f"{model} of test/models", flush=True)
    import models

    manifest["cases"] = [compile.case(case, models.SIZES[sizes][case.model]) for case in cases.all_cases(sizes)]
    (out / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")
    # What the processor makes of the stored ones, since its programs may not run on the other machine's.
    stored.record(Harness(out, budget=600))
    pack(out)


if __name__ == "__main__":
    main(*sys.argv[1:])

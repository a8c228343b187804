#!/usr/bin/env python3
"""The Python package, as a wheel that is built, installed into a fresh environment, and used: test/python."""

import os
import subprocess
import sys

import common

ROOT = common.MODELS.parents[1]


def site_packages(python):
    return common.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()


def find_torch():
    """The folder of an interpreter's packages that has PyTorch, if there is one of this version of Python."""
    python = os.environ.get("PP_PYTHON")
    if not python:
        return None
    check = "import sys, torch, onnxscript; print(sys.version_info[:2])"
    done = subprocess.run([python, "-c", check], capture_output=True, text=True)
    same = done.stdout.strip() == str(tuple(sys.version_info[:2]))
    return site_packages(python) if done.returncode == 0 and same else None


def sanitizer_environment(build):
    """What lets an interpreter that is not instrumented load libraries that are."""
    if "PP_SANITIZE:STRING=address" not in (build / "CMakeCache.txt").read_text():
        return {}
    runtime = common.run(["clang-22", "-print-file-name=libclang_rt.asan-x86_64.so"]).strip()
    return {"LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0:allow_user_poisoning=0", "PP_SANITIZED": "1"}


def test(context, checks, arguments):
    environment = context.path()
    wheels = context.path()
    common.run([sys.executable, "-m", "venv", environment])
    python = environment / "bin" / "python"
    common.run([python, "-m", "pip", "install", "--quiet", "pytest", "numpy"], timeout=600)
    settings = {"cmake.define.PP_PREBUILT": context.build, "build-dir": context.path()}
    common.run([python, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", wheels,
                *(f"--config-settings={name}={value}" for name, value in settings.items()), ROOT], timeout=900)
    (wheel, ) = wheels.glob("*.whl")
    common.run([python, "-m", "pip", "install", "--quiet", "--no-deps", wheel], timeout=300)
    torch = find_torch()
    if torch:
        # Beside the wheel, not instead of it.
        with open(os.path.join(site_packages(python), "torch.pth"), "w") as file:
            file.write(torch + "\n")
    # Not from the folder of the sources, whose package would come first.
    report = context.path(".xml")
    done = subprocess.run([python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", ROOT / "test" / "python"],
                          capture_output=True, text=True, cwd=context.scratch, timeout=1500,
                          env={**os.environ, **sanitizer_environment(context.build)})
    checks.check(done.returncode == 0, "\n".join(done.stdout.splitlines()[-60:]) + done.stderr[-2000:])
    checks.check(bool(torch) or "skipped" in done.stdout, "without PyTorch its tests are skipped")
    print(done.stdout.splitlines()[-1] if done.stdout else "")


if __name__ == "__main__":
    common.main(test, __doc__)

#!/usr/bin/env python3
"""Runs every command of docs/hands-on.md, in order, in one shell."""

import os
import pathlib
import re
import shutil
import subprocess

import common

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def test(context, checks, _):
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs" / "hands-on.md").read_text(), re.M | re.S)
    checks.check(len(blocks) >= 6, f"{len(blocks)} blocks of commands")
    folder = context.path()
    folder.mkdir()
    script = "set -eu\n" + "".join(f"echo '== block {i}'\n{block}" for i, block in enumerate(blocks))
    # The tools under test, and files that nobody else writes.
    script = script.replace("$PWD/build/release/bin", str(context.build / "bin")).replace("/tmp/hands-on", str(folder))
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=ROOT, env=dict(os.environ), check=False)
    tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
    checks.check(done.returncode == 0, f"exit code {done.returncode}:\n{tail}")
    checks.check("tensors are equal, bit for bit" in done.stdout, "the trainings of section 4 differ")
    checks.check("without a flush, each of them another training" in done.stdout, "no schedules without a flush")
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    common.main(test, __doc__.splitlines()[0])

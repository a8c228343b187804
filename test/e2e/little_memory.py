#!/usr/bin/env python3
"""With too little memory a program says how much it needs, and ends.

Runs under limits of address space from the one that lets it start at all to the
one that lets it run: nothing may crash or hang in between.
"""

import re
import resource
import subprocess

import numpy as np

import common

MOST = 600_000  # kB


def run(binary, kilobytes, *arguments):
    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (kilobytes * 1024, kilobytes * 1024))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    command = [str(part) for part in (binary.path, *arguments)]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60, preexec_fn=limit)
    except subprocess.TimeoutExpired:
        return None


def check(checks, where, binary, least, *arguments):
    needed = None
    for kilobytes in range(least, MOST, 4000):
        done = run(binary, kilobytes, "bench", "--steps", 2, *arguments)
        if done and done.returncode == 0:
            needed = kilobytes
            break
        checks.check(
            done and done.returncode == 4 and "error:" in done.stderr and "ulimit -v" in done.stderr,
            f"{where}, {kilobytes} kB: {done or 'did not end'}",
        )
    checks.check(needed and needed > least, f"{where}: runs with {needed} kB, starts with {least} kB")


def check_data(context, checks, binary, kilobytes):
    """Data that alone are more than what there is, compressed or not, in an archive or not."""
    arrays = {"image": np.zeros((400_000, 1, 8, 8), np.float32), "target": np.zeros(400_000, np.int64)}
    plain, packed = context.path(".npz"), context.path(".npz")
    np.savez(plain, **arrays)
    np.savez_compressed(packed, **arrays)
    files = []
    for name, array in arrays.items():
        file = context.path(".npy")
        np.save(file, array)
        files += ["--input", f"{name}={file}"]
    for where, flags in (("npz", ["--data", plain]), ("compressed", ["--data", packed]), ("npy", files)):
        done = run(binary, kilobytes, "train", *flags, "--steps", 1)
        checks.check(done and done.returncode == 4 and len(re.findall("error:", done.stderr)) == 1
                     and re.search(r"too little memory for its \d+ bytes|cannot map the \d+ bytes", done.stderr), f"{where}: {done}")


def test(context, checks, arguments):
    binaries = {
        "gpt": context.training("gpt", stages=4, microbatches=4, optimizer="adamw"),
        "lenet": context.training("lenet", stages=4, microbatches=4, batch=16),
    }
    for name, binary in binaries.items():
        starts = [k for k in range(20_000, MOST, 4000) if run(binary, k, "info").returncode == 0]
        # An instrumented program takes terabytes.
        if not starts:
            continue
        check(checks, name, binary, starts[0] + 2000)
        if name == "lenet":
            check_data(context, checks, binary, starts[0] + 40_000)
        if not arguments.quick:
            check(checks, f"{name}, mock", binary, starts[0] + 2000, "--device", "mock")
            for transport in common.TRANSPORTS:
                check(checks, f"{name}, 2 processes, {transport}", binary, starts[0] + 2000, "--processes", 2,
                      "--transport", transport)


if __name__ == "__main__":
    common.main(test, __doc__)

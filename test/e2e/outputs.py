#!/usr/bin/env python3
"""Trainings whose output cannot be written, or whose terminal goes away.

Whatever becomes of the streams, the snapshot of --save is written; one that
cannot be written leaves the old one; killed runs leave nothing for long; and
one file has one writer.
"""

import os
import resource
import signal
import subprocess
import time

import common
from processes import CLEAN

LONG = ("--epochs", 10**6)


class Training:
    """A training that runs while a test looks."""

    def __init__(self, binary, data, *more, **how):
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
        arguments = [binary.path, "train", "--data", data, *more]
        self.process = subprocess.Popen([str(part) for part in arguments], env=CLEAN, **how)

    def wait_for_steps(self):
        for _ in range(3):
            self.process.stdout.readline()

    def end(self, timeout=60):
        """Exit code and standard error; kills what does not end."""
        try:
            _, error = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            _, error = self.process.communicate()
            error = (error or b"") + b"\ndid not end in time"
        return self.process.returncode, (error or b"").decode()


def steps_of(file):
    return int(common.read_safetensors(file)[None]["step"]) if file.exists() else None


def leftovers(file):
    return sorted(path.name for path in file.parent.glob(file.name + ".*"))


def check_streams(context, checks, binary, data):
    """A reader that goes away, a full device, streams that are closed."""
    for more in ((), ("--processes", 2)):
        save = context.path(".st")
        run = Training(binary, data, *LONG, *more, "--save", save)
        run.wait_for_steps()
        run.process.stdout.close()
        run.process.stdout = None
        code, error = run.end()
        checks.check(code == 4 and error.count("error:") == 1 and "standard output: Broken pipe" in error,
                     f"reader gone, {more}: {code} {error}")
        checks.check((steps_of(save) or 0) >= 3, f"reader gone, {more}: {steps_of(save)} steps saved")
        checks.equal(leftovers(save), [], f"reader gone, {more}: files left")
    save = context.path(".st")
    with open("/dev/full", "wb") as full:
        code, error = Training(binary, data, *LONG, "--save", save, stdout=full).end()
    checks.check(code == 4 and "standard output: No space left" in error, f"full: {code} {error}")
    checks.check((steps_of(save) or 0) >= 1, f"full: {steps_of(save)} steps saved")
    with open("/dev/full", "wb") as full:
        checks.equal(subprocess.run([binary.path, "info"], stdout=full, stderr=subprocess.PIPE).returncode, 4,
                     "info into a full device")

    def close_all():
        for stream in range(3):
            os.close(stream)

    for name, how in (("closed", {"preexec_fn": close_all, "stdout": None, "stderr": None}),
                      ("error closed", {"preexec_fn": lambda: os.close(2), "stderr": None})):
        save = context.path(".st")
        code, error = Training(binary, data, "--steps", 3, "--save", save, **how).end()
        checks.equal((code, steps_of(save)), (0, 3), f"{name}: {error}")
    reader, writer = os.pipe()
    os.close(reader)
    save = context.path(".st")
    code, _ = Training(binary, data, "--steps", 3, "--save", save, stderr=writer).end()
    os.close(writer)
    checks.equal((code, steps_of(save)), (0, 3), "nobody reads standard error")


def check_hangup(context, checks, binary, data):
    for more in ((), ("--processes", 2)):
        save = context.path(".st")
        # Whoever runs the tests may ignore it himself.
        run = Training(binary, data, *LONG, *more, "--save", save,
                       preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
        run.wait_for_steps()
        run.process.send_signal(signal.SIGHUP)
        code, error = run.end()
        checks.check(code == 0 and (steps_of(save) or 0) >= 3, f"hangup, {more}: {code} {steps_of(save)} {error}")
        # As nohup does.
        run = Training(binary, data, *LONG, *more,
                       preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        run.wait_for_steps()
        for _ in range(2):
            run.process.send_signal(signal.SIGHUP)
            run.wait_for_steps()
        time.sleep(0.1)
        checks.equal(run.process.poll(), None, f"hangup that is ignored, {more}")
        run.process.send_signal(signal.SIGTERM)
        checks.equal(run.end()[0], 0, f"the end after it, {more}")


def check_size_limit(context, checks, binary, data):
    save = context.path(".st")
    binary.train(data, "--steps", 2, "--save", save)
    before = save.read_bytes()

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, len(before) // 2))

    code, error = Training(binary, data, "--steps", 4, "--save", save, preexec_fn=limit).end()
    checks.check(code == 4 and f"cannot write '{save}': File too large" in error, f"limit: {code} {error}")
    checks.check(save.read_bytes() == before, "the old snapshot with a limit")
    checks.equal(leftovers(save), [], "files left with a limit")


def check_killed(context, checks, binary, data):
    save = context.path(".st")
    left = []
    for _ in range(20):
        run = Training(binary, data, *LONG, "--save", save, "--save-every", 1)
        run.wait_for_steps()
        run.process.kill()
        run.end()
        left.append(len(leftovers(save)))
    # The lock, and what was being written.
    checks.check(max(left) <= 2, f"files beside the snapshot after each kill: {left}")
    abandoned = save.with_name(save.name + ".tmp-abcdef")
    abandoned.write_bytes(b"of a killed process")
    other = save.with_name(save.name + ".tmp-of-the-user")
    other.write_bytes(b"")
    binary.train(data, "--steps", 1, "--save", save)
    checks.equal(leftovers(save), [other.name], "files left after a good run")


def check_lock(context, checks, binary, data):
    save = context.path(".st")
    for more in ((), ("--processes", 2)):
        first = Training(binary, data, *LONG, "--save", save, "--save-every", 1)
        first.wait_for_steps()
        code, error = Training(binary, data, "--steps", 2, *more, "--save", save).end()
        checks.check(
            code == 4 and f"'{save}' is being written by process {first.process.pid} on {os.uname().nodename}" in error,
            f"second writer, {more}: {code} {error}")
        first.process.kill()
        first.end()
        code, error = Training(binary, data, "--steps", 2, *more, "--save", save).end()
        checks.equal((code, steps_of(save)), (0, 2), f"after the first writer, {more}: {error}")


def test(context, checks, arguments):
    binary = context.training("lenet", stages=2, microbatches=4, optimizer="adamw", batch=16)
    data = context.data("lenet", samples=32)
    check_streams(context, checks, binary, data)
    check_hangup(context, checks, binary, data)
    check_size_limit(context, checks, binary, data)
    check_killed(context, checks, binary, data)
    check_lock(context, checks, binary, data)


if __name__ == "__main__":
    common.main(test, __doc__)

#!/usr/bin/env python3
"""Processes that stop, die early, are strangers, or read something else.

The command of --processes ends whatever becomes of one process; jobs by hand
meet from any shells; over TCP only those with the job's secret train; and what
the processes read has to be the same.
"""

import fcntl
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time

import numpy as np

import common
from processes import CLEAN, SOON, Job, own_variables, started

SECRET = {"PP_SECRET": "a secret of the tests"}


def children(process):
    try:
        text = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def tcp_variables(port, count, *more):
    return [{**row, "PP_MASTER": f"127.0.0.1:{port}", **SECRET} for row in own_variables(f"tcp-{port}", count)]


def command_of(data, *more):
    return ["train", "--data", data, "--weights", common.MODELS / "lenet", *more]


class Command:
    """A training that would never end, in processes that the command starts."""

    def __init__(self, binary, data, count, *more):
        arguments = [binary.path, *command_of(data, "--epochs", 10**6, "--processes", count, *more)]
        self.process = subprocess.Popen(
            [str(part) for part in arguments], env=CLEAN, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def wait_for_steps(self):
        for _ in range(3):
            self.process.stdout.readline()

    def end(self, timeout=30):
        """Exit code, standard error, seconds; kills what does not end."""
        start = time.monotonic()
        try:
            _, error = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            for child in children(self.process):
                os.kill(child, signal.SIGKILL)
            self.process.kill()
            _, error = self.process.communicate()
            error += "\ndid not end in time"
        return self.process.returncode, error, time.monotonic() - start


def check_stopped(checks, binary, data):
    for transport in common.TRANSPORTS:
        for victim in (0, 1):
            where = f"process {victim} stopped, {transport}"
            command = Command(binary, data, 2, "--watchdog", 1, "--transport", transport)
            command.wait_for_steps()
            pid = children(command.process)[victim]
            os.kill(pid, signal.SIGSTOP)
            code, error, _ = command.end(40)
            checks.equal(code, 70, f"{where}: {error}")
            checks.check(f"process {victim} (pid {pid}) was stopped by signal 19" in error, f"{where}: {error}")
    command = Command(binary, data, 2, "--watchdog", 0)
    command.wait_for_steps()
    os.kill(children(command.process)[1], signal.SIGSTOP)
    time.sleep(0.2)
    command.process.send_signal(signal.SIGTERM)
    code, error, seconds = command.end(40)
    checks.equal(code, 0, f"SIGTERM while one is stopped: {error}")
    checks.check(seconds < SOON, f"SIGTERM while one is stopped: {seconds:.1f} s")


def check_paused(checks, binary, data):
    """All are stopped for longer than the watchdog allows, as by a terminal, and go on."""
    command = Command(binary, data, 2, "--watchdog", 1)
    command.wait_for_steps()
    processes = [command.process.pid, *children(command.process)]
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(4)
    for pid in processes:
        os.kill(pid, signal.SIGCONT)
    time.sleep(1.5)
    checks.equal(command.process.poll(), None, "a paused job goes on")
    command.process.send_signal(signal.SIGTERM)
    code, error, _ = command.end(40)
    checks.equal(code, 0, f"a paused job: {error}")


def check_unread_log(checks, binary, data):
    """A job whose log nobody reads waits, as one that `less` shows, and goes on."""
    command = Command(binary, data, 2, "--watchdog", 1)
    fcntl.fcntl(command.process.stdout, fcntl.F_SETPIPE_SZ, 4096)
    command.wait_for_steps()
    time.sleep(4)
    checks.equal(command.process.poll(), None, "an unread job goes on")
    command.process.send_signal(signal.SIGTERM)
    code, error, _ = command.end(40)
    checks.equal(code, 0, f"an unread job: {error}")


def check_early_death(checks, binary, data):
    """Killed at some time during the first 80 ms."""
    for i in range(8):
        command = Command(binary, data, 3, "--join-timeout", 300)
        end = time.monotonic() + 30
        while len(children(command.process)) < 3 and time.monotonic() < end:
            pass
        time.sleep(0.01 * i)
        os.kill(children(command.process)[i % 3], signal.SIGKILL)
        code, error, seconds = command.end(60)
        checks.equal(code, 70, f"killed after {10 * i} ms: {error}")
        checks.check(seconds < SOON, f"killed after {10 * i} ms: {seconds:.1f} s")


def check_too_many(checks, binary, data):
    def run(environment, *more):
        command = [str(part) for part in [binary.path, *command_of(data, *more)]]
        return subprocess.run(command, env={**CLEAN, **environment}, capture_output=True, text=True, timeout=60)

    done = run({}, "--processes", 4096)
    checks.check(done.returncode == 2 and done.stderr.count("error:") == 1 and "4096 processes for" in done.stderr,
                 f"--processes 4096: {done}")
    done = run({"PP_PROCESS": "0", "PP_PROCESSES": "99999"})
    checks.check(done.returncode == 2 and "99999 processes for" in done.stderr, f"PP_PROCESSES=99999: {done}")


def check_by_hand(checks, binary, data):
    """Two shells, which are two parents, and no name of the job."""
    text = shlex.join(str(part) for part in [binary.path, *command_of(data, "--steps", 2)])
    shells = [
        subprocess.Popen(["sh", "-c", f"{text}; exit $?"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         env={**CLEAN, "PP_PROCESS": str(i), "PP_PROCESSES": "2"})
        for i in range(2)
    ]
    results = [(shell.communicate(timeout=90), shell.returncode) for shell in shells]
    checks.equal([code for _, code in results], [0, 0], f"by hand from two shells: {results}")


def check_strangers(context, checks, binary, data, other_data):
    steps = ("--steps", 20, "--log-bits")
    expected = re.findall('"loss_bits": ?"(.*?)"', common.run([binary.path, *command_of(data, *steps)]))
    port = free_port()
    first, second = tcp_variables(port, 2)
    stranger = {**second, "PP_SECRET": "the secret of a stranger"}
    job = Job(binary, command_of(data, *steps), [first])
    results = Job(binary, command_of(other_data, *steps), [stranger]).wait(90)
    checks.check(results[0][0] == 2 and "has another secret" in results[0][2], f"another secret: {results}")
    without = {k: v for k, v in second.items() if k != "PP_SECRET"}
    results = Job(binary, command_of(other_data, *steps), [without]).wait(90)
    checks.check(results[0][0] == 2 and "set PP_SECRET or --secret-file" in results[0][2], f"no secret: {results}")
    file = context.path()
    file.write_text(SECRET["PP_SECRET"] + "\n")
    file.chmod(0o600)
    results = Job(binary, command_of(data, *steps, "--secret-file", file), [without]).wait(90) + job.wait(90)
    checks.equal([code for code, _, _ in results], [0, 0], f"with the secret: {results}")
    checks.check("does not know the job's secret" in results[1][2], f"process 0 mentions nobody: {results[1]}")
    bits = re.findall('"loss_bits": ?"(.*?)"', results[1][1])
    checks.check(bits and bits == expected, "a training to which strangers came has other bits")


def check_contents(context, checks, binary, data, other_data):
    """The same sizes, the same steps, other values."""

    def expect(where, first, second, *patterns, command="train"):
        results = Job(binary, [command], own_variables(f"contents-{where.replace(' ', '-')}", 2),
                      [[str(part) for part in first], [str(part) for part in second]]).wait(90)
        text = results[0][2]
        checks.check([code for code, _, _ in results] == [2, 2] and all(re.search(p, text) for p in patterns),
                     f"{where}: {results}")

    weights = ("--weights", common.MODELS / "lenet")
    base = ("--data", data, "--steps", 4, *weights)
    bad = ("--data", other_data, "--steps", 4, *weights)
    with np.load(data) as arrays:
        images = context.path(".npz")
        np.savez(images, **{**arrays, "image": -arrays["image"]})
    expect("labels", base, bad, r"array 'target' of --data: process 1 \(.*" + re.escape(str(other_data)))
    expect("evaluation", (*base, "--eval-data", data), (*base, "--eval-data", images),
           r"'image' of --eval-data: process 1 \(")
    expect("evaluation targets", (*base, "--eval-data", data), (*base, "--eval-data", other_data),
           r"'target' of --eval-data: process 1 \(.*" + re.escape(str(other_data)))
    folder = context.path()
    folder.mkdir()
    for file in (common.MODELS / "lenet").glob("*.onnx*"):
        raw = bytearray(file.read_bytes())
        raw[-len(raw) // 2] ^= 1
        (folder / file.name).write_bytes(raw)
    expect("weights", base, (*base[:4], "--weights", folder, "--no-verify-weights"), r"weights \(--weights\): process 1 \(",
           re.escape(str(folder)))
    snapshots = context.path(), context.path()
    for rate, file in zip((1e-3, 1e-2), snapshots):
        binary.train(data, *weights, "--steps", 2, "--lr", rate, "--save", file)
    resume = [(*base, "--resume", file) for file in snapshots]
    expect("snapshot", *resume, r"the snapshot of --resume: process 1 \(", re.escape(str(snapshots[1])))
    load = [("--data", data, *weights, "--load", file) for file in snapshots]
    expect("load", *load, r"the weights of --load: process 1 \(", command="infer")
    # Copies are the same.
    copies = context.path(), context.path(".npz"), context.path()
    shutil.copy(snapshots[0], copies[0])
    shutil.copy(data, copies[1])
    shutil.copytree(common.MODELS / "lenet", copies[2])
    results = Job(binary, ["train"], own_variables("copies", 2), [
        [str(part) for part in resume[0]],
        [str(part) for part in ("--data", copies[1], "--steps", 4, "--weights", copies[2], "--resume", copies[0])],
    ]).wait(90)
    checks.equal([code for code, _, _ in results], [0, 0], f"copies: {results}")


def test(context, checks, arguments):
    binary = context.training("lenet", stages=4, microbatches=4, optimizer="adamw", batch=16, schedule="1f1b")
    data = context.data("lenet", samples=32)
    with np.load(data) as arrays:
        arrays = dict(arrays)
    other = context.path(".npz")
    np.savez(other, **{**arrays, "target": (arrays["target"] + 1) % 10})
    check_stopped(checks, binary, data)
    check_paused(checks, binary, data)
    check_unread_log(checks, binary, data)
    check_early_death(checks, binary, data)
    check_too_many(checks, binary, data)
    check_by_hand(checks, binary, data)
    check_strangers(context, checks, binary, data, other)
    check_contents(context, checks, binary, data, other)


if __name__ == "__main__":
    common.main(test, __doc__)

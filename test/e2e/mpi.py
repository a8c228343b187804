#!/usr/bin/env python3
"""Processes of mpirun do through MPI what one process does, and end together.

Training and inference have the same bits with every MPI that is installed.
Then what goes wrong: a process is killed or stopped, has another program or no
model, the plugin is missing or of another MPI.
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import common
from processes import CLEAN, SOON, check_same, train

# What a launcher needs here: tests may run as root, and have few cores.
LAUNCHERS = {
    "openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"],
    "mpich": ["mpirun.mpich"],
}


class Mpi:
    """One implementation."""

    def __init__(self, context, name):
        self.name = name
        self.plugin = context.build / "lib" / name / "libpp_mpi.so"
        self.launcher = LAUNCHERS[name]

    def prefix(self, plugin=None):
        return ["env", *(f"{k}={v}" for k, v in {"PP_MPI_PLUGIN": plugin or self.plugin}.items()), *self.launcher]


class Launched(common.Binary):
    """A compiled model whose processes mpirun starts."""

    def __init__(self, binary, mpi, count, *flags):
        super().__init__(binary.path)
        self.command = [*mpi.prefix(), "-n", count, binary.path]
        self.flags = [*flags, "--transport", "mpi"]

    def train(self, data, *arguments):
        out = common.run([*self.command, "train", "--data", data, *arguments, *self.flags])
        return [common.json.loads(line) for line in out.splitlines()]

    def infer(self, data, output, *arguments):
        common.run([*self.command, "infer", "--data", data, "--output", output, *arguments, *self.flags])
        return dict(common.np.load(output))


class Running:
    """mpirun with what it started."""

    def __init__(self, mpi, parts, plugin=None):
        """`parts`: of several programs, how many processes and their command lines."""
        command = mpi.prefix(plugin)
        for i, (count, part) in enumerate(parts):
            command += [":"] * (i > 0) + ["-n", count, *part]
        self.program = str(parts[0][1][0])
        # A file, since a pipe would be full of what nobody reads.
        self.launcher = subprocess.Popen([str(part) for part in command], env=CLEAN, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT, text=True, start_new_session=True)
        self.started = {}

    def find(self):
        """The processes of the program, by number: those that mpirun has started, or a daemon of its."""
        found = {}
        for folder in pathlib.Path("/proc").iterdir():
            with contextlib.suppress(OSError, ValueError, IndexError):
                if (folder / "cmdline").read_bytes().split(b"\0")[0].decode() != self.program:
                    continue
                if os.getsid(int(folder.name)) != self.launcher.pid and not self.has_parent(int(folder.name)):
                    continue
                pairs = (folder / "environ").read_bytes().split(b"\0")
                rank = next(p for p in pairs if p.startswith((b"OMPI_COMM_WORLD_RANK=", b"PMI_RANK=")))
                found[int(rank.split(b"=")[1])] = int(folder.name)
        return found

    def has_parent(self, pid):
        while pid > 1:
            if pid == self.launcher.pid:
                return True
            pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
        return False

    def wait_for_steps(self):
        lines = 0
        text = ""
        while lines < 3:
            line = self.launcher.stdout.readline()
            if not line:
                raise common.Failure(f"the job has ended: {text}")
            text += line
            lines += line.startswith("{")
        self.started = self.find()

    def end(self, timeout=40):
        """Exit code, text, seconds, and the processes that are left."""
        start = time.monotonic()
        try:
            text, _ = self.launcher.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(self.launcher.pid, signal.SIGKILL)
            text, _ = self.launcher.communicate()
            text += "\ndid not end in time"
        seconds = time.monotonic() - start
        time.sleep(0.2)
        left = [pid for pid in self.started.values() if is_running(pid)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return self.launcher.returncode, text, seconds, left


def is_running(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def check_results(context, checks, mpis, models):
    for model, options in models:
        binary = context.training(model, stages=4, microbatches=4, optimizer="adamw", **options)
        data = context.data(model, samples=2 * options["batch"])
        weights = ("--weights", common.MODELS / model)
        expected = train(context, binary, data, *weights)
        output = {k: v.tobytes() for k, v in binary.infer(data, context.path(".npz"), *weights).items()}
        for mpi in mpis:
            for count in (2, 4):
                where = f"{model}, {count} processes, {mpi.name}"
                launched = Launched(binary, mpi, count)
                check_same(checks, where, train(context, launched, data, *weights), expected)
            value = {k: v.tobytes() for k, v in launched.infer(data, context.path(".npz"), *weights).items()}
            checks.check(value == output, f"{where}: outputs of inference differ")


def command_of(binary, data, *more, weights=common.MODELS / "lenet"):
    return [binary.path, "train", "--data", data, "--weights", weights, "--transport", "mpi", *more]


def check_killed(checks, mpi, binary, data):
    for victim in (0, 1):
        where = f"process {victim} killed, {mpi.name}"
        job = Running(mpi, [(2, command_of(binary, data, "--epochs", 10**6))])
        job.wait_for_steps()
        os.kill(job.started[victim], signal.SIGKILL)
        code, text, seconds, left = job.end()
        checks.check(code != 0 and re.search(rf"process {victim} \(.*ended without a word|signal 9|EXIT CODE: 9", text),
                     f"{where}: {code} {text}")
        checks.check(seconds < SOON, f"{where}: {seconds:.1f} s")
        checks.equal(left, [], f"{where}: left")


def check_stopped(checks, mpi, binary, data):
    job = Running(mpi, [(2, command_of(binary, data, "--epochs", 10**6, "--watchdog", 2))])
    job.wait_for_steps()
    os.kill(job.started[1], signal.SIGSTOP)
    code, text, seconds, left = job.end()
    checks.check(code == 70 and re.search(r"gave no sign of life for 2 s|no action completed", text),
                 f"stopped, {mpi.name}: {code} {text}")
    checks.check(seconds < SOON, f"stopped, {mpi.name}: {seconds:.1f} s")
    checks.equal(left, [], f"stopped, {mpi.name}: left")


def check_refused(context, checks, mpi, other_mpi, binary, other, data):
    def expect(where, expected, pattern, parts, plugin=None):
        code, text, seconds, _ = Running(mpi, parts, plugin).end()
        checks.check(code == expected and re.search(pattern, text) and text.count("error:") == 1,
                     f"{where}, {mpi.name}: exit code {code}, expected {expected}: {text}")
        checks.check(seconds < SOON, f"{where}, {mpi.name}: {seconds:.1f} s")

    good = command_of(binary, data, "--steps", 2)
    expect("another program", 2, r"process 1 \(.*\) has another program than process 0",
           [(1, good), (1, command_of(other, data, "--steps", 2))])
    expect("no model", 4, r"process 1 \(.*/nowhere", [(1, good), (1, command_of(binary, data, "--steps", 2,
                                                                                  weights="/nowhere"))])
    expect("no data", 4, r"process 1 \(.*nowhere\.npz", [(1, good), (1, command_of(binary, "nowhere.npz", "--steps", 2))])
    expect("no model anywhere", 4, r"/nowhere", [(2, command_of(binary, data, weights="/nowhere"))])
    missing = context.path(".so")
    expect("no plugin", 2, r"cannot load the MPI plugin; build it with scripts/build-mpi-plugin", [(2, good)], missing)
    if other_mpi:
        expect("the plugin of another MPI", 2, r"the plugin was built with another MPI than the launcher's", [(2, good)],
               other_mpi.plugin)


def check_by_hand(checks, binary, data):
    for more, environment in ((["--processes", 2], {}), ([], {"PP_PROCESS": "0", "PP_PROCESSES": "2"})):
        done = subprocess.run([str(part) for part in command_of(binary, data, *more)], env={**CLEAN, **environment},
                              capture_output=True, text=True, timeout=60)
        checks.check(done.returncode == 2 and "mpirun or srun has to start the processes" in done.stderr, f"by hand: {done}")


def test(context, checks, arguments):
    mpis = [Mpi(context, name) for name in LAUNCHERS]
    for mpi in mpis:
        if not shutil.which(mpi.launcher[0]) or not mpi.plugin.exists():
            raise common.Failure(f"{mpi.launcher[0]} or {mpi.plugin} is missing: scripts/bootstrap installs both MPIs")
    models = [("lenet", {"batch": 16, "schedule": "1f1b"})]
    if not arguments.quick:
        models += [("gpt_tied", {"batch": 8, "schedule": "gpipe", "checkpoint": "always"})]
    check_results(context, checks, mpis, models)
    binary = context.training("lenet", stages=4, microbatches=4, optimizer="adamw", batch=16, schedule="1f1b")
    other = context.training("lenet", stages=4, microbatches=2, optimizer="adamw", batch=16, schedule="1f1b")
    data = context.data("lenet", samples=32)
    for mpi in mpis:
        check_killed(checks, mpi, binary, data)
        check_stopped(checks, mpi, binary, data)
        check_refused(context, checks, mpi, next((m for m in mpis if m is not mpi), None), binary, other, data)
    check_by_hand(checks, binary, data)


if __name__ == "__main__":
    common.main(test, __doc__)

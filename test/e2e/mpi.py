#!/usr/bin/env python3
"""Processes of mpirun do through MPI what one process does, and end together.

Training and inference have the same bits with every MPI that is installed.
Then what goes wrong: a process is killed or stopped, has another program or no
model, the plugin is missing or of another MPI. The same between two hosts,
where that is possible, through MPI without being asked for.
"""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

import common
from processes import CLEAN, SOON, check_same, train
from two_hosts import TwoHosts, why_not

# What a launcher needs here: tests may run as root, and have few cores.
LAUNCHERS = {
    "openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"],
    "mpich": ["mpirun.mpich"],
}
# Open MPI takes UCX of itself only for hardware that it knows. Debian's MPICH has nothing else.
OVER_UCX = ["--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any", "--mca", "opal_common_ucx_devices", "any"]


class Mpi:
    """One implementation."""

    def __init__(self, context, name, more=()):
        self.name = name + " over UCX" * bool(more)
        self.is_mpich = name == "mpich"
        self.plugin = context.build / "lib" / name / "libpp_mpi.so"
        self.launcher = [*LAUNCHERS[name], *more]

    def prefix(self, plugin=None):
        return ["env", f"PP_MPI_PLUGIN={plugin or self.plugin}", *self.launcher]

    def between(self, hosts):
        """The prefix for processes on both of them."""
        names = ",".join(hosts.names)
        # They share a kernel, from which UCX concludes that they share memory.
        prefix = [*hosts.enter, "env", f"PP_MPI_PLUGIN={self.plugin}", "UCX_TLS=tcp,self", *self.launcher]
        if self.is_mpich:
            return [*prefix, "-launcher", "ssh", "-launcher-exec", hosts.agent, "-hosts", names]
        # Each host would bind its first process to the core that the other has bound its own to.
        return [*prefix, "--bind-to", "none", "--map-by", "node", "-x", "PP_MPI_PLUGIN", "-x", "UCX_TLS", "--mca", "plm_rsh_agent", hosts.agent,
                "--host", ",".join(f"{name}:2" for name in hosts.names)]


class Launched(common.Binary):
    """A compiled model whose processes mpirun starts."""

    def __init__(self, binary, prefix, count, *flags):
        super().__init__(binary.path)
        self.command = [*prefix, "-n", count, binary.path]
        self.flags = flags

    def train(self, data, *arguments):
        out = common.run([*self.command, "train", "--data", data, *arguments, *self.flags])
        # What mpirun of MPICH minds, see check_two_hosts, it says there too.
        return [common.json.loads(line) for line in out.splitlines() if line.startswith("{")]

    def infer(self, data, output, *arguments):
        common.run([*self.command, "infer", "--data", data, "--output", output, *arguments, *self.flags])
        return dict(common.np.load(output))


class Running:
    """mpirun with what it started."""

    def __init__(self, prefix, parts):
        """`parts`: of several programs, how many processes and their command lines."""
        command = [*prefix]
        for i, (count, part) in enumerate(parts):
            command += [":"] * (i > 0) + ["-n", count, *part]
        self.program = str(parts[0][1][0])
        # A pipe would be open as long as a daemon of mpirun lives.
        self.log = tempfile.TemporaryFile()
        self.launcher = subprocess.Popen([str(part) for part in command], env=CLEAN, stdout=self.log,
                                         stderr=subprocess.STDOUT, start_new_session=True)
        self.started = {}

    def text(self):
        return os.pread(self.log.fileno(), 1 << 24, 0).decode(errors="replace")

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
        end = time.monotonic() + 60
        while self.text().count("\n{") < 2:
            if self.launcher.poll() is not None or time.monotonic() > end:
                self.end(timeout=0)
                raise common.Failure(f"the job has ended, or makes no steps: {self.text()}")
            time.sleep(0.02)
        self.started = self.find()

    def end(self, timeout=40):
        """Exit code, text, seconds, and the processes that are left."""
        start = time.monotonic()
        note = ""
        try:
            self.launcher.wait(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(self.launcher.pid, signal.SIGKILL)
            self.launcher.wait()
            note = "\ndid not end in time"
        seconds = time.monotonic() - start
        time.sleep(0.2)
        left = [pid for pid in self.started.values() if is_running(pid)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        return self.launcher.returncode, self.text() + note, seconds, left


def is_running(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def check_results(context, checks, mpis, models):
    for model, options in models:
        binary = context.training(model, optimizer="adamw", **{"stages": 4, "microbatches": 4, **options})
        data = context.data(model, samples=2 * options["batch"])
        weights = ("--weights", common.MODELS / model)
        expected = train(context, binary, data, *weights)
        output = {k: v.tobytes() for k, v in binary.infer(data, context.path(".npz"), *weights).items()}
        for mpi in mpis:
            for count in (2, 4):
                where = f"{model}, {count} processes, {mpi.name}"
                launched = Launched(binary, mpi.prefix(), count, "--transport", "mpi")
                check_same(checks, where, train(context, launched, data, *weights), expected)
            value = {k: v.tobytes() for k, v in launched.infer(data, context.path(".npz"), *weights).items()}
            checks.check(value == output, f"{where}: outputs of inference differ")


def command_of(binary, data, *more, weights=common.MODELS / "lenet"):
    return [binary.path, "train", "--data", data, "--weights", weights, "--transport", "mpi", *more]


def says_who_ended(text, victim):
    """Whoever finds it first: the other processes, MPI itself, or mpirun."""
    return re.search(rf"process {victim} \(.*(ended without a word|is lost)|signal 9|EXIT CODE: 9", text)


def check_killed(checks, mpi, binary, data):
    for victim in (0, 1):
        where = f"process {victim} killed, {mpi.name}"
        job = Running(mpi.prefix(), [(2, command_of(binary, data, "--epochs", 10**6))])
        job.wait_for_steps()
        os.kill(job.started[victim], signal.SIGKILL)
        code, text, seconds, left = job.end()
        checks.check(code != 0 and says_who_ended(text, victim), f"{where}: {code} {text}")
        checks.check(seconds < SOON, f"{where}: {seconds:.1f} s")
        checks.equal(left, [], f"{where}: left")


def check_stopped(checks, mpi, binary, data):
    job = Running(mpi.prefix(), [(2, command_of(binary, data, "--epochs", 10**6, "--watchdog", 2))])
    job.wait_for_steps()
    os.kill(job.started[1], signal.SIGSTOP)
    code, text, seconds, left = job.end()
    # MPICH's mpirun kills the stopped one, and gives the code of whichever it sees end first. Where its parent ends before that, a
    # stopped process of an orphaned group is hung up, which is signal 1.
    codes = (70, 9, 1) if mpi.is_mpich else (70,)
    checks.check(code in codes and re.search(common.FOUND_STOPPED, text),
                 f"stopped, {mpi.name}: {code} {text}")
    checks.check(seconds < SOON, f"stopped, {mpi.name}: {seconds:.1f} s")
    checks.equal(left, [], f"stopped, {mpi.name}: left")


def check_refused(context, checks, mpi, other_mpi, binary, other, data):
    def expect(where, expected, pattern, parts, plugin=None):
        code, text, seconds, _ = Running(mpi.prefix(plugin), parts).end()
        # MPICH's mpirun kills whichever has not ended when it sees the first end, or hangs up, which is signal 1, and may give its code.
        codes = (expected, 9, 1) if mpi.is_mpich else (expected,)
        checks.check(code in codes and re.search(pattern, text) and text.count("error:") == 1,
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
    expect("the plugin of another MPI", 2, r"the plugin was built with another MPI than the launcher's", [(2, good)],
           other_mpi.plugin)


def check_two_hosts(context, checks, mpi, binary, data):
    weights = ("--weights", common.MODELS / "lenet")
    expected = train(context, binary, data, *weights)
    endless = [binary.path, "train", "--data", data, *weights, "--epochs", 10**6]
    with TwoHosts(context.path()) as hosts:
        prefix = mpi.between(hosts)
        # MPI_Finalize of MPICH 4.0 over TCP hangs now and then, of any program. Ours goes without it, which mpirun may mind.
        forgiving = ["sh", "-c", '"$@" || true', "sh"] if mpi.is_mpich else []
        launched = Launched(binary, [*forgiving, *prefix], 4)
        check_same(checks, f"two hosts, {mpi.name}", train(context, launched, data, *weights), expected)
        code, text, _, _ = Running(prefix, [(4, [*endless, "--transport", "peer"])]).end()
        checks.check(code == 2 and text.count("error:") == 1 and "on several machines: set PP_MASTER" in text,
                     f"not through MPI, {mpi.name}: {code} {text}")
        job = Running(prefix, [(4, endless)])
        job.wait_for_steps()
        checks.equal(len(job.started), 4, f"two hosts, {mpi.name}: processes")
        os.kill(job.started[3], signal.SIGKILL)
        code, text, seconds, left = job.end()
        checks.check(code != 0 and says_who_ended(text, 3), f"killed on the other host, {mpi.name}: {code} {text}")
        checks.check(seconds < SOON, f"killed on the other host, {mpi.name}: {seconds:.1f} s")
        checks.equal(left, [], f"killed on the other host, {mpi.name}: left")
        # mpirun itself may wait for its daemon for ever.
        job = Running(prefix, [(4, [*endless, "--watchdog", 2])])
        job.wait_for_steps()
        hosts.cut()
        end = time.monotonic() + SOON
        while time.monotonic() < end and any(is_running(pid) for pid in job.started.values()):
            time.sleep(0.1)
        checks.equal([n for n, pid in job.started.items() if is_running(pid)], [], f"a cut wire, {mpi.name}: left")
        code, text, _, _ = job.end(timeout=1)
        checks.check(re.search(common.FOUND_STOPPED, text), f"a cut wire, {mpi.name}: {text}")


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
        models += [("gpt_tied", {"batch": 8, "schedule": "gpipe", "checkpoint": "always"}),
                   ("gpt_tied", {"batch": 8, "schedule": "1f1b", "stages": 2, "replicas": 2}),
                   ("lenet", {"batch": 16, "schedule": "pipedream-2bw", "allow_stale": None}),
                   ("unet", {"batch": 8, "schedule": "zb-h1"})]
    check_results(context, checks, mpis, models)
    binary = context.training("lenet", stages=4, microbatches=4, optimizer="adamw", batch=16, schedule="1f1b")
    other = context.training("lenet", stages=4, microbatches=2, optimizer="adamw", batch=16, schedule="1f1b")
    data = context.data("lenet", samples=32)
    ucx = Mpi(context, "openmpi", OVER_UCX)
    check_results(context, checks, [ucx], models[:1])
    reason = why_not()
    if reason:
        print(f"skipped: two hosts: {reason}")

    # They mostly wait.
    def check_faults(mpi):
        check_killed(checks, mpi, binary, data)
        check_stopped(checks, mpi, binary, data)
        if mpi is not ucx:
            check_refused(context, checks, mpi, next(m for m in mpis if m is not mpi), binary, other, data)
        if not reason:
            check_two_hosts(context, checks, mpi, binary, data)

    context.map(check_faults, [*mpis, ucx])
    check_by_hand(checks, binary, data)


if __name__ == "__main__":
    common.main(test, __doc__)

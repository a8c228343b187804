#!/usr/bin/env python3
"""pp-profile --links and the command `links` of programs.

What they write says which processes are on which machine, pp-plan takes it, and a
wire of a known rate and delay between two hosts has them in it.
"""

import json
import os
import shutil
import subprocess

import common
from mpi import Mpi
from processes import CLEAN
from two_hosts import TwoHosts, why_no_delay, why_not

MEGABIT = 1e6 / 8  # bytes per second
RATE = 800  # of the wire, in megabits
DELAY = 2e-3  # seconds, one way


def measure(context, command, *options, prefix=()):
    path = context.path(".json")
    text = common.run([*prefix, *command, "-o", path, *options])
    return json.loads(path.read_text()), text


def leaves(group):
    if "members" not in group:
        return group.get("count", 1)
    return sum(leaves(member) for member in group["members"])


def check_sane(checks, where, group):
    """Latencies and bandwidths of things that exist, and all memory within this machine's."""
    if "members" not in group:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        checks.check(0 < group["memory_bytes"] * group.get("count", 1) < total, f"{where}: {group}")
        return
    link = group["link"]
    checks.check(1e-9 < link["latency"] < 1 and 1e4 < link["bandwidth"] < 1e13 and 0 <= link["overhead"] < 1e-6,
                 f"{where}: {link}")
    for member in group["members"]:
        check_sane(checks, where, member)


def check_planned(context, checks, cluster, where):
    path = context.path(".json")
    path.write_text(json.dumps(cluster))
    text = common.run([context.build / "bin" / "pp-plan", common.model_file("lenet", "torchscript"), "--training",
                       "--loss=cross_entropy", "--batch=16", f"--cluster={path}"])
    devices = leaves(cluster["root"])
    checks.check(f"{devices} device" in text, f"{where}: {text}")


def check_one_machine(context, checks, commands):
    cores = len(os.sched_getaffinity(0))
    for name, command in commands.items():
        cluster, text = measure(context, command)
        checks.equal(leaves(cluster["root"]), cores, f"{name}: devices")
        check_sane(checks, name, cluster["root"])
        checks.check("threads" in text and "processes" not in text, f"{name}: {text}")
        check_planned(context, checks, cluster, name)
    for transport in common.TRANSPORTS:
        cluster, text = measure(context, commands["pp-profile"], "--processes", 3, "--transport", transport)
        where = f"three processes, {transport}"
        names = [member["name"] for member in cluster["root"]["members"]]
        checks.equal(names, ["process0", "process1", "process2"], where)
        check_sane(checks, where, cluster["root"])
        checks.check("processes            3" in text and "machines" not in text, f"{where}: {text}")
        check_planned(context, checks, cluster, where)


def check_two_machines(context, checks, command):
    mpi = Mpi(context, "openmpi")
    with TwoHosts(context.path()) as hosts:
        hosts.limit(RATE)
        for wanted in ("mpi", "sockets"):
            if wanted == "mpi":
                cluster, text = measure(context, command, prefix=[*mpi.between(hosts), "-n", 4])
            else:
                cluster, text = run_by_hand(context, hosts, command)
            where = f"two hosts, {wanted}"
            root = cluster["root"]
            checks.equal([len(member["members"]) for member in root["members"]], [2, 2], f"{where}: {root}")
            check_sane(checks, where, root)
            bandwidth = root["link"]["bandwidth"]
            checks.check(0.4 * RATE * MEGABIT < bandwidth < 1.1 * RATE * MEGABIT,
                         f"{where}: {bandwidth / MEGABIT} megabits per second")
            for member in root["members"]:
                checks.check(member["link"]["bandwidth"] > 4 * bandwidth, f"{where}: {member}")
            checks.check("machines             4" in text, f"{where}: {text}")
            check_planned(context, checks, cluster, where)


def check_delay(context, checks, command):
    """A wire's delay is in the latency, and takes nothing of the bandwidth that a long message has."""
    mpi = Mpi(context, "openmpi")
    with TwoHosts(context.path(), can_delay=True) as hosts:
        hosts.delay(DELAY)
        hosts.limit(RATE)
        cluster, _ = measure(context, command, prefix=[*mpi.between(hosts), "-n", 2])
        link = cluster["root"]["link"]
        checks.check(DELAY < link["latency"] < 10 * DELAY, f"a delay: {link}")
        checks.check(0.1 * RATE * MEGABIT < link["bandwidth"] < 1.1 * RATE * MEGABIT, f"a delay: {link}")


def run_by_hand(context, hosts, command):
    """Two processes on each host, which meet by PP_MASTER."""
    path = context.path(".json")
    started = []
    for process in range(4):
        variables = {"PP_PROCESS": process, "PP_PROCESSES": 4, "PP_MASTER": f"{hosts.names[0]}:7777", "PP_SECRET": "a secret of the tests"}
        line = ["env", *(f"{name}={value}" for name, value in variables.items()), *command, "-o", path]
        started.append(subprocess.Popen([str(part) for part in [*hosts.enter_host(process // 2), *line]], env=CLEAN,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    texts = [process.communicate(timeout=60)[0] for process in started]
    if any(process.returncode for process in started):
        raise common.Failure("\n".join(texts))
    return json.loads(path.read_text()), texts[0]


def check_refused(context, checks, command):
    for more, code, message in (
        ([], 2, "--output is required"),
        (["-o", "/no/such/folder/c.json"], 4, "cannot create a file beside '/no/such/folder/c.json'"),
        (["-o", context.path(), "--transport", "mpi", "--processes", 2], 2, "mpirun or srun has to start the processes"),
        (["-o", context.path(), "--training"], 2, "--training"),
    ):
        done = subprocess.run([str(part) for part in [*command, *more]], env=CLEAN, capture_output=True, text=True)
        checks.check(done.returncode == code and message in done.stderr, f"{more}: {done}")


def test(context, checks, arguments):
    program = context.training("lenet", stages=2, microbatches=4, optimizer="sgd", batch=16)
    profiler = [context.build / "bin" / "pp-profile", "--links"]
    check_one_machine(context, checks, {"pp-profile": profiler, "a program": [program.path, "links"]})
    check_refused(context, checks, profiler)
    reason = why_not() or ("" if shutil.which("tc") else "tc is missing")
    if reason:
        print(f"skipped: two hosts: {reason}")
    else:
        check_two_machines(context, checks, profiler)
        if reason := why_no_delay():
            print(f"skipped: a delay: {reason}")
        else:
            check_delay(context, checks, profiler)


if __name__ == "__main__":
    common.main(test, __doc__)

"""Two hosts on one machine: namespaces of networks and processes, joined by a
pair of virtual Ethernet devices. For tests of what is between machines.

The first host has the process numbers of this machine, so that what runs there
can enter the second.
"""

import itertools
import os
import pathlib
import shutil
import subprocess
import sys

import common

AGENT = """#!/bin/sh
# What ssh would do: [options] HOST COMMAND...
while [ "${{1#-}}" != "$1" ]; do shift; done
host=$1
shift
exec nsenter -t "$(cat {folder}/$host)" -n -u -p -m $(cat {folder}/$host.cores) sh -c "$*"
"""


class TwoHosts:
    """`names` are addresses; `enter` is the prefix of a command on the first host.
    `can_delay`: the wire is one of delayed_wire.py, which takes time of this machine's. `cores`: one for each
    host; else both have all of them."""

    numbers = itertools.count()

    def __init__(self, folder, can_delay=False, cores=()):
        self.folder = folder
        self.only = [["taskset", "--cpu-list", str(core)] for core in cores] or [[], []]
        self.can_delay = can_delay
        self.wire = None
        self.names = ["10.77.77.1", "10.77.77.2"]
        number = f"{os.getpid()}{next(self.numbers)}"
        self.devices = [f"pp{number}-{i}" for i in (1, 2)]
        self.holders = []
        self.is_limited = False

    def __enter__(self):
        self.folder.mkdir()
        for name, more in zip(self.names, ([], ["--pid", "--fork", "--mount-proc", "--kill-child"])):
            # Its own /sys, which says what networks there are.
            script = f"mount -t sysfs sysfs /sys && hostname {name.replace('.', '-')} && echo up && exec sleep 600"
            holder = subprocess.Popen(["unshare", "--net", "--uts", "--mount", *more, "sh", "-c", script],
                                      stdout=subprocess.PIPE, text=True)
            self.holders.append(holder)
            if holder.stdout.readline() != "up\n":
                self.__exit__()
                raise common.Failure("cannot make namespaces")
            pid = holder.pid
            if more:
                pid = int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text())
            (self.folder / name).write_text(str(pid))
            (self.folder / f"{name}.cores").write_text(" ".join(self.only[len(self.holders) - 1]))
        self.enter = ["nsenter", "-t", self.holders[0].pid, "-n", "-u", "-m", *self.only[0]]
        self.make_wire()
        for name, device in zip(self.names, self.devices):
            pid = (self.folder / name).read_text()
            common.run(["ip", "link", "set", device, "netns", pid])
            common.run(["nsenter", "-t", pid, "-n", "sh", "-c",
                        f"ip addr add {name}/24 dev {device} && ip link set {device} up && ip link set lo up"])
        self.agent = self.folder / "agent"
        self.agent.write_text(AGENT.format(folder=self.folder))
        self.agent.chmod(0o755)
        return self

    def make_wire(self):
        if not self.can_delay:
            common.run(["ip", "link", "add", self.devices[0], "type", "veth", "peer", "name", self.devices[1]])
            return
        self.wire = subprocess.Popen([sys.executable, pathlib.Path(__file__).with_name("delayed_wire.py"), *self.devices],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.wire.stdout.readline() != "up\n":
            self.__exit__()
            raise common.Failure("cannot make a wire of tun devices")
        for device in self.devices:
            # As large as what veth passes at once.
            common.run(["ip", "link", "set", device, "mtu", 65000])

    def delay(self, seconds):
        """The time that the wire takes, either way, besides what it takes of itself."""
        self.wire.stdin.write(f"{seconds}\n")
        self.wire.stdin.flush()

    def enter_host(self, number):
        """The prefix of a command on a host."""
        pid = (self.folder / self.names[number]).read_text()
        return self.enter if number == 0 else ["nsenter", "-t", pid, "-n", "-u", "-p", "-m", *self.only[1]]

    def limit(self, megabits):
        """The wire's rate, either way; 0: as fast as it can."""
        for number, device in enumerate(self.devices):
            change = [*self.enter_host(number), "tc", "qdisc"]
            if self.is_limited:
                common.run([*change, "del", "dev", device, "root"])
            if megabits:
                # More than a packet of 64 KiB, or tc takes it apart, and little of what takes long.
                burst = max(128, megabits // 40)
                common.run([*change, "add", "dev", device, "root", "tbf", "rate", f"{megabits}mbit", "burst", f"{burst}kb",
                            "latency", "50ms"])
        self.is_limited = bool(megabits)

    def cut(self):
        common.run([*self.enter, "ip", "link", "set", self.devices[0], "down"])

    def __exit__(self, *_):
        for holder in self.holders:
            holder.kill()
            holder.wait()
        if self.wire:
            self.wire.kill()
            self.wire.wait()
        # The devices go with the last process of the networks.


def why_not():
    """Why there can be no two hosts here; empty: there can."""
    for tool in ("ip", "unshare", "nsenter"):
        if not shutil.which(tool):
            return f"{tool} is missing"
    done = subprocess.run(["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "mount", "-t", "sysfs", "sysfs",
                           "/sys"], capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else ""


def why_no_delay():
    """Why a wire between them can have no delay."""
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR))
    except OSError as error:
        return f"/dev/net/tun: {error.strerror}"
    return ""

"""Runs commands while nobody else uses the processor."""

import os
import pathlib
import resource
import subprocess
import sys
import time

TICK = os.sysconf("SC_CLK_TCK")


def busy_seconds():
    """Of all processors and processes since the machine started; 0 where nobody tells."""
    try:
        with open("/proc/stat") as file:
            user, nice, system, _idle, _wait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    except OSError:
        return 0.0
    return (user + nice + system + irq + softirq + steal) / TICK


def own_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def process_seconds(pid):
    """Of a process that still runs, with the children that it has waited for."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICK


class Watch:
    """How much others use the processor while children of this process do."""

    def __init__(self, pids=()):
        self.pids = pids
        self.begin, self.others = time.monotonic(), self.seconds_of_others()

    def seconds_of_others(self):
        own = process_seconds("self") + sum(map(process_seconds, self.pids))
        return busy_seconds() - own

    def share(self):
        """Of one processor, since the watch began."""
        elapsed = time.monotonic() - self.begin
        # Two ticks are what the clocks disagree by.
        return max(0.0, self.seconds_of_others() - self.others - 2 / TICK) / elapsed


def rounds(count, turn, what, pids=(), share=0.05):
    """The results of `count` calls of turn(). One during which others than the
    processes `pids` used more than `share` of a processor is repeated, in all
    at most 2 * count times; says for `what` how many were, and how many of the
    results are of disturbed rounds all the same."""
    results = []
    repeated = disturbed = 0
    while len(results) < count:
        watch = Watch(pids)
        result = turn()
        if watch.share() > share:
            if repeated < 2 * count:
                repeated += 1
                continue
            disturbed += 1
        results.append(result)
    if repeated:
        print(f"{what}: {repeated} rounds were repeated, since others used the processor; {disturbed} of the {count} that count "
              "were disturbed too", file=sys.stderr)
    return results


class Disturbed(Exception):
    pass


def run(command, share=0.05, patience=900):
    """The standard output of a command, during which others used at most
    `share` of a processor. It is repeated until that is so; raises Disturbed
    after `patience` seconds."""
    command = [str(part) for part in command]
    deadline = time.monotonic() + patience
    while True:
        begin, others = time.monotonic(), busy_seconds() - own_seconds()
        done = subprocess.run(command, capture_output=True, text=True)
        elapsed = time.monotonic() - begin
        others = busy_seconds() - own_seconds() - others
        if done.returncode:
            sys.exit(f"{' '.join(command)}\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
        # Two ticks are what the clocks disagree by.
        if others <= share * elapsed + 2 / TICK:
            return done.stdout
        if time.monotonic() > deadline:
            raise Disturbed(f"others used {others / elapsed:.2f} processors while '{command[0]}' ran")
        time.sleep(1)

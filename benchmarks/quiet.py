"""Runs commands while nobody else uses the processor."""

import os
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

#!/usr/bin/env python3
"""Several processes do what one does, and end together.

Snapshots, gradients, outputs, evaluation, traces and reports of 1, 2 and more
processes have the same bits, with every transport, on the processor and on the
mock device, started by --processes and by the variables of launchers. Then what
goes wrong: one is killed, stopped, interrupted, missing, or differs.
"""

import itertools
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

import common

LAUNCHERS = ("PP_", "OMPI_", "PMI_", "PMIX_", "SLURM_", "TORCHELASTIC_", "RANK", "WORLD_SIZE", "LOCAL_")
# Takes 2 seconds where nothing else runs; without the alarm it would be the watchdog's 30.
SOON = 15
CLEAN = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHERS)}


class Job:
    """Processes that are started one by one, as a launcher does."""

    def __init__(self, binary, command, environments, arguments=None):
        self.started = [
            subprocess.Popen(
                [binary.path, *[str(part) for part in command], *(arguments[i] if arguments else [])],
                env={**CLEAN, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for i, environment in enumerate(environments)
        ]

    def wait(self, timeout=60):
        """Exit codes and texts; kills what does not end in time."""
        results = []
        end = time.monotonic() + timeout
        for process in self.started:
            try:
                out, error = process.communicate(timeout=max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                out, error = process.communicate()
                error += "\ndid not end in time"
            results.append((process.returncode, out, error))
        return results


def own_variables(job, count):
    return [
        {"PP_JOB": f"{job}-{os.getpid()}", "PP_PROCESS": str(i), "PP_PROCESSES": str(count)} for i in range(count)
    ]


def launcher_variables(launcher, count):
    """What launchers set on one machine."""
    rows = []
    for i in range(count):
        rows.append({
            "mpirun": {
                "OMPI_COMM_WORLD_RANK": i, "OMPI_COMM_WORLD_SIZE": count, "OMPI_COMM_WORLD_LOCAL_RANK": i,
                "OMPI_COMM_WORLD_LOCAL_SIZE": count, "PMIX_NAMESPACE": f"test{os.getpid()}",
            },
            "srun": {
                "SLURM_PROCID": i, "SLURM_STEP_NUM_TASKS": count, "SLURM_LOCALID": i,
                "SLURM_STEP_TASKS_PER_NODE": count, "SLURM_JOB_ID": os.getpid(), "SLURM_STEP_ID": 0,
            },
            "torchrun": {
                "TORCHELASTIC_RUN_ID": f"test{os.getpid()}", "RANK": i, "WORLD_SIZE": count, "LOCAL_RANK": i,
                "LOCAL_WORLD_SIZE": count, "MASTER_ADDR": "localhost", "MASTER_PORT": 29500,
            },
        }[launcher])
    return [{k: str(v) for k, v in row.items()} for row in rows]


def train(context, binary, data, *arguments):
    """Everything that a training gives."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=context.scratch))
    names = {name: folder / name for name in ("snapshot", "gradients", "trace", "report")}
    lines = binary.train(
        data, "--no-shuffle", "--epochs", 2, "--log-bits", "--save", names["snapshot"], "--dump-gradients",
        names["gradients"], "--trace", names["trace"], "--report", names["report"], "--eval-data", data, *arguments,
    )
    trace = json.loads(names["trace"].read_text())["traceEvents"]
    report = json.loads(names["report"].read_text())
    return {
        "losses": [{k: v for k, v in line.items() if k != "samples_per_second"} for line in lines],
        "snapshot": common.tensor_bytes(names["snapshot"]),
        "gradients": common.tensor_bytes(names["gradients"]),
        "actions": sorted((e["name"], e["args"]["step"]) for e in trace if e["ph"] == "X"),
        "memory": [stage["memory_bytes"] for stage in report["stages"]],
        "traffic": [(c["messages"], c["sent_bytes"], c["received_bytes"]) for c in report["channels"]],
        "counts": [stage["actions"] for stage in report["stages"]],
    }


def check_same(checks, where, value, expected):
    for key, part in expected.items():
        checks.check(part and value[key] == part, f"{where}: {key} differ from those of one process")


def check_results(context, checks, models):
    cases = []
    for model, options, *flags in models:
        binary = context.training(model, stages=4, microbatches=4, optimizer="adamw", **options)
        data = context.data(model, samples=2 * options["batch"])
        weights = ("--weights", common.MODELS / model)
        flags = tuple(flag for pair in flags for flag in pair)
        expected = train(context, binary, data, *weights, *flags)
        output = {k: v.tobytes() for k, v in binary.infer(data, context.path(".npz"), *weights).items()}
        cases += [(model, binary, data, weights, expected, output, flags)]
    for model, binary, data, weights, expected, output, train_flags in cases:
        for transport, devices in common.TRANSPORTS.items():
            for device, count in itertools.product(devices, (2, 3, 4)):
                where = f"{model}, {count} processes, {device}, {transport}"
                flags = (*weights, "--device", device, "--transport", transport, "--processes", count)
                check_same(checks, where, train(context, binary, data, *flags, *train_flags), expected)
        for device in ("cpu", "mock"):
            flags = (*weights, "--device", device, "--transport", "host-staged", "--processes", 4)
            value = {k: v.tobytes() for k, v in binary.infer(data, context.path(".npz"), *flags).items()}
            checks.check(value == output, f"{model}, {device}: outputs of inference differ")
    return cases[0]


def check_launchers(context, checks, case):
    model, binary, data, weights, expected, *_ = case
    for launcher in ("mpirun", "srun", "torchrun"):
        snapshot = context.path()
        job = Job(binary, ["train", "--data", data, *weights, "--no-shuffle", "--epochs", 2, "--save", snapshot],
                  launcher_variables(launcher, 4))
        results = job.wait()
        checks.equal([code for code, _, _ in results], [0] * 4, f"{launcher}: exit codes {results}")
        checks.check([bool(out) for _, out, _ in results] == [True, False, False, False], f"{launcher}: who prints")
        checks.check(common.tensor_bytes(snapshot) == expected["snapshot"], f"{launcher}: snapshot")


def check_resume(context, checks, case):
    model, binary, data, weights, expected, *_ = case
    first, last = context.path(), context.path()
    common = ("--no-shuffle", *weights, "--transport", "peer")
    binary.train(data, *common, "--steps", 1, "--save", first, "--processes", 2)
    binary.train(data, *common, "--resume", first, "--epochs", 2, "--save", last, "--processes", 3)
    return checks.check(read(last) == expected["snapshot"], "resume in another number of processes")


read = common.tensor_bytes


def endless(binary, data, weights, job, count, *more):
    command = ["train", "--data", data, *weights, "--epochs", 10**6, *more]
    return Job(binary, command, own_variables(job, count))


def started(job):
    """Waits until the first process has printed a few steps."""
    for _ in range(3):
        job.started[0].stdout.readline()


def check_killed(checks, case):
    model, binary, data, weights, *_ = case
    for transport, devices in common.TRANSPORTS.items():
        for device in devices:
            for victim in range(4):
                where = f"process {victim} killed, {device}, {transport}"
                job = endless(binary, data, weights, f"kill-{transport}-{device}-{victim}", 4, "--transport",
                              transport, "--device", device)
                started(job)
                job.started[victim].kill()
                start = time.monotonic()
                results = job.wait(40)
                checks.check(time.monotonic() - start < SOON, f"{where}: the others took {time.monotonic() - start:.1f} s")
                codes = [code for code, _, _ in results]
                checks.equal(codes, [-9 if i == victim else 70 for i in range(4)], f"{where}: exit codes {results}")
                teller = results[0 if victim else 1][2]
                checks.check(
                    re.search(rf"error: process {victim} \(.*, pid {job.started[victim].pid}\): ended without", teller),
                    f"{where}: {teller}",
                )


def check_stopped(checks, case):
    """A process that hangs is found by the others' watchdogs."""
    model, binary, data, weights, *_ = case
    job = endless(binary, data, weights, "stop", 3, "--watchdog", 1)
    started(job)
    os.kill(job.started[1].pid, signal.SIGSTOP)
    start = time.monotonic()
    ended = [job.started[i].wait(20) for i in (0, 2)]
    checks.equal(ended, [70, 70], "a stopped process: exit codes of the others")
    checks.check(time.monotonic() - start < SOON, f"a stopped process: found after {time.monotonic() - start:.1f} s")
    os.kill(job.started[1].pid, signal.SIGKILL)
    os.kill(job.started[1].pid, signal.SIGCONT)
    results = job.wait()
    found = any(re.search(common.FOUND_STOPPED, error) for _, _, error in results)
    checks.check(found, f"a stopped process: {results}")


def check_interrupted(context, checks, case):
    """Whichever process gets the signal, all end after the same step."""
    model, binary, data, weights, *_ = case
    for receiver in range(3):
        snapshot = context.path()
        job = endless(binary, data, weights, f"term-{receiver}", 3, "--save", snapshot)
        started(job)
        job.started[receiver].send_signal(signal.SIGTERM)
        results = job.wait(20)
        checks.equal([code for code, _, _ in results], [0] * 3, f"SIGTERM to {receiver}: {results}")
        match = re.search(r"note: stopped by signal.* after step (\d+)", results[0][2])
        checks.check(match, f"SIGTERM to {receiver}: {results[0][2]}")
        saved = common.read_safetensors(snapshot)[None]["step"]
        checks.check(match and saved == match[1], f"SIGTERM to {receiver}: step {saved} is in the snapshot")


def check_refused(context, checks, case, other):
    model, binary, data, weights, *_ = case
    command = ["train", "--data", data, *weights, "--steps", 2]

    def expect(where, job, code, pattern, timeout=20):
        results = job.wait(timeout)
        checks.check(all(c == code for c, _, _ in results), f"{where}: {results}")
        text = "".join(error for _, _, error in results)
        checks.check(len(re.findall("error:", text)) == 1 and re.search(pattern, text), f"{where}: {text}")

    start = time.monotonic()
    expect("missing", Job(binary, [*command, "--join-timeout", 1], own_variables("missing", 3)[:2]), 2,
           r"of 3 processes, 2 did not come within 1 s")
    checks.check(time.monotonic() - start < SOON, "missing: not told in time")
    expect("other options", Job(binary, command, own_variables("options", 2), [[], ["--seed", "7"]]), 2,
           r"process 1 \(.*\) has another set of options than process 0")
    results = Job(binary, command, own_variables("many", 5)).wait(20)
    checks.check(all(code == 2 and "5 processes for the 4 ranks" in error for code, _, error in results),
                 f"too many: {results}")
    few = context.path(".npz")
    few.write_bytes(pathlib.Path(context.data(model, samples=case[1].plan()["batch"])).read_bytes())
    files = own_variables("samples", 2)
    expect("other data", Job(binary, ["train", *weights, "--steps", 1], files, [["--data", data], ["--data", few]]), 2,
           r"the number of samples of --data: the processes differ")
    expect("unreadable data", Job(binary, ["train", *weights, "--steps", 1], own_variables("none", 2),
                                  [["--data", data], ["--data", "nowhere.npz"]]), 4, r"process 1 \(.*nowhere\.npz")
    expect("a full disk", Job(binary, [*command, "--save", "/dev/full/no"], own_variables("disk", 3)), 4, r"/dev/full/no")
    # Two binaries of one model with different plans.
    job = Job(binary, command, own_variables("plans", 2)[:1])
    second = Job(other, command, own_variables("plans", 2)[1:])
    results = job.wait() + second.wait()
    checks.check(all(code == 2 for code, _, _ in results) and "has another program than process 0" in results[0][2],
                 f"another program: {results}")
    for flags, pattern in ((["--processes", 2, "--launcher", "srun"], "srun: its variables are not set"),
                           (["--processes", 0], "--processes"), (["--transport", "pigeon"], "--transport")):
        done = subprocess.run([binary.path, *map(str, command), *map(str, flags)], env=CLEAN, capture_output=True, text=True)
        checks.check(done.returncode == 2 and pattern in done.stderr, f"{flags}: {done.returncode} {done.stderr}")


def test(context, checks, arguments):
    models = [("lenet", {"batch": 16, "schedule": "1f1b"}),
              # The first steps overflow, and are skipped by all.
              ("lenet", {"batch": 16, "schedule": "1f1b", "loss_scale": "dynamic"}, ("--set", "loss_scale=3e38"))]
    if not arguments.quick:
        models += [("gpt_tied", {"batch": 8, "schedule": "gpipe", "checkpoint": "always"}),
                   ("unet", {"batch": 8, "schedule": "zb-h1"})]
    case = check_results(context, checks, models)
    other = context.training("lenet", stages=4, microbatches=2, optimizer="adamw", batch=16, schedule="1f1b")
    check_launchers(context, checks, case)
    check_resume(context, checks, case)
    check_killed(checks, case)
    check_stopped(checks, case)
    check_interrupted(context, checks, case)
    check_refused(context, checks, case, other)


if __name__ == "__main__":
    common.main(test, __doc__)

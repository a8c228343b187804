#!/usr/bin/env python3
"""A pipeline over two hosts: MPI, our sockets, and PyTorch's pipeline over gloo.

    benchmarks/hosts.py BUILD [--rounds N] [--steps N] [--only MODEL] [--wires WIRE,...]

The hosts are two namespaces of this machine, with a core each, joined by a wire of
a rate that tc sets, and of a delay: WIRE is MEGABITS[/MILLISECONDS] (0: as fast as it can). For
each model and wire: the links as pp-profile --links measures them over the same
wire, the step that pp-plan predicts from them and from measured kernel times,
and the steps of all contenders. These take turns, and the kernels are measured
again in each round, as a machine is not always equally fast; all are medians.
All have the same two stages and micro-batches, in single precision, with a
thread on either host. The plan is made for the first wire.

Kernels often lack tc's netem. A wire with a delay is a process of ours then, see
test/e2e/delayed_wire.py, which takes time of the two cores that all others have.

Needs root, iproute2, Open MPI, and PyTorch (scripts/requirements-models.txt).
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import quiet
from vs_pytorch import LEARNING_RATE, MODELS, MOMENTUM, OUTPUT, ROOT, Torch, free_port

# Before this folder, which has a processes.py too.
sys.path.insert(0, str(ROOT / "test" / "e2e"))
import common  # noqa: E402
from mpi import Mpi  # noqa: E402
from two_hosts import TwoHosts, why_not  # noqa: E402

LOSS = {"gpt": "cross_entropy", "unet": "mse"}


def tool(build, name, model, *flags):
    batch = MODELS[model][0]
    return common.run([build / "bin" / name, OUTPUT / f"{model}.onnx", f"--loss={LOSS[model]}", f"--batch={batch}",
                       "--optimizer=sgd", f"--learning-rate={LEARNING_RATE}",
                       f"--momentum={MOMENTUM}", *flags], timeout=900)


class Programs:
    """Ours: two processes, one on each host."""

    pids = ()

    def __init__(self, hosts, binary, transport, launcher):
        self.hosts, self.binary, self.transport, self.launcher = hosts, binary, transport, launcher

    def turn(self, warmup, steps):
        command = [self.binary, "bench", "--json", "--mode", "train", "--steps", steps, "--warmup", warmup, "--transport",
                   self.transport]
        if self.transport == "mpi":
            return self.seconds(common.run([*self.launcher, "-n", 2, *command]))
        variables = {"PP_PROCESSES": 2, "PP_MASTER": f"{self.hosts.names[0]}:{free_port()}", "PP_SECRET": "not much of a secret"}
        started = []
        for process in (0, 1):
            line = [*self.hosts.enter_host(process), "env", f"PP_PROCESS={process}",
                    *(f"{name}={value}" for name, value in variables.items()), *command]
            started.append(subprocess.Popen([str(word) for word in line], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        outputs = [process.communicate() for process in started]
        if any(process.returncode for process in started):
            raise RuntimeError("".join(error for _, error in outputs)[-600:])
        return self.seconds(outputs[0][0])

    @staticmethod
    def seconds(text):
        return json.loads(text)["median_step_seconds"]

    def close(self):
        pass


class Workers(Torch):
    """Those of PyTorch, one on each host."""

    def __init__(self, hosts, model):
        port = free_port()
        self.processes = []
        for rank in (0, 1):
            line = [*hosts.enter_host(rank), "env", "OMP_NUM_THREADS=1", f"GLOO_SOCKET_IFNAME={hosts.devices[rank]}", sys.executable,
                    ROOT / "benchmarks" / "torch_worker.py", "pipeline", model, "--rank", rank, "--host", hosts.names[0], "--port", port]
            self.processes.append(subprocess.Popen([str(word) for word in line], text=True, stdin=subprocess.PIPE,
                                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        self.pids = [process.pid for process in self.processes]


def measure_links(build, launcher, path):
    common.run([*launcher, "-n", 2, build / "bin" / "pp-profile", "--links", "-o", path])
    return json.loads(path.read_text())["root"]["link"]


class Prediction:
    """Seconds of a step of the plan on the hosts, by kernel times of now."""

    pids = ()

    def __init__(self, build, model, cluster, plan):
        self.build, self.model, self.cluster, self.plan = build, model, cluster, plan

    def turn(self, *_):
        costs, evaluated = (pathlib.Path(f"{self.plan}.{name}") for name in ("costs", "evaluated"))
        profile(self.build, self.model, costs)
        tool(self.build, "pp-plan", self.model, f"--cost-file={costs}", f"--cluster={self.cluster}", f"--evaluate={self.plan}",
             "-o", evaluated)
        return json.loads(evaluated.read_text())["predicted"]["period_seconds"]

    def close(self):
        pass


def profile(build, model, costs):
    costs.unlink(missing_ok=True)
    tool(build, "pp-profile", model, f"--microbatches={MODELS[model][1]}", "-o", costs)


def measure(arguments, folder, hosts, model, wire, plan):
    """A line of the table. `plan` is made where it is not there yet."""
    launcher = Mpi(common.Context(arguments.build, 1), "openmpi").between(hosts)
    megabits, milliseconds = wire
    hosts.limit(megabits)
    if hosts.can_delay:
        hosts.delay(1e-3 * milliseconds)
    cluster, binary = folder / "cluster.json", folder / model
    link = measure_links(arguments.build, launcher, cluster)
    if not plan.exists():
        costs = folder / "costs.json"
        profile(arguments.build, model, costs)
        tool(arguments.build, "pp-plan", model, f"--cost-file={costs}", f"--cluster={cluster}", f"--microbatches={MODELS[model][1]}",
             "--schedules=1f1b", "--replicate=false", "-o", plan)
        tool(arguments.build, "pp-compile", model, f"--plan={plan}", f"--cost-file={costs}", "-o", binary)
    contenders = {"predicted": Prediction(arguments.build, model, cluster, plan),
                  "MPI": Programs(hosts, binary, "mpi", launcher), "sockets": Programs(hosts, binary, "host-staged", launcher)}
    if not arguments.no_torch:
        contenders["gloo"] = Workers(hosts, model)
    name = (f"{megabits / 1000:g} Gbit/s" if megabits else "no limit") + (f", {milliseconds:g} ms" if milliseconds else "")
    steps = arguments.steps or MODELS[model][2]
    try:
        pids = [pid for contender in contenders.values() for pid in contender.pids]
        # A daemon of mpirun is nobody's child, and so counts as somebody else.
        turns = quiet.rounds(arguments.rounds, lambda: {name: c.turn(2, steps) for name, c in contenders.items()},
                             f"{model}, {name}", pids, share=2.5)
    finally:
        for contender in contenders.values():
            contender.close()
    times = {name: statistics.median(turn[name] for turn in turns) for name in contenders}
    print(f"{model:<6} {name:>18} {8e-9 * link['bandwidth']:>8.2f} {1e6 * link['latency']:>8.0f} {1e9 * link['overhead']:>8.2f}"
          + "".join(f" {1e3 * times[name]:>10.1f}" for name in contenders) + f" {100 * (times['MPI'] / times['predicted'] - 1):>+7.1f} %"
          + (f" {times['gloo'] / times['MPI']:>8.2f}" if not arguments.no_torch else ""), flush=True)


def wires(text):
    """(megabits per second, milliseconds) of each."""
    found = []
    for word in text.split(","):
        rate, _, delay = word.partition("/")
        found.append((int(rate), float(delay or 0)))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="of a turn; default: the model's own number")
    parser.add_argument("--only", choices=LOSS)
    parser.add_argument("--wires", type=wires, default=wires("0,10000,1000,1000/0.1,1000/1"))
    parser.add_argument("--no-torch", action="store_true")
    arguments = parser.parse_args()
    if reason := why_not():
        sys.exit(f"no two hosts here: {reason}")
    os.environ["OMPI_MCA_btl_tcp_if_exclude"] = "lo"
    cores = sorted(os.sched_getaffinity(0))[:2]
    columns = ["Gbit/s", "us", "ms/MB"], ["predicted", "MPI", "sockets"] + ["gloo"] * (not arguments.no_torch)
    print(f"{'model':<6} {'wire':>18}" + "".join(f" {name:>8}" for name in columns[0]) + "".join(f" {name:>10}" for name in columns[1])
          + f" {'error':>9}" + (f" {'gloo/MPI':>8}" if not arguments.no_torch else ""))
    with tempfile.TemporaryDirectory(prefix="pp-hosts-") as name:
        folder = pathlib.Path(name)
        for model in [arguments.only] if arguments.only else LOSS:
            subprocess.run([sys.executable, ROOT / "benchmarks" / "models.py", model], check=True, stdout=subprocess.DEVNULL)
            for number, wire in enumerate(arguments.wires):
                with TwoHosts(folder / f"{model}-{number}", wire[1] > 0, cores) as hosts:
                    measure(arguments, folder, hosts, model, wire, folder / f"{model}-plan.json")


if __name__ == "__main__":
    main()

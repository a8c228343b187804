#!/usr/bin/env python3
"""A pipeline over two hosts: MPI, our sockets, and PyTorch's pipeline over gloo.

    benchmarks/hosts.py BUILD [--rounds N] [--steps N] [--only MODEL] [--rates MEGABITS,...]

The hosts are two namespaces of this machine, joined by a wire of a rate that tc
sets (0: as fast as it can). For each model and rate: the links as pp-profile
--links measures them over the same wire, the step that pp-plan predicts from
them and from measured kernel times, and the median steps of all contenders,
which take turns. All have the same two stages and micro-batches, in single
precision, with a thread on either host. The plan is made for the fastest wire.

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
    cluster = json.loads(path.read_text())
    # Either host sees all cores of this machine, and has one of them.
    for host in cluster["root"]["members"]:
        for device in host["members"]:
            device.pop("count", None)
    path.write_text(json.dumps(cluster))
    return cluster["root"]["link"]


def predict(build, model, costs, cluster, plan):
    """Seconds of a step of the plan on the hosts."""
    path = pathlib.Path(f"{plan}.evaluated")
    tool(build, "pp-plan", model, f"--cost-file={costs}", f"--cluster={cluster}", f"--evaluate={plan}", "-o", path)
    return json.loads(path.read_text())["predicted"]["period_seconds"]


def measure(arguments, folder, hosts, launcher, model):
    subprocess.run([sys.executable, ROOT / "benchmarks" / "models.py", model], check=True, stdout=subprocess.DEVNULL)
    steps = arguments.steps or MODELS[model][2]
    costs, plan, binary = folder / "costs.json", folder / f"{model}-plan.json", folder / model
    microbatches = f"--microbatches={MODELS[model][1]}"
    tool(arguments.build, "pp-profile", model, microbatches, "-o", costs)
    for megabits in arguments.rates:
        hosts.limit(megabits)
        cluster = folder / "cluster.json"
        link = measure_links(arguments.build, launcher, cluster)
        if megabits == arguments.rates[0]:
            tool(arguments.build, "pp-plan", model, f"--cost-file={costs}", f"--cluster={cluster}", microbatches, "--schedules=1f1b",
                 "--replicate=false", "-o", plan)
            tool(arguments.build, "pp-compile", model, f"--plan={plan}", f"--cost-file={costs}", "-o", binary)
        predicted = predict(arguments.build, model, costs, cluster, plan)
        contenders = {"MPI": Programs(hosts, binary, "mpi", launcher), "sockets": Programs(hosts, binary, "host-staged", launcher)}
        if not arguments.no_torch:
            contenders["PyTorch, gloo"] = Workers(hosts, model)
        try:
            pids = [pid for contender in contenders.values() for pid in contender.pids]
            # A daemon of mpirun is nobody's child, and so counts as somebody else.
            turns = quiet.rounds(arguments.rounds, lambda: {name: c.turn(2, steps) for name, c in contenders.items()},
                                 f"{model}, {megabits} Mbit/s", pids, share=2.5)
        finally:
            for contender in contenders.values():
                contender.close()
        times = {name: statistics.median(turn[name] for turn in turns) for name in contenders}
        cells = [f"{1e3 * times[name]:>10.1f}" for name in contenders]
        rate = f"{megabits / 1000:g} Gbit/s" if megabits else "no limit"
        print(f"{model:<6} {rate:>10} {8e-9 * link['bandwidth']:>8.2f} {1e6 * link['latency']:>8.0f} {1e3 * predicted:>10.1f} "
              f"{100 * (times['MPI'] / predicted - 1):>+7.1f} %" + "".join(cells)
              + (f" {times['PyTorch, gloo'] / times['MPI']:>8.2f}" if not arguments.no_torch else ""), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=0, help="of a turn; default: the model's own number")
    parser.add_argument("--only", choices=LOSS)
    parser.add_argument("--rates", type=lambda text: [int(word) for word in text.split(",")], default=[0, 10000, 1000])
    parser.add_argument("--no-torch", action="store_true")
    arguments = parser.parse_args()
    if reason := why_not():
        sys.exit(f"no two hosts here: {reason}")
    os.environ["OMPI_MCA_btl_tcp_if_exclude"] = "lo"
    print(f"{'model':<6} {'wire':>10} {'Gbit/s':>8} {'us':>8} {'predicted':>10} {'error':>9}{'MPI ms':>10}{'sockets':>10}"
          + ("" if arguments.no_torch else f"{'gloo':>10} {'gloo/MPI':>8}"))
    with tempfile.TemporaryDirectory(prefix="pp-hosts-") as name:
        folder = pathlib.Path(name)
        context = common.Context(arguments.build, 1)
        for model in [arguments.only] if arguments.only else LOSS:
            with TwoHosts(folder / f"{model}-hosts") as hosts:
                measure(arguments, folder, hosts, Mpi(context, "openmpi").between(hosts), model)


if __name__ == "__main__":
    main()

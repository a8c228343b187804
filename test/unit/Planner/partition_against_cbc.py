"""Compares the partitioner with an integer program that CBC solves.

    partition_against_cbc.py CHECKER

CHECKER is PPPlanProblem, which reads a planning problem from a file and writes
the answer. Problems are random graphs of 30 to 60 kernels, 3 and 4 stages on
equal devices, with communication added. The integer program knows nothing of
ideals: x[v,s] puts kernel v into stage s, y[u,s] says that value u is cut at
stage s, stages are ordered along the edges by prefix sums, and the largest load
is minimised. Without CBC the test says so and exits with 77.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

SECONDS = 60


def make_problem(seed):
    rng = random.Random(seed)
    count = rng.randint(30, 60)
    stages = 3 + seed % 2
    kernels = [{"name": f"k{k}", "forward": rng.randint(1, 1000) * 1e-5,
                "parameter_bytes": rng.randint(1, 100),
                "colocation_class": rng.randint(0, 3) if rng.random() < 0.1 else k + 10}
               for k in range(count)]
    values = []
    for k in range(count - 1):
        # Mostly near readers, now and then a skip connection.
        readers = {min(count - 1, k + rng.randint(1, 4)) for _ in range(rng.randint(1, 2))}
        if rng.random() < 0.1:
            readers.add(rng.randint(k + 1, count - 1))
        values.append({"name": f"v{k}", "producer": f"k{k}",
                       "consumers": [f"k{r}" for r in sorted(readers)],
                       "bytes": rng.randint(1, 100) * 1000})
    total = sum(k["parameter_bytes"] for k in kernels)
    cluster = {"version": 2, "root": {
        "link": {"bandwidth": 1e8, "latency": 0},
        "members": [{"name": "d", "memory_bytes": int(total / stages * 1.2), "count": stages}]}}
    return {"version": 1, "graph": {"kernels": kernels, "values": values}, "cluster": cluster,
            "constraints": {"max_stages": stages, "limit_memory": seed % 3 == 0}}


def write_program(problem, path):
    """The problem as an integer program, in milliseconds."""
    kernels = problem["graph"]["kernels"]
    values = problem["graph"]["values"]
    device = problem["cluster"]["root"]["members"][0]
    bandwidth = problem["cluster"]["root"]["link"]["bandwidth"]
    index = {kernel["name"]: k for k, kernel in enumerate(kernels)}
    stages = range(device["count"])
    rows = []
    for k in range(len(kernels)):
        rows.append(" + ".join(f"x{k}_{s}" for s in stages) + " = 1")
    classes = {}
    for k, kernel in enumerate(kernels):
        first = classes.setdefault(kernel["colocation_class"], k)
        if first != k:
            rows += [f"x{k}_{s} - x{first}_{s} = 0" for s in stages]
    for v, value in enumerate(values):
        ends = [index[value["producer"]]] + [index[c] for c in value["consumers"]]
        for reader in ends[1:]:
            for s in stages:
                prefix = range(s + 1)
                rows.append(" + ".join(f"x{ends[0]}_{r}" for r in prefix) + " - " +
                            " - ".join(f"x{reader}_{r}" for r in prefix) + " >= 0")
            for s in stages:
                rows.append(f"y{v}_{s} - x{ends[0]}_{s} + x{reader}_{s} >= 0")
                rows.append(f"y{v}_{s} - x{reader}_{s} + x{ends[0]}_{s} >= 0")
    for s in stages:
        load = " + ".join(f"{kernel['forward'] * 1e3:.9g} x{k}_{s}"
                          for k, kernel in enumerate(kernels))
        load += " + " + " + ".join(f"{value['bytes'] / bandwidth * 1e3:.9g} y{v}_{s}"
                                   for v, value in enumerate(values))
        rows.append(f"{load} - load <= 0")
        if problem["constraints"]["limit_memory"]:
            rows.append(" + ".join(f"{kernel['parameter_bytes']} x{k}_{s}"
                                   for k, kernel in enumerate(kernels)) +
                        f" <= {device['memory_bytes']}")
    with open(path, "w") as file:
        file.write("Minimize\n cost: load\nSubject To\n")
        # CPLEX's LP format wants short lines.
        for number, row in enumerate(rows):
            words = f" r{number}: {row}".split(" ")
            line = ""
            for word in words:
                if len(line) > 200:
                    file.write(line + "\n")
                    line = ""
                line += " " + word
            file.write(line + "\n")
        file.write("Binaries\n")
        for k in range(len(kernels)):
            file.write(" " + " ".join(f"x{k}_{s}" for s in stages) + "\n")
        file.write("End\n")


def solve(path):
    """The optimum and its proven lower bound in seconds, None if infeasible."""
    answer = path + ".answer"
    run = subprocess.run(["cbc", path, "sec", str(SECONDS), "ratio", "1e-9", "solve", "solution", answer],
                         capture_output=True, text=True, check=True)
    with open(answer) as file:
        first = file.readline()
    if "nfeasible" in first:
        return None
    value = float(first.split()[-1]) * 1e-3
    if first.startswith("Optimal"):
        return value, value
    bound = [line.split()[-1] for line in run.stdout.splitlines() if line.startswith("Lower bound:")]
    return value, float(bound[0]) * 1e-3 if bound else 0.0


def main():
    if not shutil.which("cbc"):
        print("SKIPPED: the partitioner was NOT compared with CBC: cbc is not installed "
              "(apt-get install coinor-cbc)")
        return 77
    compared = infeasible = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(10):
            problem = make_problem(seed)
            path = os.path.join(folder, f"{seed}.json")
            with open(path, "w") as file:
                json.dump(problem, file)
            write_program(problem, path + ".lp")
            expected = solve(path + ".lp")
            run = subprocess.run([sys.argv[1], path], capture_output=True, text=True)
            if expected is None:
                assert run.returncode != 0, f"seed {seed}: CBC finds no partition, the planner does"
                infeasible += 1
                continue
            assert run.returncode == 0, f"seed {seed}: {run.stderr}"
            answer = json.loads(run.stdout)
            assert answer["exact"], f"seed {seed}: not exact"
            value, bound = expected
            # CBC's tolerance on integers is 1e-6.
            assert answer["value"] <= value * (1 + 1e-5), f"seed {seed}: {answer['value']} > {value}"
            assert answer["value"] >= bound * (1 - 1e-5), f"seed {seed}: {answer['value']} < {bound}"
            compared += 1
            print(f"seed {seed}: {len(problem['graph']['kernels'])} kernels, {answer['ideals']} ideals, "
                  f"{answer['value']:.6f} s, CBC {bound:.6f} to {value:.6f}", flush=True)
    print(f"{compared} optima equal, {infeasible} infeasible")
    assert compared >= 8
    return 0


if __name__ == "__main__":
    sys.exit(main())

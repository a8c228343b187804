#!/usr/bin/env python3
"""The checks of scripts/test-cuda, which sets everything up and calls this.

First what needs no clock, several checks at a time, while PyTorch prepares
itself; then measurements, one at a time. Each check costs no more than itself
when it fails or hangs. Writes DIR/results.json.
"""

import collections
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "cuda_test"))

import attention
import compare
import measure
import processes
import sanitize
import stored
from harness import Failure, Harness, OutOfTime

BUDGET_SECONDS = float(os.environ.get("PP_TEST_SECONDS") or 420)
# Of the budget, for what needs no clock.
CHECKS_SHARE = 0.55
WORKERS = max(1, min(4, (os.cpu_count() or 1) // 2))


def has_torch(harness):
    try:
        compare.run_python(harness, "pytorch.py", timeout=60)
    except OutOfTime:
        harness.report("SKIP", "PyTorch", "no time is left")
        return False
    except Failure as error:
        if "a module of scripts/test-cuda" in str(error):
            return True
        harness.report("SKIP", "PyTorch", str(error).splitlines()[-1])
    return False


def describe_machine():
    """For results.json."""
    def output(*command):
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip()
        except (OSError, subprocess.TimeoutExpired):
            return ""

    return {
        "date": time.strftime("%Y-%m-%d"), "cores": os.cpu_count(),
        "gpu": output("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"),
        "pytorch": output(sys.executable, "-c", "import torch; print(torch.__version__, torch.version.cuda)")}


def untimed_checks(harness, torch):
    """Functions, what matters most first."""
    entries = {entry["model"]: entry for entry in harness.manifest["stored"]}
    models = list(dict.fromkeys(case["model"] for case in harness.cases("compare")))

    def check_stored(model):
        return f"{model}: results", lambda: stored.check_model(harness, entries[model])

    def check_compared(model):
        return f"{model}: PyTorch here", lambda: compare.check_model(harness, model)

    first = [model for model in ("lenet", "gpt") if model in entries]
    checks = [check_stored(model) for model in first]
    if torch:
        checks += [(f"{model}: attention", lambda m=model: attention.check_model(harness, m))
                   for model in attention.models_of(harness)]
        checks += [check_compared(model) for model in models]
    checks += [check_stored(model) for model in entries if model not in first]
    checks += [(f"{model}: several processes", lambda e=entries[model]: processes.check(harness, e))
               for model in processes.MODELS if model in entries]
    checks.append(("NCCL, one rank to itself", lambda: processes.check_link(harness)))
    checks += [(f"{model}: bits of 2 processes, nccl", lambda e=entries[model]: processes.check_two_ranks(harness, e))
               for model in processes.MODELS[:1] if model in entries]
    checks += [(f"compute-sanitizer {tool}, {model}", lambda t=tool, m=model: sanitize.check(harness, m, t))
               for model in sanitize.MODELS if model in entries for tool in sanitize.TOOLS]
    return checks


def timed_checks(harness, contenders):
    """As untimed_checks; run one after the other."""
    checks, rate = [], None
    stages = [(f"{entry['model']} train by stages", lambda e=entry: measure.measure_stages(harness, e))
              for entry in harness.manifest["stored"]]
    if not contenders:
        return stages

    def matmul():
        nonlocal rate
        rate = measure.measure_matmul(contenders, harness.sizes)
        harness.add_row("matmul", {"flops_per_second": rate})
        harness.report("PASS", "bf16 product of PyTorch", f"{rate * 1e-12:.1f} TFLOP/s")

    def compared(case):
        return (f"{case['name']}: times", lambda: measure.compare(harness, contenders[case["model"]], case, rate))

    checks.append(("bf16 product of PyTorch", matmul))
    checks += [compared(case) for case in measure.comparisons(harness) if case["use"] == "train"]
    checks += [(f"{case['name']}: times", lambda c=case: measure.measure_unfused(harness, c))
               for case in harness.cases("unfused")]
    checks += [(f"{case['model']} cost file", lambda c=case: measure.profile(harness, c))
               for case in harness.cases("profile")]
    checks += [compared(case) for case in measure.comparisons(harness) if case["use"] == "infer"]
    checks += [(f"{case['name']}: times", lambda c=case: measure.measure_microbatches(harness, c))
               for case in harness.cases("microbatches")]
    return checks + stages


def main(folder):
    folder = pathlib.Path(folder)
    if not (folder / "programs" / "complete").exists():
        with tarfile.open(folder / "programs.tar.xz") as archive:
            # Debian 12's Python has no filters yet.
            archive.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        (folder / "programs" / "complete").touch()
    harness = Harness(folder, BUDGET_SECONDS)
    harness.results["machine"] = describe_machine()
    torch = has_torch(harness)
    contenders = {}
    if torch:
        for model in dict.fromkeys(case["model"] for case in harness.manifest["cases"]):
            harness.attempt(f"{model}: weights", compare.make_weights, harness, model)
        contenders = harness.attempt("PyTorch's processes", measure.start, harness) or {}
    end = harness.deadline
    harness.deadline = harness.start + CHECKS_SHARE * BUDGET_SECONDS
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        for name, check in untimed_checks(harness, torch):
            pool.submit(harness.attempt, name, check)
    harness.deadline = end
    print(flush=True)
    for name, check in timed_checks(harness, contenders):
        harness.attempt(name, check)
    for contender in contenders.values():
        contender.close()
    if not torch:
        harness.report("SKIP", "comparisons and cost files", "their weights come from PyTorch's module")
    harness.results["seconds"] = round(time.monotonic() - harness.start, 1)
    harness.write()
    count = collections.Counter(check["result"] for check in harness.results["checks"])
    print(f"\n{time.monotonic() - harness.start:.0f} s, {count['PASS']} passed, {count['FAIL']} failed, "
          f"{count['SKIP']} skipped; {folder / 'results.json'}")
    shutil.rmtree(harness.scratch, ignore_errors=True)
    return harness.failures


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1]) else 0)

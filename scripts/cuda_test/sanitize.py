"""Memory errors and races, by compute-sanitizer, on small models."""

import shutil

from stored import Stored

MODELS = ("lenet", "gpt")
TOOLS = ("memcheck", "racecheck")


def find_tool():
    return shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path="/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer")


def check(harness, model, tool):
    name = f"compute-sanitizer {tool}, {model} in 2 stages"
    if not harness.device.startswith("cuda"):
        return harness.report("SKIP", name, f"the device is {harness.device}")
    program = find_tool()
    if not program:
        return harness.report("SKIP", name, "there is no compute-sanitizer")

    def work():
        entry = next(entry for entry in harness.manifest["stored"] if entry["model"] == model)
        stored = Stored(harness, entry)
        harness.run([
            program, "--tool", tool, "--error-exitcode", "9", harness.program(stored.program(harness.target, 2)),
            "train", "--data", stored.data, "--weights", stored.folder, "--device", harness.device, "--no-shuffle",
            "--steps", 3, "--watchdog", 0], timeout=150)
        harness.report("PASS", name)

    harness.attempt(name, work)

"""Several processes on one GPU: through CUDA's inter-process handles, through
the host, and, as far as one GPU allows, through NCCL."""

import os
import subprocess

from harness import Failure, check_same_bits
from stored import Stored

MODELS = ("lenet", "gpt")
TRANSPORTS = ("peer", "host-staged")


def check(harness, entry):
    """The bits of one process in two and four."""
    model = Stored(harness, entry)
    name = model.name

    def train(title, stages, *arguments):
        return harness.attempt(f"{name}: {title}", model.train, harness.target, stages, harness.device, *arguments)

    for stages in (2, 4):
        expected = train(f"{stages} stages in 1 process", stages)
        for transport in TRANSPORTS if expected else ():
            title = f"{stages} processes, {transport}"
            check_same_bits(harness, f"{name}: bits of {title}", expected,
                            train(title, stages, "--processes", stages, "--transport", transport))


def check_link(harness):
    """NCCL from the GPU to itself, in a communicator of one."""
    name = "NCCL, one rank to itself"
    if not harness.device.startswith("cuda"):
        return harness.report("SKIP", name, f"the device is {harness.device}")
    number = harness.device.partition(":")[2] or "0"
    folder = harness.folder / "plugin"
    harness.run([folder / "link_check", folder / "libpp_cuda.so", number])
    harness.report("PASS", name)


def check_two_ranks(harness, entry):
    """NCCL refuses two ranks on one GPU, unless it takes them for two machines;
    whether it then works is not ours to say, so a failure is not one of ours."""
    model = Stored(harness, entry)
    name = f"{model.name}: bits of 2 processes, nccl"
    if not harness.device.startswith("cuda"):
        return harness.report("SKIP", name, f"the device is {harness.device}")
    expected = model.train(harness.target, 2, harness.device)
    folder = harness.make_folder()
    command = [
        harness.program(model.program(harness.target, 2)), "train", "--data", model.data, "--weights", model.folder,
        "--device", harness.device, "--no-shuffle", "--transport", "nccl", "--steps", model.steps, "--save",
        folder / "snapshot"]
    started = [
        subprocess.Popen(
            [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**harness.environment, "PP_PROCESS": str(i), "PP_PROCESSES": "2", "PP_JOB": f"nccl-{os.getpid()}",
                 "NCCL_HOSTID": f"pp-{i}", "NCCL_SOCKET_IFNAME": "lo"})
        for i in range(2)]
    texts = []
    for process in started:
        try:
            texts.append(process.communicate(timeout=max(1, min(60, harness.left())))[0])
        except subprocess.TimeoutExpired:
            for other in started:
                other.kill()
            texts.append(process.communicate()[0] + "\ndid not end in time")
    if any(process.returncode for process in started):
        return harness.report("SKIP", name, "NCCL does not run two ranks on this GPU: " + " | ".join(
            text.strip().splitlines()[-1] for text in texts if text.strip()))
    if (folder / "snapshot").read_bytes() != expected.paths["snapshot"].read_bytes():
        raise Failure("the snapshots differ")
    harness.report("PASS", name)

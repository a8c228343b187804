"""What scripts/prepare-cuda-test compiles, and scripts/test-cuda runs.

A program is named by what it is made for; `Case.name` is its file's name.
"""

from dataclasses import asdict, dataclass


@dataclass
class Case:
    """One program, for a model of models.py. `use`: what runs it."""

    use: str  # compare, attention, train, unfused, infer, microbatches, profile
    model: str
    batch: int
    microbatches: int = 1
    stages: int = 1
    precision: str = "f32"
    learning_rate: float = 0.01
    fuse_attention: str = ""  # of the compiler; its default without

    @property
    def name(self):
        name = f"{self.use}.{self.model}.{self.batch}x{self.microbatches}.{self.stages}"
        return f"{name}.{self.fuse_attention}" if self.fuse_attention else name

    def to_json(self):
        return {**asdict(self), "name": self.name}


# The models of test/models: loss, the file of PyTorch's results, and the steps whose results it holds.
STORED = {
    "lenet": ("cross_entropy", "reference.npz", 5),
    "gpt": ("cross_entropy", "reference.npz", 5),
    "unet": ("mse", "reference.npz", 5),
    "resnet18": ("cross_entropy", "reference.m4.npz", 1),
}
# All of a smoke test.
SMOKE_STORED = ("lenet",)
STORED_MICROBATCHES = 4
STORED_STAGES = (1, 2, 4)
# Stages and replicas. As many of these as micro-batches add up in the order of one pipeline.
STORED_REPLICATED = (2, STORED_MICROBATCHES)

# Model: batch and micro-batches of a comparison.
COMPARED = {
    "full": {"mlp": (32, 4), "lenet": (32, 4), "unet": (8, 4), "resnet50": (8, 2), "gpt2-small": (2, 2)},
    "tiny": {"mlp": (32, 4), "lenet": (32, 4), "unet": (8, 4), "resnet50": (4, 2), "gpt2-small": (2, 2)},
    "smoke": {"mlp": (32, 4)},
}
# As above, for attention in bf16: as one kernel, and as products.
ATTENTION = {
    "full": {"attention": (8, 2), "attention-odd": (4, 2)},
    "tiny": {"attention": (8, 2), "attention-odd": (4, 2)},
    "smoke": {},
}
FUSIONS = ("always", "never")
# Model: batch of a training step, batches of inference. Logits of 64 texts of GPT-2 are 13 GB.
MEASURED = {
    "full": {"resnet50": (64, (1, 64)), "gpt2-small": (8, (1, 8))},
    "tiny": {"resnet50": (4, (1, 4)), "gpt2-small": (4, (1, 4))},
    "smoke": {"mlp": (8, (1,))},
}
# Those of them that have attention.
UNFUSED = ("gpt2-small",)
MICROBATCH_SIZES = (1, 2, 4, 8)


def stored_name(model, target, stages, replicas=1):
    return f"{model}.{target}.{stages}" + (f"x{replicas}" if replicas > 1 else "")


def all_cases(sizes):
    cases = []
    for model, (batch, microbatches) in COMPARED[sizes].items():
        for stages in (1, 2):
            cases.append(Case("compare", model, batch, microbatches, stages))
    for model, (batch, microbatches) in ATTENTION[sizes].items():
        cases += [Case("attention", model, batch, microbatches, precision="bf16", fuse_attention=fusion)
                  for fusion in FUSIONS]
    for model, (batch, inference) in MEASURED[sizes].items():
        cases.append(Case("train", model, batch, precision="bf16"))
        if model in UNFUSED:
            cases.append(Case("unfused", model, batch, precision="bf16", fuse_attention="never"))
        cases.append(Case("profile", model, batch, precision="bf16"))
        cases += [Case("infer", model, size, precision="bf16") for size in inference]
        largest = max(MICROBATCH_SIZES)
        cases += [Case("microbatches", model, largest, largest // size, precision="bf16") for size in MICROBATCH_SIZES]
    return cases

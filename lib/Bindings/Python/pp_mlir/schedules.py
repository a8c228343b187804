"""How the learning rate changes from step to step. docs/training.md has the formulas, which are PyTorch's."""

import dataclasses


@dataclasses.dataclass(kw_only=True)
class LearningRateSchedule:
    """All begin with `warmup_steps` steps, in which the rate grows from `warmup_start` of the full one."""
    warmup_steps: int = 0
    warmup_start: float = 0.0

    def options(self):
        """As flags of `program train`."""
        values = {"lr_schedule": self.kind}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            name = field.name if field.name.startswith("warmup") else "lr_" + field.name
            values[name] = None if value is None else field.type(value)
        return values


@dataclasses.dataclass(kw_only=True)
class ConstantLR(LearningRateSchedule):
    kind = "constant"


@dataclasses.dataclass(kw_only=True)
class LinearLR(LearningRateSchedule):
    """To `end` of the full rate after `steps`, counted from the start of the training."""
    kind = "linear"
    steps: int
    end: float = 0.0


@dataclasses.dataclass(kw_only=True)
class CosineLR(LearningRateSchedule):
    kind = "cosine"
    steps: int
    end: float = 0.0


@dataclasses.dataclass(kw_only=True)
class StepLR(LearningRateSchedule):
    kind = "step"
    every: int
    gamma: float = 0.1


@dataclasses.dataclass(kw_only=True)
class ExponentialLR(LearningRateSchedule):
    kind = "exponential"
    gamma: float


@dataclasses.dataclass(kw_only=True)
class PolynomialLR(LearningRateSchedule):
    kind = "polynomial"
    steps: int
    end: float = 0.0
    power: float = 1.0


@dataclasses.dataclass(kw_only=True)
class OneCycleLR(LearningRateSchedule):
    kind = "one-cycle"
    steps: int
    pct_start: float = 0.3
    div_factor: float = 25.0
    final_div_factor: float = 1e4

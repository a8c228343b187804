"""How parameters follow gradients. Names and defaults are PyTorch's, where it has the optimizer."""

import dataclasses


@dataclasses.dataclass
class Optimizer:
    """`lr` is the learning rate of a constant schedule."""
    lr: float

    def options(self):
        """As flags of pp-compile; None is the compiler's default."""
        values = {"optimizer": type(self).__name__.lower()}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "lr":
                values["learning_rate"] = float(value)
            elif field.name == "betas":
                values["beta1"], values["beta2"] = map(float, value)
            elif field.name == "eps":
                values["epsilon"] = None if value is None else float(value)
            elif field.name == "alpha":
                values["beta2"] = float(value)
            elif isinstance(value, bool):
                values[field.name] = True if value else None
            else:
                values[field.name] = float(value)
        return values


@dataclasses.dataclass
class SGD(Optimizer):
    momentum: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False


@dataclasses.dataclass
class Adam(Optimizer):
    lr: float = 1e-3
    betas: tuple = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0


@dataclasses.dataclass
class AdamW(Adam):
    weight_decay: float = 1e-2


@dataclasses.dataclass
class RMSprop(Optimizer):
    lr: float = 1e-2
    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = False


@dataclasses.dataclass
class Adagrad(Optimizer):
    lr: float = 1e-2
    eps: float = 1e-10
    weight_decay: float = 0.0


@dataclasses.dataclass
class Lion(Optimizer):
    """The sign of a mean of gradients."""
    lr: float = 1e-4
    betas: tuple = (0.9, 0.99)
    weight_decay: float = 0.0


@dataclasses.dataclass
class LAMB(Adam):
    """AdamW, scaled by the norms of each parameter and its step."""
    eps: float = 1e-6


@dataclasses.dataclass
class LARS(Optimizer):
    """SGD, scaled by the norms of each parameter and its gradient."""
    momentum: float = 0.0
    weight_decay: float = 0.0
    trust_coefficient: float = 1e-3


@dataclasses.dataclass
class Adafactor(Optimizer):
    """Means of squares for rows and columns of matrices instead of all numbers."""
    lr: float = 1e-2
    weight_decay: float = 0.0


@dataclasses.dataclass
class Muon(Optimizer):
    """Orthogonal steps for matrices, AdamW for all other parameters."""
    lr: float = 1e-3
    weight_decay: float = 0.1
    momentum: float = 0.95

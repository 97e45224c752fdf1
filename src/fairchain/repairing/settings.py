"""How a repair searches: by which optimiser, over which weights, and what it may cost."""

from __future__ import annotations

from dataclasses import dataclass

from fairchain.errors import SpecError
from fairchain.repairing.optimizers import NAMES, unknown_optimizer
from fairchain.repairing.parameters import KINDS


@dataclass(frozen=True)
class Settings:
    """How to search: whose weights may change (`units`, `keep_protected`), and what it may cost."""

    optimizer: str = "evolution"
    change: str = "auto"
    units: int = 10
    keep_protected: bool | None = None
    max_accuracy_loss: float | None = None
    iterations: int = 100

    def __post_init__(self) -> None:
        if self.optimizer not in NAMES:
            raise SpecError(unknown_optimizer(self.optimizer))
        if self.change not in KINDS:
            raise SpecError(f'change: there is no "{self.change}"; there is {", ".join(KINDS)}')
        if self.change == "low-rank" and self.keep_protected:
            raise SpecError(
                'change: "low-rank" changes the weights of the protected features and nothing else, and keep_protected '
                'leaves them alone; take change = "scales" or "last-layer"'
            )
        if self.units < 0 or self.iterations < 0:
            raise SpecError("units and iterations: a number below 0; give 0 or more")
        if self.max_accuracy_loss is not None and not 0 <= self.max_accuracy_loss < 1:
            raise SpecError(f"max_accuracy_loss: found {self.max_accuracy_loss:g}; give a share from 0 to below 1")

    @property
    def paper(self) -> bool:
        """Whether everything is done as in the paper: its fitness, no protected feature, no mean kept."""
        return self.optimizer == "pso"

    @property
    def protected_too(self) -> bool:
        """Whether weights of the protected features may change."""
        return not (self.paper if self.keep_protected is None else self.keep_protected)

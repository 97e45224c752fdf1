"""Drafts of specs: the options of the caller, the inferred spec, and a note for every guess in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fairchain.models import Limits
from fairchain.spec import Spec
from fairchain.spec.schema import Decision

RowsAre = Literal["sample", "population", "uniform"]


@dataclass(frozen=True, kw_only=True)
class DraftOptions:
    """Options that replace a guess; `infer_spec` documents each."""

    label: str | None = None
    protected: tuple[str, ...] = ()
    outcome: str | None = None
    threshold: float = 0.1
    reading: RowsAre | None = None
    ignore: tuple[str, ...] = ()
    decision: Decision | None = None
    model_output: str | None = None
    prediction: str | None = None
    limits: Limits | None = None


@dataclass(frozen=True)
class Guess:
    """Note about one key of the spec.

    Parameters
    ----------
    key
        `model.labels`, `feature.age`, `population.label` and so on; "" for the spec as a whole.
    text
        The value taken, the reason, and what to check.
    loud
        Whether the note is a warning: the spec is probably wrong until it is edited.
    """

    key: str
    text: str
    loud: bool = False


@dataclass(frozen=True)
class Draft:
    """Inferred spec with its guesses, in the order of the keys; `likely` names columns that may be protected."""

    spec: Spec
    guesses: tuple[Guess, ...]
    likely: tuple[str, ...] = ()

    def about(self, key: str) -> tuple[str, ...]:
        """Return the notes about one key, without the warnings."""
        return tuple(guess.text for guess in self.guesses if guess.key == key and not guess.loud)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Notes that must be read before a verdict is used."""
        return tuple(guess.text for guess in self.guesses if guess.loud)

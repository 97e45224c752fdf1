"""Drafts of specs: the options of the caller, the inferred spec, and a note for every guess in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fairchain.models import Limits, Model
from fairchain.spec import Spec
from fairchain.spec.feature_keys import GroupExpr
from fairchain.spec.schema import DecisionKind
from fairchain.tables import TableRows

# Tables of a spec, in the order of the file; "" is the spec as a whole.
TABLES = ("", "model", "feature", "population", "property")
RowsAre = Literal["sample", "population", "uniform", "observed", "swapped"]


@dataclass(frozen=True, kw_only=True)
class DraftOptions:
    """Options that replace a guess; `infer_spec` and `check` document each.

    `groups` has the groups of a feature by its name. `property` and `guarantee` are further keys of these tables.
    `every_group`: features that are likely protected get groups too, so that a later run may compare them.
    """

    label: str | None = None
    protected: tuple[str, ...] = ()
    outcome: str | None = None
    threshold: float = 0.1
    reading: RowsAre | None = None
    ignore: tuple[str, ...] = ()
    decision: DecisionKind | None = None
    decision_threshold: float | None = None
    labels: tuple[str, ...] = ()
    model_output: str | None = None
    deterministic: bool = True
    prediction: str | None = None
    groups: Mapping[str, Mapping[str, GroupExpr]] = field(default_factory=dict)
    property: Mapping[str, Any] = field(default_factory=dict)
    guarantee: Mapping[str, Any] = field(default_factory=dict)
    every_group: bool = True
    limits: Limits | None = None

    def __post_init__(self) -> None:
        for key in ("protected", "ignore", "labels"):
            # One name or several; labels and columns of a frame may be numbers, or texts of NumPy.
            given: Any = getattr(self, key)
            one = isinstance(given, str) or not isinstance(given, Iterable)
            object.__setattr__(self, key, () if given is None else tuple(map(str, [given] if one else given)))


@dataclass(frozen=True)
class Guess:
    """Note about one key of the spec, as `model.labels` or `feature.age`; "" is the spec as a whole.

    `text` states the value taken, the reason, and what to check. A `loud` note is a warning: the spec is probably
    wrong until it is edited.
    """

    key: str
    text: str
    loud: bool = False


def in_order(guesses: Iterable[Guess]) -> tuple[Guess, ...]:
    """Return notes in the order of their tables in a spec."""
    return tuple(sorted(guesses, key=lambda guess: TABLES.index(guess.key.partition(".")[0])))


@dataclass(frozen=True)
class Draft:
    """Inferred spec with its guesses, in the order of the keys; `likely` names columns that may be protected.

    `model` and `rows` are the model, loaded for this spec, and the rows of the table as its features.
    """

    spec: Spec
    guesses: tuple[Guess, ...]
    likely: tuple[str, ...] = ()
    model: Model | None = field(default=None, repr=False)
    rows: TableRows | None = field(default=None, repr=False)

    def about(self, key: str) -> tuple[str, ...]:
        """Return the notes about one key, without the warnings."""
        return tuple(guess.text for guess in self.guesses if guess.key == key and not guess.loud)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Notes that must be read before a verdict is used."""
        return tuple(guess.text for guess in self.guesses if guess.loud)

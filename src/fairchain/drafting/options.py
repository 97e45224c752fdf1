"""What the caller knows, so that it need not be guessed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fairchain.models import Limits
from fairchain.spec.schema import Decision

Reading = Literal["sample", "population", "uniform"]


@dataclass(frozen=True, kw_only=True)
class DraftOptions:
    """What is given besides the table and the model; `infer_spec` says what each means."""

    label: str | None = None
    protected: tuple[str, ...] = ()
    outcome: str | None = None
    threshold: float = 0.1
    reading: Reading | None = None
    ignore: tuple[str, ...] = ()
    decision: Decision | None = None
    output: str | None = None
    prediction: str | None = None
    limits: Limits | None = None

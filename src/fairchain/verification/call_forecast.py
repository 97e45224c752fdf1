"""Forecast of the evaluations of a slow model: inputs, requests and seconds, before the run begins.

The numbers of rows of a table and of texts of a counted corpus are exact. The number of rounds of sampling depends on
the gap: the smallest number is known, and the largest if there is a budget of evaluations.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf
from typing import Any

import numpy as np

from fairchain.models.adapters.answer_memo import REPEATED
from fairchain.models.adapters.from_service import CallForecast
from fairchain.prepare import Case
from fairchain.spec import Individual, Table
from fairchain.spec.validate import may_count
from fairchain.verification.choosing import FEW_EVALUATIONS, FEW_TEXTS, fewest_evaluations, fewest_rounds
from fairchain.verification.counting import counted_evaluations


@dataclass(frozen=True)
class ServiceForecast:
    """The smallest and the largest number of evaluations of a model; the largest is None if it depends on the gap.

    `name` is the model's name, `latency` the measured seconds per request, and `kept` the number of answers in its
    journal.
    """

    name: str
    least: CallForecast
    most: CallForecast | None
    latency: float
    connections: int
    kept: int

    def __str__(self) -> str:
        measured = f"{self.connections} connection{'s' if self.connections > 1 else ''}"
        if self.latency:
            measured += f", {1000 * self.latency:,.0f} ms a request so far"
        if self.kept:
            measured += f"; {self.kept:,} answers in the journal are not requested again"
        if self.least == self.most:
            return f"{self.name}: forecast {self.least} ({measured})"
        most = "more if the gap is near the threshold; --max-evaluations limits them"
        if self.most is not None:
            most = f"at most {self.most}"
        return f"{self.name}: forecast at least {self.least}, {most} ({measured})"


def forecast_calls(case: Case) -> ServiceForecast | None:
    """Return the forecast of a case about a service; None for other models, and for recorded decisions."""
    service: Any = getattr(case.model, "service", None)
    if service is None:
        return None
    spec, groups = case.spec, len(case.comparison.subgroups)
    allowed = spec.guarantee.budget.evaluations
    most: float
    if isinstance(spec.population, Table):
        least = most = min(_distinct_rows(case) + REPEATED, allowed or inf)
    elif may_count(spec) and (counted := counted_evaluations(case)) <= min(FEW_TEXTS, allowed or inf):
        least = most = counted + REPEATED
    elif fewest_evaluations(spec) <= {"auto": FEW_EVALUATIONS, "enumeration": 1e12}.get(spec.guarantee.engine, -1):
        least = most = min(fewest_evaluations(spec) + REPEATED, allowed or inf)
    else:
        least = min(ceil(min(fewest_rounds(spec), 1e9)) * groups, allowed or inf)
        most = allowed or inf
    client = service.client
    return ServiceForecast(
        case.model.name if case.model is not None else "",
        service.forecast(int(least)),
        None if most == inf else service.forecast(int(most)),
        client.seconds / max(1, client.requests),
        client.connections,
        len(service.journal) if service.has_file else 0,
    )


def _distinct_rows(case: Case) -> int:
    """Return the number of distinct inputs among the rows of a table."""
    assert case.rows is not None
    assert case.concerned is not None
    assert case.members is not None
    spec, values = case.spec, case.rows.values
    overall = getattr(spec.property, "compare", "groups") != "groups"
    needed = case.concerned if overall else case.concerned & case.members.any(axis=0)
    taken = [place for place, feature in enumerate(spec.features) if feature.model_input]
    if isinstance(spec.property, Individual):
        taken = [place for place in taken if spec.features[place].name not in spec.protected]
    distinct = len(np.unique(values[needed][:, taken], axis=0))
    return distinct * (len(case.comparison.subgroups) if isinstance(spec.property, Individual) else 1)

"""Verdicts in MLflow, with the run that trained the network: numbers as metrics, the evidence as artifacts.

mlflow is imported when a verdict is logged, and fairchain does not depend on it: `pip install fairchain[mlflow]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import nullcontext
from itertools import islice
from pathlib import Path

from fairchain.certificates import dump, make_certificate
from fairchain.errors import FairchainError
from fairchain.messages import needs
from fairchain.verification.verdict import Verdict

# Characters that MLflow accepts in a part of a metric's name, its largest length, and the largest number of metrics at
# once. Names are paths in some of its stores, so none may be the prefix of another, or lead upwards.
_NOT_TAKEN = re.compile(r"[^\w\-. ]", flags=re.ASCII)
LONGEST_NAME, MOST_AT_ONCE = 200, 500
MOST_LETTERS = 4000
LOGGING_NEEDS_MLFLOW = needs("logging", "mlflow", "fairchain[mlflow]")
NO_REPORT = "{report}: report not found; write one with fairchain audit SPEC --output FOLDER"


def log_verdict(verdict: Verdict, *, report: str | Path | None = None, prefix: str = "fairness") -> str:
    """Log a verdict to MLflow's active run, or to a new run if none is active.

    Parameters
    ----------
    verdict
        Result of `verify`.
    report
        A file to store with it, such as the `report.html` of an audit, or a whole folder.
    prefix
        Prefix of metrics, tags and artifacts, for example `fairness/gap`.

    Returns
    -------
    str
        The id of the run.

    Raises
    ------
    FairchainError
        If mlflow is not installed, or the report does not exist.
    """
    try:
        import mlflow
    except ImportError:
        raise FairchainError(LOGGING_NEEDS_MLFLOW) from None
    if report is not None and not Path(report).exists():
        raise FairchainError(NO_REPORT.format(report=report))
    active = mlflow.active_run()
    with nullcontext(active) if active is not None else mlflow.start_run(run_name=prefix) as run:
        numbers = iter(metrics_of(verdict, prefix).items())
        while some := dict(islice(numbers, MOST_AT_ONCE)):
            mlflow.log_metrics(some)
        mlflow.set_tags(tags_of(verdict, prefix))
        mlflow.log_dict(verdict.to_dict(), f"{prefix}/verdict.json")
        if verdict.certifiable:
            # As text, not as a mapping: the file must be the one that `write_certificate` writes.
            mlflow.log_text(dump(make_certificate(verdict)), f"{prefix}/certificate.json")
        if report is not None:
            log = mlflow.log_artifacts if Path(report).is_dir() else mlflow.log_artifact
            log(str(report), prefix)
        return str(run.info.run_id)


def metrics_of(verdict: Verdict, prefix: str = "fairness") -> dict[str, float]:
    """Return the numbers of a verdict by names that MLflow accepts."""
    gap = verdict.gap
    numbers = {
        "gap": gap.estimate,
        "gap_low": gap.low,
        "gap_high": gap.high,
        "threshold": verdict.spec.property.threshold,
        "delta": verdict.delta,
        "evaluations": float(verdict.evaluations),
    }
    several = len({group.outcome for group in verdict.groups}) > 1
    names = _names(f"{group.name} {group.outcome}" if several else group.name for group in verdict.groups)
    for group, name in zip(verdict.groups, names, strict=True):
        p = group.probability
        numbers |= {f"rate/{name}": p.estimate, f"rate_low/{name}": p.low, f"rate_high/{name}": p.high}
    return {f"{prefix}/{name}": number for name, number in numbers.items()}


def tags_of(verdict: Verdict, prefix: str = "fairness") -> dict[str, str]:
    """Return the texts of a verdict."""
    words = {
        "verdict": verdict.conclusion,
        "constant": verdict.constant or "",
        "sound": str(verdict.sound).lower(),
        "property": str(verdict.spec.property),
        "model_sha256": verdict.model_sha256,
        "population": verdict.population,
        "statement": verdict.statement,
    }
    return {f"{prefix}.{name}": text[:MOST_LETTERS] for name, text in words.items()}


def _names(wanted: Iterable[str]) -> list[str]:
    """Return names that MLflow accepts, each one once."""
    given: list[str] = []
    for each in wanted:
        name = plain = _NOT_TAKEN.sub("_", each)[:LONGEST_NAME].strip(" .") or "_"
        number = 2
        while name in given:
            name, number = f"{plain} {number}", number + 1
        given.append(name)
    return given

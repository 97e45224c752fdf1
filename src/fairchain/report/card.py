"""Section of a model card, from a certificate: the question, the verdict, and its limits."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from fairchain.report.comparison import CertificateContents, contents_of
from fairchain.report.markdown import code, escape, groups_table, joined, summary

LIMITS = (
    "Small gaps between these groups are one notion of fairness among several. Other groups were not compared, and "
    "nothing is stated about other {inputs}."
)


def model_card(certificate: CertificateContents | Mapping[str, Any], *, source: str = "certificate.json") -> str:
    """Return the section in Markdown, from a certificate that `read_claims` or `make_certificate` returned.

    `source` is the file's name, for the command with which a reader checks it.
    """
    certificate = contents_of(certificate)
    claims, spec = certificate.claims, certificate.spec
    wrong = f"at most {claims.delta:g}" if claims.delta else "none, all rows were counted"
    points = [
        f"Protected: {' and '.join(escape(name) for name in spec['property']['protected'])}",
        f"Question: {code(claims.question)}",
        f"{claims.inputs.capitalize()}: {escape(claims.population)}",
        f"Probability of a wrong verdict: {wrong if claims.sound else 'unknown, because the rule is not sound'}",
        f"Network: sha256 {code(claims.model_sha256)}" if claims.model_sha256 else "Decisions as recorded",
    ]
    if claims.left_out:
        points.append(f"Groups too small to be compared: {len(claims.left_out)}")
    if claims.constant is not None:
        points.append(f"Constant: every tested input got the decision {code(claims.constant)}")
    software = escape(certificate.software.get("fairchain", "?"))
    text = joined(
        "## Fairness",
        summary(claims),
        "\n".join(f"- {point}" for point in points),
        groups_table([group for group in claims.groups if group.outcome == claims.gap.outcome]),
        f"{escape(claims.scope)} {LIMITS.format(inputs=claims.inputs)}",
        f"Checked with fairchain {software}; to check it again: {code(_command(certificate, source))}.",
    )
    return f"{text}\n"


def _command(certificate: CertificateContents, source: str) -> str:
    """Return the command that checks the certificate; an unknown file name is written in capitals."""
    claims, spec = certificate.claims, certificate.spec
    words = ["fairchain", "recheck", source]
    if claims.model_sha256:
        words += ["--model", spec["model"].get("path") or "MODEL"]
    population = spec.get("population", {})
    rows = population.get("kind") in ("table", "marginals") and claims.table_sha256
    # The checker fetches the texts of a data set; the texts of a file must be supplied.
    if rows or (population.get("kind") == "text" and population.get("path")):
        words += ["--data", population.get("path") or "TABLE"]
    return shlex.join(words)

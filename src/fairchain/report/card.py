"""A section for a model card, from a certificate: what was asked, what was found, and what it does not say."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from fairchain.report.certificate_contents import CertificateContents, contents_of
from fairchain.report.markdown import code, escape, groups_table, summary
from fairchain.verification.record import VerdictRecord

LIMITS = (
    "Small gaps between these groups are one notion of fairness among several. Groups that are not named here were not "
    "compared, and nothing is said about {inputs} other than those above."
)


def model_card(certificate: CertificateContents | Mapping[str, Any], *, source: str = "certificate.json") -> str:
    """The section in Markdown.

    Parameters
    ----------
    certificate
        As `read_claims` or `make_certificate` returns it.
    source
        The file's name, for the command with which a reader checks it.
    """
    certificate = contents_of(certificate)
    claims = certificate.claims
    groups = [group for group in claims.groups if group.outcome == claims.gap.outcome]
    parts = [
        "## Fairness",
        summary(claims),
        "\n".join(f"- {point}" for point in _points(certificate)),
        groups_table(groups) if groups else "",
        f"{escape(claims.scope)} {LIMITS.format(inputs=claims.inputs)}",
        f"Checked with fairchain {escape(certificate.software.get('fairchain', '?'))}; to check it again: "
        f"{code(_command(certificate, source))}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _points(certificate: CertificateContents) -> list[str]:
    certificate = contents_of(certificate)
    claims = certificate.claims
    protected = " and ".join(escape(name) for name in certificate.spec["property"]["protected"])
    left_out, constant = claims.left_out, claims.constant
    return [
        f"Protected: {protected}",
        f"Question: {code(claims.question)}",
        f"{claims.inputs.capitalize()}: {escape(claims.population)}",
        _wrong(claims),
        f"Network: sha256 {code(claims.model_sha256)}" if claims.model_sha256 else "Decisions as recorded",
        *([f"Groups too small to be compared: {len(left_out)}"] if left_out else []),
        *([f"Constant: every input that was tried got the decision {code(constant)}"] if constant is not None else []),
    ]


def _wrong(claims: VerdictRecord) -> str:
    if not claims.sound:
        return "Probability of a wrong verdict: not known, the rule is not sound"
    if claims.delta == 0:
        return "Probability of a wrong verdict: none, everybody was counted"
    return f"Probability of a wrong verdict: at most {claims.delta:g}"


def _command(certificate: CertificateContents, source: str) -> str:
    """How a reader checks it; a file of theirs stands in capitals where its name is not known."""
    claims, spec = certificate.claims, certificate.spec
    words = ["fairchain", "recheck", source]
    if claims.model_sha256:
        words += ["--model", spec["model"].get("path") or "MODEL"]
    population = spec.get("population", {})
    rows = population.get("kind") in ("table", "marginals") and claims.table_sha256
    # Texts of a data set are fetched by the checker; those of a file must be handed over.
    if rows or (population.get("kind") == "text" and population.get("path")):
        words += ["--data", population.get("path") or "TABLE"]
    return shlex.join(words)

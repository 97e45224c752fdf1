"""The report as one HTML file that loads nothing, follows dark and light, and can be printed."""

from __future__ import annotations

from importlib.resources import files

from fairchain.report.chain_section import chain_section
from fairchain.report.explanation_section import why_section, witnesses_section
from fairchain.report.findings import Findings
from fairchain.report.markup import Markup, el, join, name, section
from fairchain.report.repair_section import repair_section
from fairchain.report.verdict_section import groups_section, limits_paragraph, pairs_section, verdict_panel

# Nothing may be loaded from anywhere, whatever the page contains.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def page(findings: Findings) -> str:
    """Return the report as one HTML document."""
    parts = {
        "groups": ("Groups", groups_section(findings)),
        "pairs": ("Pairs", pairs_section(findings)),
        "chain": ("Chain", chain_section(findings)),
        "why": ("Why", why_section(findings)),
        "witnesses": ("Witnesses", witnesses_section(findings)),
        "repair": ("Repair", repair_section(findings)),
        "population": (findings.inputs.capitalize(), _population_section(findings)),
        "recheck": ("Recheck", _recheck_section(findings)),
        "details": ("Details", _details_section(findings)),
    }
    links = [el("li", el("a", title, href=f"#{key}")) for key, (title, part) in parts.items() if part is not None]
    body = el(
        "body",
        el("a", "Skip to the verdict", href="#verdict", class_="skip"),
        el(
            "header",
            el("h1", "Fairness audit: ", name(findings.title)),
            el("div", verdict_panel(findings.verdict), id="verdict", tabindex="-1"),
            el("nav", el("ul", *links), aria_label="Parts of this report"),
            class_="top",
        ),
        el(
            "main",
            *(part for _, part in parts.values()),
            el(
                "footer",
                f"Made by fairchain {findings.versions.get('fairchain', '')}. Every estimate has its interval.",
            ),
        ),
        el("script", Markup(_asset("script.js"))),
    )
    head = el(
        "head",
        el("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("title", f"{findings.verdict.verdict}: {findings.title}"),
        el("style", Markup(_asset("style.css"))),
    )
    return f"<!doctype html>\n{el('html', head, body, lang='en')}\n"


def _asset(filename: str) -> str:
    return files("fairchain.report").joinpath(filename).read_text(encoding="utf-8")


def _population_section(findings: Findings) -> Markup:
    verdict = findings.verdict
    left_out = ", ".join(f"{each.name} ({each.size:g})" for each in verdict.left_out)
    return section(
        "population",
        f"Which {findings.inputs}, and what is assumed",
        el("p", f"The {findings.inputs}: ", name(verdict.population), "."),
        el("p", "The question: ", el("code", verdict.question)),
        el("p", f"Left out as too small: {left_out}.") if left_out else None,
        limits_paragraph(findings),
        *(el("p", note, class_="note") for note in verdict.notes),
        *(el("p", f"Assumed: {text}", class_="note") for text in verdict.assumptions),
    )


def _recheck_section(findings: Findings) -> Markup | None:
    if not findings.recheck:
        return None
    commands = "\n".join(findings.recheck)
    return section(
        "recheck",
        "Check it yourself",
        el("p", "The certificate has every count behind the verdict. With it and the network anyone can check both, "
           "without trust in the author of this page:"),
        el("pre", el("code", commands), data_copy="", tabindex="0"),
    )  # fmt: skip


def _details_section(findings: Findings) -> Markup:
    verdict = findings.verdict
    rows: list[tuple[str, str]] = [
        ("threshold", f"{verdict.threshold:g}"),
        ("probability of a wrong verdict", f"at most {verdict.delta:g}" if verdict.delta else "none"),
        ("engine", verdict.engine),
        ("rule", verdict.rule),
        ("seed", "–" if verdict.seed is None else f"{verdict.seed} ({verdict.seed_origin})"),
        *([("rounds", f"{verdict.rounds:,}")] if verdict.engine in ("sampling", "bounds") else []),
        *([("rows", f"{verdict.rows:,}")] if verdict.rows is not None else []),
        ("evaluations of the network", f"{verdict.evaluations:,}"),
        ("network, sha256", verdict.model_sha256 or "–"),
    ]  # fmt: skip
    if verdict.table_sha256:
        rows.append(("table, sha256", verdict.table_sha256))
    rows += [(f"version of {key}", value) for key, value in findings.versions.items()]
    pairs = [join(el("dt", key), el("dd", value)) for key, value in rows]
    listed = [el("li", el("code", key), f": {value}") for key, value in findings.files.items()]
    return section(
        "details",
        "Details",
        el("dl", *pairs),
        el("h3", "Files beside this page") if listed else None,
        el("ul", *listed) if listed else None,
    )

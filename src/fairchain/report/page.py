"""The report as one self-contained HTML file, with a dark and a light style, and a style for print."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from fairchain.number_format import confidence
from fairchain.report.chain_section import chain_section
from fairchain.report.explanation_section import annex_explanation, why_section, witnesses_section
from fairchain.report.findings import Findings
from fairchain.report.first_screen import NOT_STATED, by_features, first_screen, issued_by, tested_on
from fairchain.report.markup import Child, Markup, definitions, el, html_table, join, name, section
from fairchain.report.repair_section import annex_repair, repair_section
from fairchain.report.verdict_section import (
    groups_section,
    other_questions,
    pairs_section,
    questions_section,
    selection_part,
)
from fairchain.spec.schema import About
from fairchain.statements import error_in_words, odds

# Nothing may be loaded from another source, whatever the page contains.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
RULE_NAMES = {
    "betting": "betting: a test martingale; the run stops as soon as the evidence suffices",
    "exact": "exact: everything was counted",
    "paper": "the rule of the paper, which is not sound",
}
# Publications of the statistics, by rule.
PUBLICATIONS = {
    "betting": "test martingales: J. Ville, 1939; I. Waudby-Smith and A. Ramdas, J. R. Stat. Soc. B 86, 2024",
    "fixed sample": "exact binomial intervals: C. J. Clopper and E. S. Pearson, Biometrika 26, 1934",
}
FEWER = (
    "A round is one draw that is shown as every group that can still change the verdict. Groups that can no longer "
    "change the verdict are left out, so evaluations are fewer than rounds times groups. Evaluations after the "
    "verdict make the intervals narrower; they cannot change it, and the certificate covers both."
)
NOT_LEGAL = (
    "The verdict compares selection rates with a threshold that was chosen for this audit. It is not a legal finding."
)
# Statements that a published bias audit needs beside its tables.
PUBLISHED = (
    "model_name", "model_version", "provider", "intended_purpose", "auditor", "independence", "audit_date",
    "data_source", "data_period",
)  # fmt: skip
SEEDS = {
    "derived": "derived from the network, the spec and the data",
    "chosen": "chosen by the issuer; the number of other seeds that were tried is stated under seeds tried, if it is "
    "stated",
}
DATA_APART = (
    "The table or texts after --data are not copied to this folder: request them from the issuer. The certificate "
    "has their checksum, so other data are detected."
)
UNIFORM = (
    "A computer drew each feature independently, with equal probability for each of its values. In reality, some "
    "values and combinations are far more frequent than others."
)
NO_HASH_SEED = "derived from the spec and the data only, because the model has no bytes to hash"
HOW_TO_READ = {
    "Group": "Profiles, rows or texts that share a protected feature: age=80-89 is everyone aged 80 to 89.",
    "Verdict": "FAIR: all compared groups stay within the limit. UNFAIR: at least two do not. UNDECIDED: there is not "
    "enough evidence for either, so this is neither a pass nor a failure. CONSTANT: the model gave the same "
    "decision to every input, so nothing can be compared.",
    "Threshold": "The limit for the gap. It was chosen by the client or the auditor; this page does not claim that "
    "it is the right one.",
    "What was tested": "The frame at the top states what was tested. A computer makes synthetic profiles by drawing "
    "each feature at random; they show how the model decides, not past decisions about individuals. Rows of a table "
    "are real records. Each profile, row or text is an input of the model, and an evaluation is one decision of the "
    "model about one input.",
    "Gap": "The rate of one group minus the rate of another. 0.10 means 10 more decisions in 100.",
    "Ratio": "The rate of one group divided by the rate of another. 0.80 means 80 decisions in one group for every 100 "
    "in the other, among equally many members.",
    "Numbers in brackets": "0.15 [0.12, 0.18] means: the best guess is 0.15, and the true value is somewhere from 0.12 "
    "to 0.18. How often such a range is wrong is stated beside it, and in the technical annex. A number without "
    "brackets was counted and is exact.",
    "Assessed and selected": "The number of a group's inputs that the model decided about, and the number of them that "
    "got the decision.",
    "Selection rate and impact ratio": "The selection rate is selected divided by assessed. The impact ratio is "
    "a group's rate divided by the highest rate of all groups, so the group that is selected most often has 1. The "
    "four-fifths rule is a rule of thumb for hiring in the United States: a ratio below 0.8 calls for an explanation.",
    "Scoring rate": "The share of a group whose score is above the middle (median) score of all.",
    "How far the population may change": "In the real world some kinds of inputs may be more frequent than in the "
    "test. A factor of 1.4 means: the verdict stays even if each kind is up to 1.4 times as frequent, or as rare, "
    "as in the test. A factor close to 1 means: a small change could change the verdict.",
    "Effect": "The amount by which the gap shrinks when one feature or unit (neuron) of the model no longer "
    "distinguishes the groups. If the brackets contain 0, no effect was shown. Effects overlap, so they do not add "
    "up to the gap.",
    "One profile, two decisions": "A profile, row or text whose decision changes with its group alone; also called a "
    "counterfactual pair.",
    "What it does not show": "It does not show whether the decisions are right or lawful, and it does not apply to "
    "inputs that were not tested.",
}
UNIT_MEANING = "A unit is a feature or a neuron of the model: layer4[1] is neuron 1 of layer 4, counted from 0."
ROUND = "A round shows one profile to the model once as each group."
DELTA = "Delta is the largest probability that a statement is wrong, and a sha256 is the fingerprint of a file."
COLUMNS = ("Assessed and selected", "Selection rate and impact ratio", "Scoring rate", "Numbers in brackets")


def page(findings: Findings) -> str:
    """Return the report as one HTML document."""
    parts = {
        "questions": ("Questions", questions_section(findings)),
        "groups": ("Groups", groups_section(findings)),
        "pairs": ("Pairs", pairs_section(findings)),
        "why": ("Why", why_section(findings)),
        "witnesses": ("Examples", witnesses_section(findings)),
        "repair": ("Repair", repair_section(findings)),
        "population": ("What was tested", _population_section(findings)),
        "about": ("About", _about_section(findings.about)),
        "recheck": ("Check it", _recheck_section(findings)),
        "annex": ("Technical annex", _annex(findings)),
    }
    links = [el("li", el("a", title, href=f"#{key}")) for key, (title, part) in parts.items() if part is not None]
    body = el(
        "body",
        el("a", "Skip to the verdict", href="#verdict", class_="skip"),
        el(
            "header",
            el("h1", "Fairness audit: ", name(_titled(findings))),
            el("div", first_screen(findings), id="verdict", tabindex="-1"),
            el("p", NOT_LEGAL, class_="note"),
            issued_by(findings),
            el("details", el("summary", "How to read this page"), definitions(HOW_TO_READ), class_="reading"),
            el("nav", el("ul", *links), aria_label="Parts of this report"),
            class_="top",
        ),
        el(
            "main",
            *(part for _, part in parts.values()),
            el("footer", f"Made by fairchain {findings.versions.get('fairchain', '')}."),
        ),
        el("script", Markup(_asset("script.js"))),
    )
    return _document(f"{findings.verdict.verdict}: {findings.title}", body)


def _titled(findings: Findings) -> str:
    """Return the name of the model, if stated, with that of the spec."""
    model = findings.about.model_name if findings.about is not None else None
    return f"{model} ({findings.title})" if model else findings.title


def _document(title: str, body: Markup) -> str:
    head = el(
        "head",
        el("meta", charset="utf-8"),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("title", title),
        el("style", Markup(_asset("style.css"))),
    )
    return f"<!doctype html>\n{el('html', head, body, lang='en')}\n"


def selection_page(findings: Findings) -> str:
    """Return the selection rates of all questions as a page, as bias audits of hiring tools publish them."""
    tables = [
        el("section", el("h2", f"Selection rates {by_features(verdict)}"), selection_part(selection))
        for verdict in findings.questions or (findings.verdict,)
        for selection in findings.all_selections
        if selection.question == verdict.question
    ]
    words = definitions({key: HOW_TO_READ[key] for key in COLUMNS})
    delta = sum(each.delta for each in findings.questions or (findings.verdict,))
    body = el(
        "body",
        el(
            "main",
            el("h1", "Selection rates and impact ratios: ", name(_titled(findings))),
            el("p", tested_on(findings), " ", name(f"{findings.decision_rule} ".lstrip()), "" if not delta else
               f"The intervals of all tables hold together with probability at least {confidence(delta)}, if the rows "
               "are a random sample."),
            _stated(findings.about, PUBLISHED),
            el("details", el("summary", "How to read the columns"), words, open=True),
            *tables,
            el("p", NOT_LEGAL, " The verdicts, the assumptions and how to check them are in report.html.",
               class_="note"),
            class_="alone",
        ),
        el("script", Markup(_asset("script.js"))),
    )  # fmt: skip
    return _document(f"Selection rates: {findings.title}", body)


def _asset(filename: str) -> str:
    return files("fairchain.report").joinpath(filename).read_text(encoding="utf-8")


def _population_section(findings: Findings) -> Markup:
    verdict = findings.verdict
    what = f"the model on the {findings.inputs} described here"
    if findings.recorded:
        what = "the decisions on record, without a model that could be explained or repaired"
    elif not verdict.model_sha256:
        what = f"the model {findings.model} on the {findings.inputs} described here, as it answered in this audit"
    other_thresholds = features = None
    if verdict.verdict in ("FAIR", "UNFAIR") and verdict.sound and verdict.gap.low < verdict.gap.high:
        below, above = ("FAIR", "UNFAIR") if verdict.kind == "ratio" else ("UNFAIR", "FAIR")
        other_thresholds = (
            f"For a threshold below the interval at the top, the same data give {below}; for a threshold above it, "
            f"{above}. Choose the threshold before the test, and state the reason."
        )
    if findings.features:
        rows: list[list[Child]] = [[name(each), kind, ranged] for each, kind, ranged in findings.features]
        listed = html_table("Features and their ranges", ["feature", "kind", "values"], rows, words=(0, 1, 2))
        features = el("details", el("summary", f"{len(rows)} features and their ranges"), listed)
    return section(
        "population",
        "What exactly was tested",
        el("p", f"The {findings.inputs}: ", name(verdict.population), ". ",
           UNIFORM if verdict.population.startswith("independent uniform inputs") else ""),
        el("p", name(findings.decision_rule)) if findings.decision_rule else None,
        el("p", "The question as a formula, where P is a share and Y the decision: ", el("code", verdict.question)),
        el("p", "The guarantee in the words of statistics: ", verdict.statement),
        el("p", verdict.scope),
        el("p", other_thresholds) if other_thresholds is not None else None,
        el("p", f"The result is about {what}. It does not apply to other {findings.inputs}, and it does not state "
            "whether the decisions are right."),
        *(el("p", note, class_="note") for note in verdict.notes),
        *(el("p", f"Assumed: {text}", class_="note") for text in verdict.assumptions),
        features,
    )  # fmt: skip


def _about_section(about: About | None) -> Markup:
    """Return the subject, the auditor, the date and the purpose of the audit, as the spec states them."""
    listed = _stated(about, About.__struct_fields__)
    return section(
        "about",
        "About this audit",
        el("p", "The issuer of this report stated these facts in [about] of the spec; fairchain checks none of them."),
        el("details", el("summary", "Nothing is stated"), listed) if about in (None, About()) else listed,
    )


def _stated(about: About | None, keys: Sequence[str]) -> Markup:
    """Return what the spec states about the audit; empty fields are marked."""
    known = about or About()
    return definitions({key.replace("_", " "): name(getattr(known, key) or NOT_STATED) for key in keys})


def _recheck_section(findings: Findings) -> Markup | None:
    if not findings.recheck:
        return None
    commands = "\n".join(findings.recheck)
    tested = "table" if findings.recorded else "model"
    return section(
        "recheck",
        "Check it yourself",
        el("p", f"The certificate has every count behind the verdict. Everyone who has it and the {tested} can check "
            "both, without trusting the author of this page. Install fairchain, a Python package, and run this in "
            "the folder of this page; CONFIRMED means that the result was computed again and agrees:"),
        el("pre", el("code", commands), data_copy="", tabindex="0"),
        el("p", DATA_APART, class_="note") if " --data " in commands else None,
        el("p", "A model can change after an audit. ", el("code", "fairchain monitor"), " watches the same question on "
           "the decisions of a model in use."),
    )  # fmt: skip


def _annex(findings: Findings) -> Markup:
    """Return the annex for specialists: error probabilities, the chain, sensitivities, weights, the run, files."""
    listed = [el("li", el("code", filename), f": {about}") for filename, about in findings.files.items()]
    parts = {
        "others": ("Selection rates of the other questions", other_questions(findings)),
        "errors": ("Error probabilities", _errors(findings)),
        "chain": ("Chain from groups to decisions", chain_section(findings)),
        "sensitivities": ("Sensitivities and layers", annex_explanation(findings)),
        "changes": ("Changes and attempts of the repair", annex_repair(findings)),
        "details": ("Record of the run", _run(findings)),
        "files": ("Files beside this page", el("ul", *listed) if listed else None),
    }
    folded = [
        el("details", el("summary", title), part, id=key) for key, (title, part) in parts.items() if part is not None
    ]
    words = ["For specialists.", *([UNIT_MEANING] if findings.explanation is not None else [])]
    words += [ROUND, DELTA] if findings.verdict.rounds else [DELTA]
    return section("annex", "Technical annex", el("p", " ".join(words), class_="note"), *folded)


def _errors(findings: Findings) -> Markup:
    """Return every error probability of the page, and their sum."""
    verdict, repair, explanation = findings.verdict, findings.repair, findings.explanation
    questions = findings.questions or (verdict,)
    delta, several = sum(each.delta for each in questions), len(questions) > 1
    rows: list[tuple[str, float]] = [
        (f"the verdict{'s' if several else ''}, with the intervals of gaps, selection rates and pairs", delta)
    ]
    if any(each.tipping is not None and each.tipping.all_groups_alike is not None for each in questions):
        rows.append(("how far the population may change", delta))
    if explanation is not None:
        rows.append(("the effects", explanation.delta))
    if repair is not None and repair.attempts:
        rows.append(("all attempts of the repair", sum(attempt.delta for attempt in repair.attempts)))
    if repair is not None and repair.price is not None:
        rows.append(("the price of the repair", repair.price.delta))
    others = sum(each.delta for each in findings.answers_after if repair is None or each is not repair.after)
    if others:
        rows.append(("the other questions after the repair", others))
    total = sum(delta for _, delta in rows)
    listed: list[list[Child]] = [
        [what, f"{delta:.3g}", odds(delta) if delta else "never"]
        for what, delta in [*rows, ("all of them together", total)]
    ]
    return join(
        el("p", error_in_words(verdict.decision, verdict.delta, sound=verdict.sound)),
        html_table(
            "Largest probability that a part of such a page is wrong", ["part", "probability", "at most"], listed,
            words=(0, 2),
        ),
    )  # fmt: skip


def _run(findings: Findings) -> Markup:
    verdict = findings.verdict
    refined = 0 < verdict.decision_evaluations < verdict.evaluations
    origin = SEEDS.get(str(verdict.seed_origin), "")
    if verdict.seed_origin == "derived" and not verdict.model_sha256:
        origin = NO_HASH_SEED
    record = {
        "threshold": f"{verdict.threshold:g}",
        "probability of a wrong verdict": f"at most {verdict.delta:g}" if verdict.delta else "none",
        "engine": verdict.engine,
        "rule": RULE_NAMES.get(verdict.rule, verdict.rule),
        "method, to cite": PUBLICATIONS.get(verdict.rule),
        "seed": "–" if verdict.seed is None else f"{verdict.seed}, {origin}",
        "rounds": f"{verdict.rounds:,}" if verdict.engine in ("sampling", "bounds") else None,
        "rows": f"{verdict.rows:,}" if verdict.rows is not None else None,
        "evaluations of the model until the verdict": f"{verdict.decision_evaluations:,}" if refined else None,
        "evaluations of the model" + (" in all" if refined else ""): f"{verdict.evaluations:,}",
        "model, sha256": verdict.model_sha256 or "–",
        "table, sha256": verdict.table_sha256 or None,
        **{f"version of {key}": value for key, value in findings.versions.items()},
    }
    known = definitions({key: value for key, value in record.items() if value is not None})
    return join(known, el("p", FEWER, class_="note") if verdict.engine == "sampling" else None)

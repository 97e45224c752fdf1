"""First screen of the page: the verdict, the question and its answer in plain words, the tested inputs, the auditor."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from fairchain.number_format import share
from fairchain.report.findings import Findings
from fairchain.report.markup import Child, Markup, el, join, name
from fairchain.spec.schema import About
from fairchain.statements import LEFT_OUT, WARNING, error_in_words
from fairchain.verification.record import VerdictRecord

# The formula of a property that compares all groups with each other, as written by `Difference` and `Ratio`.
_ALL_PAIRS = re.compile(
    r"for all (?P<every>l, )?i, j: \|?P\(Y=(?P<outcome>.+?) \| (?P<features>.+?)=i(?:, truth=(?P<truth>.+?))?"
    r"(?:, (?P<given>.+?))?\) [-/] P\(.+\)\|? [<>]= [0-9.e-]+",
    re.DOTALL,
)
NOT_STATED = "not stated"
# Groups too small to be compared that are named; of more, their number.
MOST_NAMED_SMALL = 8
MORE_EVALUATIONS = "More evaluations may lead to a verdict: set a larger budget in [guarantee] of the spec."
MORE_ROWS = "More rows may lead to a verdict."
GAP_MOVED = (
    "The difference of these two estimates is outside the interval above, because earlier rounds gave a narrower "
    "interval. The estimate above is the nearest end of the interval."
)


def verdict_panel(verdict: VerdictRecord, *details: Child) -> Markup:
    """Return the verdict, its sentence, the tested inputs, and the probability that such a verdict is wrong."""
    # CONSTANT does not answer the question, so it has no probability of a wrong answer.
    named = verdict.verdict == verdict.decision
    return el(
        "div",
        el("span", verdict.word, class_="word"),
        el("p", verdict.headline, class_="headline"),
        *details,
        el("p", error_in_words(verdict.decision, verdict.delta, sound=verdict.sound)) if named else None,
        el("p", verdict.rows_needed or (MORE_EVALUATIONS if verdict.rows is None else MORE_ROWS))
        if verdict.verdict == "UNDECIDED"
        else None,
        el("p", verdict.tipping_sentence) if verdict.tipping is not None else None,
        el("p", verdict.shift_sentence) if verdict.shift is not None else None,
        *(
            el("p", note)
            for note in verdict.notes
            if verdict.constant is not None or note.startswith(WARNING) or LEFT_OUT in note
        ),
        class_=f"verdict {verdict.verdict}",
    )


def first_screen(findings: Findings) -> Markup:
    """Return the verdict with the question, the two extreme groups in percent and the tested inputs."""
    verdict, questions = findings.verdict, findings.questions
    several = not_compared = None
    if questions:
        counted = f"The spec has {len(questions)} questions: {counted_words(questions)}."
        several = el("p", f"{counted} This is the one furthest from being met, ", name(property_text(verdict)), ".")
    if left := verdict.left_out:
        rows = sum(group.size for group in left)
        of_rows = f" ({rows:,.0f} row{'s' if rows > 1 else ''})" if all(group.size >= 1 for group in left) else ""
        groups = f"{len(left):,} groups{of_rows} were" if len(left) > 1 else f"1 group{of_rows} was"
        names: list[Child] = []
        for group in left if len(left) <= MOST_NAMED_SMALL else ():
            names += [", " if names else ": ", name(group.name)]
        about = "them" if len(left) > 1 else "it"
        not_compared = el(
            "p", f"{groups} too small to be compared", *names, f". The verdict does not apply to {about}."
        )
    return verdict_panel(
        verdict,
        several,
        el("p", el("b", "The question: "), question_text(verdict) or el("code", verdict.question)),
        _extremes(verdict),
        el("p", tested_on(findings), class_="badge"),
        not_compared,
    )


def features_drawn_apart(verdict: VerdictRecord) -> str:
    """Return the protected features if all other features are drawn alike for every group; else an empty text."""
    found = _ALL_PAIRS.fullmatch(verdict.question)
    if found is None or found["given"] or found["truth"] or not verdict.population.startswith("independent "):
        return ""
    return found["features"]


def question_text(verdict: VerdictRecord) -> str:
    """Return the question in plain words; empty if there is no simple wording, for example for a formula."""
    limit = verdict.threshold
    if verdict.kind == "individual" and " changes with " in verdict.question and "|" not in verdict.question:
        feature = verdict.question.partition(" changes with ")[2].partition(" alone")[0]
        return (
            f"does a decision stay the same if nothing but {feature} changes? It may change for at most "
            f"{_percent(limit)} of {verdict.inputs}."
        )
    found = _ALL_PAIRS.fullmatch(verdict.question)
    if found is None or verdict.shift is not None:
        return ""
    outcome = "each decision" if found["every"] else f"“{found['outcome']}”"
    among = {None: "", "t": ", among those with the same true label,"}.get(
        found["truth"], f", among those whose true label is {found['truth']},"
    )
    given = f", among those with {found['given']}," if found["given"] else ""
    groups = len({group.name for group in verdict.groups})
    features = " and ".join(found["features"].split(" & "))
    told = f"do the {groups} groups by {features} get {outcome}{among}{given} equally often?".replace(",?", "?")
    if verdict.kind == "ratio":
        return f"{told} The smaller share of two groups must be at least {_percent(limit)} of the larger."
    return f"{told} The shares of two groups may differ by at most {_points(limit)}."


def answer_text(verdict: VerdictRecord) -> str:
    """Return the answer in a sentence without statistics; empty if there is no simple wording."""
    if verdict.verdict not in ("FAIR", "UNFAIR") or verdict.kind == "individual" or not question_text(verdict):
        return ""
    fair = verdict.verdict == "FAIR"
    if verdict.kind == "ratio":
        who = "No group gets" if fair else "One group gets"
        return f"{who} it less than {_percent(verdict.threshold)} as often as another."
    return f"{'No two' if fair else 'Two'} groups differ by more than {_points(verdict.threshold)}."


def _percent(limit: float) -> str:
    return f"{100 * limit:.10g}%"


def _points(gap: float) -> str:
    """Return a difference of shares in percentage points.

    >>> _points(0.1), _points(0.01)
    ('10 percentage points', '1 percentage point')
    """
    number = f"{100 * gap:.10g}"
    return f"{number} percentage point{'' if number == '1' else 's'}"


def counted_words(questions: Sequence[VerdictRecord]) -> str:
    """Return the number of questions with each verdict: `1 FAIR, 2 UNFAIR`."""
    return ", ".join(f"{count} {word}" for word, count in Counter(each.word for each in questions).items())


def property_text(verdict: VerdictRecord) -> str:
    """Return a short name of a question: `the ratio by sex and race`."""
    kind = {"difference": "the gap", "ratio": "the ratio"}.get(verdict.kind, "individual decisions")
    return f"{kind} {by_features(verdict)}".rstrip()


def by_features(verdict: VerdictRecord) -> str:
    """Return the features that define the groups: `by sex and race`; empty if the groups have none."""
    named = next((group.name for group in verdict.groups if "=" in group.name), "")
    features = dict.fromkeys(part.partition("=")[0] for part in named.partition(", ")[0].split(" & "))
    return f"by {' and '.join(features)}" if named else ""


def _extremes(verdict: VerdictRecord) -> Markup | None:
    """Return the rates of the two groups that differ most, in percent, and the answer in a sentence."""
    # The rates of the verdict itself: their difference is the gap above, unless the gap was clipped to its interval.
    gap, answer = verdict.gap, answer_text(verdict)
    rates = {group.name: group.estimate for group in verdict.groups if group.outcome == gap.outcome}
    more, less = gap.more, gap.less
    if verdict.kind == "individual" or not {more, less} <= rates.keys() or rates[more] == rates[less]:
        return el("p", answer) if answer else None
    about = "" if verdict.delta == 0 else "about "
    # The estimate of the gap is an end of its interval if the gap of the two rates is outside.
    measured = rates[less] / rates[more] if verdict.kind == "ratio" and rates[more] else rates[more] - rates[less]
    clipped = gap.estimate in (gap.low, gap.high) and not gap.low <= measured <= gap.high
    return el(
        "p",
        f"{about.capitalize()}{share(rates[more])} of ",
        el("b", name(more)),
        f" and {about}{share(rates[less])} of ",
        el("b", name(less)),
        " get “",
        name(gap.outcome),
        f"”. {answer}".rstrip(),
        f" {GAP_MOVED}" if clipped and verdict.shift is None else None,
    )  # fmt: skip


def tested_on(findings: Findings) -> str:
    """Return the tested inputs and their number, in words without statistics."""
    verdict, texts = findings.verdict, findings.inputs == "texts"
    if verdict.rows is not None:
        whole = "all of them counted" if verdict.delta == 0 else "taken as a random sample"
        if texts and verdict.delta == 0:
            # A text can belong to several groups, or be shown as each of them.
            return f"Tested on a corpus of {verdict.rows:,} texts; those of the compared groups were all counted."
        rows = f"{verdict.rows:,} {'texts of a corpus' if texts else 'rows of a table'}"
        if findings.recorded:
            rows = f"the recorded decisions in {rows}"
        return f"Tested on {rows}, {whole}."
    evaluated = f" ({verdict.evaluations:,} evaluations)" if verdict.evaluations else ""
    if texts:
        return f"Tested on texts drawn from a corpus{evaluated}."
    if verdict.engine == "enumeration":
        return f"Tested on all possible profiles{evaluated}, not on real individuals."
    return f"Tested on synthetic profiles{evaluated}, not on real individuals."


def issued_by(findings: Findings) -> Markup:
    """Return the audited model, the auditor and the date, if the spec states them."""
    stated = findings.about or About()
    model = " ".join(filter(None, (stated.model_name, stated.model_version))) or findings.model or NOT_STATED
    parts = {"Model": model, "audited by": stated.auditor or NOT_STATED, "date": stated.audit_date or NOT_STATED}
    told = [join("; " if place else "", f"{key}: ", name(value)) for place, (key, value) in enumerate(parts.items())]
    return el("p", *told, ". ", el("a", "About this audit", href="#about"), class_="note")

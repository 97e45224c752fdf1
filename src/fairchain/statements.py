"""The sentences of a verdict. Their exact wording matters: each states what the mathematics proves, no more."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10
from pathlib import PurePath

from fairchain.messages import listed

# Share of rows above which leaving them out is a warning.
MANY_DROPPED = 0.05
LEFT_OUT = "left out, as a value is missing"
WARNING = "Warning: "
# Replaces FAIR or UNDECIDED if the model gave one decision to every tested input, unless that is allowed. Such a model
# is never UNFAIR: every gap is 0, every ratio 1 or not defined.
CONSTANT = "CONSTANT"

# Factors of distribution shift above this are reported as this.
MOST_FACTOR = 1000.0

NOT_SOUND = "NOT SOUND: the rule of the paper carries no valid guarantee; use its answer for comparison only."

RANDOM_SAMPLE = "the population of those rows, if they are a random sample of it that the model was not fitted on"
ONE_LEFT_OUT = " One group too small to be compared was left out."
# In notes that state why a model has no certificate.
WITHOUT_CERTIFICATE = "without a certificate"
NO_CERTIFICATE = (
    "no certificate: it would be about Python code, which others cannot check; verify a network with certify=True, "
    "which converts the model to ONNX where it can, and describe the population in the spec"
)
NO_TEXTS_CERTIFICATE = (
    "no certificate: the texts were given in memory, and a checker needs them as a file; save them and give the file, "
    'for example frame.to_csv("texts.csv") and data="texts.csv"'
)
NO_GROUPED_CERTIFICATE = (
    "no certificate: the table was read as distinct rows with their numbers of copies, which recheck does not read; "
    "give one smaller file"
)
NO_PARTIAL_CERTIFICATE = (
    "no certificate: not all rows were evaluated; run it again to the end, without a budget of evaluations"
)
NO_PAPER_CERTIFICATE = (
    'guarantee.rule: "paper" carries no valid guarantee, so no certificate can be written; use rule = "betting"'
)
NO_BOUNDS_CERTIFICATE = (
    'guarantee.engine: "bounds" writes no certificate yet; leave the engine out, or --certificate (certify in Python)'
)
TOO_MANY_COUNTS = (
    "no certificate: the run has more counts than a certificate can hold; compare fewer groups, or choose one "
    "outcome: outcome = ... in [property]"
)

# The inputs that a distribution shift changes, by the value of `shift_of`.
SHIFT_OF = {"each_group": "each group by itself", "all_groups_alike": "all groups alike"}
# The populations of a question with a shift: FAIR is about all of them, UNFAIR about one that need not be known.
POPULATIONS = {"FAIR": "some population", "UNFAIR": "every population", "UNDECIDED": "the populations"}

# Inputs of a network, and the only part that differs between an input as one group and as another.
CHANGED_ALONE = {"individuals": "the protected features", "texts": "the terms"}
# For each kind of property: the measured quantity, the contradiction of FAIR, and the contradiction of UNFAIR.
MEASURED = {
    "difference": "the largest gap",
    "ratio": "the smallest ratio",
    "individual": "the share of {inputs} whose decision changes with {alone} alone",
}
NOT_FAIR = {
    "difference": "some gap were at least {threshold:g}",
    "ratio": "some ratio were at most {threshold:g}",
    "individual": "the share of {inputs} whose decision changes were at least {threshold:g}",
}
NOT_UNFAIR = {
    "difference": "every gap were at most {threshold:g}",
    "ratio": "every ratio were at least {threshold:g}",
    "individual": "the share of {inputs} whose decision changes were at most {threshold:g}",
}
# The relation of a number that is certain to the threshold.
CERTAIN_RELATION = {
    "FAIR": ", which meets the threshold {threshold:g}",
    "UNFAIR": ", which fails the threshold {threshold:g}",
    "UNDECIDED": "; that does not decide about the threshold {threshold:g}",
}
CONSTANT_REFUSED = (
    "{what}: {seen}, so no groups can differ and nothing is shown about how they are treated. {check}; to accept it "
    "anyway: --allow-constant, or allow_constant = true in [guarantee]."
)


def measure(kind: str, inputs: str = "individuals") -> str:
    """Return the measured quantity for the network's inputs.

    >>> measure("individual", "texts")
    'the share of texts whose decision changes with the terms alone'
    """
    return MEASURED[kind].format(inputs=inputs, alone=CHANGED_ALONE[inputs])


def statement(
    decision: str,
    *,
    threshold: float,
    delta: float,
    population: str,
    sound: bool,
    within: float | None = None,
    kind: str = "difference",
    inputs: str = "individuals",
    run: str = "run",
    left_out: int = 0,
) -> str:
    """Return the sentence of a verdict; `within` is epsilon if an estimate of that accuracy was reached.

    >>> print(statement("FAIR", threshold=0.1, delta=1e-6, population="uniform inputs", sound=True)[:76])
    If some gap were at least 0.1 under uniform inputs, a run like this would ha
    """
    if not sound:
        return NOT_SOUND
    claim = f"No verdict about the threshold {threshold:g} under {population}: the evidence allows both."
    if decision in ("FAIR", "UNFAIR"):
        otherwise = (NOT_FAIR if decision == "FAIR" else NOT_UNFAIR)[kind].format(inputs=inputs, threshold=threshold)
        claim = (
            f"If {otherwise} under {population}, a {run} like this would have said {decision} with probability at most "
            f"{delta:g}."
        )
    if within is not None:
        claim += (
            f" Every probability and every gap is within {within:g} of its estimate, all of them together "
            f"with probability at least 1 - {delta:g}."
        )
    return claim + _without(left_out)


def shifted_populations(which: str, factor: float, shift_of: str, assumed: str | None = None) -> str:
    """Return the populations within a factor of the assumed one, in words.

    >>> shifted_populations("every population", 2.0, "each_group")
    'every population in which no input is more than 2 times as frequent or as rare as assumed (each group by itself)'
    """
    base = "assumed" if assumed is None else f"in {assumed}"
    within = f"no input is more than {factor:g} times as frequent or as rare as {base}"
    return f"{which} in which {within} ({SHIFT_OF[shift_of]})"


def _without(left_out: int) -> str:
    """Return the sentence about groups that were left out."""
    if not left_out:
        return ""
    return f" {left_out} groups too small to be compared were left out." if left_out > 1 else ONE_LEFT_OUT


def exact_statement(
    decision: str,
    *,
    kind: str,
    measured: float,
    threshold: float,
    population: str,
    left_out: int = 0,
    inputs: str = "individuals",
) -> str:
    """Return the sentence for rows that are the whole population: the result is exact.

    >>> exact_statement("FAIR", kind="ratio", measured=0.9, threshold=0.8, population="the 40 rows of a.csv")
    'Counted, not estimated: over the 40 rows of a.csv the smallest ratio is 0.9000, which meets the threshold 0.8.'
    """
    meets = "meets" if decision == "FAIR" else "fails"
    return (
        f"Counted, not estimated: over {population} {measure(kind, inputs)} is {measured:.4f}, which {meets} the "
        f"threshold {threshold:g}.{_without(left_out)}"
    )


def enumeration_statement(
    decision: str,
    *,
    kind: str,
    measured: str,
    threshold: float,
    population: str,
    evaluations: int,
    done: tuple[int, int],
    left_out: int = 0,
) -> str:
    """Return the sentence of an enumeration; `done` are the numbers of evaluated and of all points.

    >>> words = {"kind": "difference", "measured": "0.05", "threshold": 0.1, "population": "uniform inputs"}
    >>> print(enumeration_statement("FAIR", evaluations=1248, done=(624, 624), **words)[:70])
    Exact: all 1,248 inputs were evaluated. Under uniform inputs the large
    """
    whole = done[0] == done[1]
    seen = (
        f"Exact: all {evaluations:,} inputs were evaluated."
        if whole
        else f"Certain, but not exact: {evaluations:,} inputs were evaluated, {done[0] / done[1]:.3%} of the points; "
        "the interval holds whatever the decisions about the others are."
    )
    relation = CERTAIN_RELATION[decision].format(threshold=threshold)
    return f"{seen} Under {population} {measure(kind)} is {measured}{relation}.{_without(left_out)}"


def bounds_statement(
    decision: str, *, kind: str, measured: str, threshold: float, population: str, open_mass: float, left_out: int = 0
) -> str:
    """Return the sentence of an answer by branch and bound alone; `open_mass` is the probability of the open boxes.

    >>> words = {"kind": "difference", "measured": "0.05", "threshold": 0.1, "population": "uniform inputs"}
    >>> print(bounds_statement("FAIR", open_mass=0.001, **words)[:71])
    Proved: under uniform inputs the largest gap is 0.05, which meets the t
    """
    relation = CERTAIN_RELATION[decision].format(threshold=threshold)
    certain = "Certain" if decision == "UNDECIDED" else "Proved"
    return (
        f"{certain}: under {population} {measure(kind)} is {measured}{relation}. {open_part(open_mass)}"
        f"{_without(left_out)}"
    )


def open_part(open_mass: float, *, sampled: bool = False) -> str:
    """Return the sentence about the inputs that bounds did not settle, with or without rounds.

    >>> open_part(0.25)
    'Bounds settled 75% of the inputs; nothing is assumed about the decisions for the other 25%.'
    """
    if open_mass == 0:
        return "Bounds settled all inputs."
    # Both shares are rounded, the settled one down.
    settled, rest = f"{max(0.0, 1 - open_mass) * 100:.4g}%", f"{open_mass * 100:.4g}%"
    if sampled:
        return f"Bounds settled {settled} of the inputs; rounds were drawn among inputs that were not settled yet."
    return f"Bounds settled {settled} of the inputs; nothing is assumed about the decisions for the other {rest}."


def enumeration_scope(model_sha256: str) -> str:
    """Return the scope of a statement from an enumeration, and its limits."""
    return f"{_of_distribution(model_sha256)}; nothing is random, so the error probability is 0."


def headline(
    decision: str,
    *,
    kind: str,
    inputs: str = "individuals",
    measured: str,
    threshold: float,
    at_threshold: bool = False,
    shift: float | None = None,
) -> str:
    """Return the measured value and the threshold; every output shows this line after the verdict.

    >>> headline("FAIR", kind="difference", measured="0.05", threshold=0.1)
    'the largest gap is 0.05, below the threshold 0.1'
    >>> headline("UNFAIR", kind="difference", measured="0.2", threshold=0.1, shift=2.0)
    'the largest gap of all populations within the factor 2 is 0.2, above the threshold 0.1'
    """
    among = "" if shift is None else f" of all populations within the factor {shift:g}"
    found = f"{measure(kind, inputs)}{among} is {measured}"
    if decision == "UNDECIDED":
        return f"{found}; the data do not yet show whether it is above or below the threshold {threshold:g}"
    relation = "exactly" if at_threshold else "below" if (decision == "FAIR") != (kind == "ratio") else "above"
    return f"{found}, {relation} the threshold {threshold:g}"


# The reference of a tipping factor: the kind of input that may become more frequent, and where it was counted.
IN_POPULATION = ("input", "in the assumed population")
AMONG_ROWS = {"individuals": ("row", "among the counted rows"), "texts": ("text", "among the counted texts")}
AMONG_ALL_ROWS = {"individuals": ("row", "among all rows"), "texts": ("text", "among all texts")}
OF_SAMPLE = ("row", "in the population that the rows are a sample of")


def tipping_statement(
    decision: str, each_group: float, all_groups_alike: float, delta: float, base: tuple[str, str] = IN_POPULATION
) -> str:
    """Return how far the population may change before the verdict could change; factors are rounded down.

    >>> print(tipping_statement("FAIR", 1.234, 1.86, 0.0)[:88])
    FAIR also holds if some kinds of inputs are up to 1.23 times as frequent, or as rare, as
    >>> print(tipping_statement("FAIR", 1.234, 1.86, 0.0)[-82:])
    the assumed population; or up to 1.86 times, if all groups change in the same way.
    >>> print(tipping_statement("UNFAIR", 1.0, 1.0, 1e-6))
    It is not known how far the population may change before UNFAIR no longer holds: the intervals are too wide.
    """
    if _factor(max(each_group, all_groups_alike)) == "1":
        if delta == 0:
            return f"A small change of the population could change the verdict {decision}."
        return (
            f"It is not known how far the population may change before {decision} no longer holds: the intervals are "
            "too wide."
        )
    thing, where = base
    other = f"{decision} also holds if some kinds of {thing}s are up to"
    rare = f"times as frequent, or as rare, as {where}"
    if all_groups_alike <= each_group:
        return f"{other} {_factor(each_group)} {rare}."
    if _factor(each_group) == "1":
        return f"{other} {_factor(all_groups_alike)} {rare}, provided that all groups change in the same way."
    alike = f"or up to {_factor(all_groups_alike)} times, if all groups change in the same way"
    return f"{other} {_factor(each_group)} {rare}; {alike}."


def _factor(factor: float) -> str:
    """Return a factor with at most three digits, rounded down."""
    if factor >= MOST_FACTOR:
        return f"{MOST_FACTOR:g}"
    step = 10.0 ** (floor(log10(factor)) - 2)
    return f"{floor(factor / step + 1e-9) * step:.3g}"


def conclusion(decision: str, constant: str | None, *, allowed: bool) -> str:
    """Return the conclusion for a gate: the decision, or CONSTANT for a constant model that is not allowed.

    >>> conclusion("FAIR", "no", allowed=False)
    'CONSTANT'
    """
    return CONSTANT if constant is not None and not allowed and decision != "UNFAIR" else decision


def family_conclusion(conclusions: Sequence[str], *, unanswered: int = 0) -> str:
    """Return the conclusion about several questions: FAIR if all are, UNFAIR if one is, otherwise UNDECIDED or
    CONSTANT.

    >>> family_conclusion(["FAIR", "UNDECIDED"])
    'UNDECIDED'
    """
    if "UNFAIR" in conclusions:
        return "UNFAIR"
    if unanswered or "UNDECIDED" in conclusions:
        return "UNDECIDED"
    return CONSTANT if CONSTANT in conclusions else "FAIR"


def family_statement(questions: int, delta: float) -> str:
    """Return the joint statement about the verdicts on several questions.

    >>> family_statement(10, 1e-6)
    'All 10 verdicts are right together with probability at least 1 - 1e-06; the delta of each question is 1e-07.'
    """
    together = f"All {questions} verdicts are right together with probability at least 1 - {delta:g}"
    return f"{together}; the delta of each question is {delta / questions:g}."


def constant_headline(label: str, measured: str) -> str:
    """Return the line after CONSTANT: the behaviour of the model, and the measured gap in the words of `headline`."""
    return f'every input that was tried got the decision "{label}", so groups cannot differ: {measured}'


def constant_note(label: str, tried: int, *, allowed: bool, recorded: bool = False) -> str:
    """Return the note about a constant model: the observation, its meaning, the remedy.

    >>> print(constant_note("no", 1200, allowed=True))
    Constant model, allowed: all 1,200 inputs that were tried got the decision "no".
    """
    what, inputs = ("Constant decisions", "rows") if recorded else ("Constant model", "inputs that were tried")
    seen = f'all {tried:,} {inputs} got the decision "{label}"' if tried else f'every input gets the decision "{label}"'
    if allowed:
        return f"{what}, allowed: {seen}."
    check = "Check the column of decisions" if recorded else "Check that inputs are scaled as the network expects"
    return CONSTANT_REFUSED.format(what=what, seen=seen, check=check)


def ignored_note(features: Sequence[str]) -> str:
    """Return the note about features that the network provably ignores.

    >>> ignored_note(["zip", "id"])
    'The network provably ignores zip, id: inputs that differ only in them were evaluated once.'
    """
    differ = "it" if len(features) == 1 else "them"
    return (
        f"The network provably ignores {', '.join(features)}: inputs that differ only in {differ} were evaluated once."
    )


def subject_of(model_sha256: str, recorded: str | None = None) -> str:
    """Return the subject of a statement: a network by its hash, another model, or recorded decisions."""
    if recorded is not None:
        return f'the decisions recorded in column "{recorded}"'
    if not model_sha256:
        return "the model that was given"
    return f"the network with sha256 {model_sha256[:16]}..."


def scope(model_sha256: str, seed: int, origin: str) -> str:
    """Return the scope of a statement about drawn inputs, its limits, and the origin of its seed."""
    return f"{_of_distribution(model_sha256)}; {seed_phrase(seed, origin, hashed=bool(model_sha256))}."


def _of_distribution(model_sha256: str) -> str:
    about = f"This is about {subject_of(model_sha256)} and that input distribution"
    return f"{about}, not about the individuals it is applied to"


def seed_phrase(seed: int, origin: str, *, hashed: bool = True) -> str:
    """Return the seed with its origin, and its protection against a dishonest issuer.

    >>> seed_phrase(7, "derived")
    'seed 7, derived from the network, the spec and its data'
    """
    if origin == "chosen":
        return f"seed {seed}, chosen: the network could have been built to pass with this seed"
    if not hashed:
        return f"seed {seed}, derived from the spec and its data only: the model has no bytes to hash"
    return f"seed {seed}, derived from the network, the spec and its data"


def rows_phrase(count: int, path: str | None, *, exact: bool, given: str | None = None, dropped: int = 0) -> str:
    """Return the population of a table: its rows themselves, or their source.

    Only the file's name is stated, because folders may be private.

    >>> rows_phrase(1200, "audit/data.csv", exact=False)
    'the distribution that the 1,200 rows of data.csv were independently drawn from'
    """
    without = f" ({dropped:,} were left out: a value is missing)" if dropped else ""
    rows = f"the {count:,} rows of {table_name(path)}{without}"
    whole = rows if exact else f"the distribution that {rows} were independently drawn from"
    return f"{whole}, among inputs with {given}" if given else whole


def dropped_note(dropped: int, rows: int, columns: Sequence[str] = ()) -> str:
    """Return the note about rows that were left out; a warning if they are more than a few.

    >>> dropped_note(3, 200, ["sex"])
    '3 of 200 rows (1.5%) were left out, as a value is missing ("sex"); the verdict says nothing about them.'
    """
    where = f" ({listed(columns)})" if columns else ""
    warning = WARNING if dropped > MANY_DROPPED * rows else ""
    were = "were" if dropped > 1 else "was"
    about = "them" if dropped > 1 else "it"
    return (
        f"{warning}{dropped:,} of {rows:,} rows ({dropped / rows:.1%}) {were} {LEFT_OUT}{where}; the "
        f"verdict says nothing about {about}."
    )


def unseen_statement(
    decision: str, *, kind: str, low: str, high: str, threshold: float, seen: int, unseen: int, population: str
) -> str:
    """Return the sentence for a whole population with unevaluated rows, for any decisions about these.

    >>> facts = {"kind": "difference", "low": "0.2", "high": "0.7", "threshold": 0.1, "population": "the rows of a.csv"}
    >>> print(unseen_statement("UNFAIR", seen=60, unseen=40, **facts)[:66])
    60 of 100 rows seen, and nothing is assumed about the other 40: un
    """
    meets = {"FAIR": "which meets", "UNFAIR": "which fails", "UNDECIDED": "which may meet or fail"}[decision]
    return (
        f"{seen:,} of {seen + unseen:,} rows seen, and nothing is assumed about the other {unseen:,}: under "
        f"{population} {measure(kind)} lies between {low} and {high}, {meets} the threshold {threshold:g}."
    )


def table_name(path: str | None) -> str:
    """Return the name of a table in statements: its file's name without folders."""
    return "the given table" if path is None else PurePath(path).name


def rows_scope(
    model_sha256: str, table_sha256: str, *, exact: bool, recorded: str | None = None, inputs: str = "individuals"
) -> str:
    """Return the scope of a statement from rows of a table, or from counted texts, and its limits."""
    rows = "texts" if inputs == "texts" else "rows"
    what = f"those {rows} only" if exact else RANDOM_SAMPLE
    return f"This is about {subject_of(model_sha256, recorded)} and {what}; {rows} with sha256 {table_sha256[:16]}..."


def odds(delta: float) -> str:
    """Return an error probability in words, rounded up.

    >>> odds(1e-6), odds(0.05), odds(3e-4)
    ('once in a million', 'once in 20', 'once in 3,333')
    """
    known = {1_000: "a thousand", 1_000_000: "a million", 10**9: "a billion"}
    times = floor(1 / delta * (1 + 1e-9))
    if times < 2:
        return f"in {delta:.0%} of cases"
    if times > 10**12:
        return f"once in {1 / delta:.0e}"
    return f"once in {known.get(times, f'{times:,}')}"


def error_in_words(verdict: str, delta: float, *, sound: bool = True) -> str:
    """Return how often an audit like this one is wrong, for readers who are not statisticians.

    >>> error_in_words("FAIR", 1e-6)
    'A test like this one wrongly says FAIR at most once in a million times.'
    """
    if not sound:
        return "The rule of the paper was used: nothing is known about how often it is wrong."
    if not delta:
        return "Nothing was sampled: the result is exact, and no chance is involved."
    if verdict in ("FAIR", "UNFAIR"):
        return f"A test like this one wrongly says {verdict} at most {odds(delta)} times."
    return "There is not enough evidence for a verdict: this is neither a pass nor a failure."

"""Modes that draw inputs: every kind of population, verdicts by betting, estimates, and the gaps of all pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cache, cached_property, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.calibration.known_truth import (
    DELTA,
    NO_YES,
    Labels,
    Plain,
    Truth,
    Values,
    as_labels,
    below,
    category,
    formula,
    mistakes,
    number,
    outside,
    rates_of,
    spec_of,
    with_rounds,
)
from benchmarks.calibration.measure import GAP, RATES, TOGETHER, Effort, Mode, Play, Wrong
from benchmarks.calibration.unsound import (
    Breaking,
    Hindsight,
    Peeking,
    deciding_by,
    exchanged,
    same_rounds_again,
    stakes_of_a_share,
)
from fairchain import Coupled, load_model, verify
from fairchain.models import Model
from fairchain.populations import functions as function
from fairchain.prepare import prepare
from fairchain.spec import Spec
from fairchain.statistics import BettingRule, estimate
from fairchain.statistics.intervals import clopper_pearson
from fairchain.verification import all_pairs
from fairchain.verification.verifier import verify_case

AT_THRESHOLD = "gap equal to the threshold"
PEEKING = "interval of one standard error, inspected after every batch", partial(deciding_by, Peeking)
HINDSIGHT = "betting pair chosen after its batch", partial(deciding_by, Hindsight)
AGAIN = "the first rounds are counted again and again", same_rounds_again
STAKES = "bets for individual discrimination, used for a difference", stakes_of_a_share
# How often each input comes in a function that does not draw independent ones.
REPEATED = 8


class Drawing:
    """One property of drawn inputs, verified with many seeds.

    Parameters
    ----------
    spec, model, truth
        The question, a Python function that decides, and what is true of it.
    function
        Draws the inputs, for a population of kind "callable".
    rounds
        The budget; None for that of the effort.
    """

    def __init__(
        self,
        spec: Spec,
        model: Any,
        truth: Truth,
        function: Callable[..., Any] | None = None,
        rounds: int | None = None,
    ) -> None:
        self.spec, self.truth = spec, truth
        self._source, self._function, self._rounds = model, function, rounds

    @cached_property
    def model(self) -> Model:
        """The model, loaded once."""
        return load_model(self._source, self.spec)

    def play(self, seed: int, effort: Effort, breaking: Breaking = nullcontext) -> Wrong:
        """Verify once, perhaps with a broken program."""
        spec = with_rounds(self.spec, self._rounds or effort.rounds)
        with breaking():
            verdict = verify(self.model, spec, population=self._function, seed=seed, workers=1)
        return mistakes(verdict, self.truth)


def mode_of(
    population: str,
    about: str,
    drawing: Drawing,
    broken: tuple[str, Breaking] = AGAIN,
    *,
    engine: str = "betting",
    truth: str = AT_THRESHOLD,
    share: float = 1.0,
) -> Mode:
    """Return the mode of a property, whose unsound variant uses a broken program."""
    variant, breaking = broken
    unsound = partial(drawing.play, breaking=breaking)
    return Mode(population, about, engine, truth, DELTA, drawing.play, variant, unsound, share)


def uniform(cutoffs: Sequence[int], about: Plain, truth: Truth | None = None, **guarantee: Any) -> Drawing:
    """Return a question about a group and one number, both drawn evenly."""
    spec = spec_of([category("g", len(cutoffs)), number()], about, **guarantee)
    return Drawing(spec, below(cutoffs), truth or Truth(about["threshold"], rates_of(cutoffs)))


def _windows(values: Values) -> Labels:
    """Say yes to no input of group 0 and to a tenth of every other group's, each to another tenth."""
    group = values[:, 0]
    return as_labels((group > 0) & (values[:, 1] // 100 == group - 1))


def windows(groups: int, **guarantee: Any) -> Drawing:
    """Return a question in which all groups but the first one have the same rate and are never selected together."""
    spec = spec_of([category("g", groups), number()], {"threshold": 0.1}, **guarantee)
    return Drawing(spec, _windows, Truth(0.1, rates_of([0, *[100] * (groups - 1)])))


def _opposite(values: Values) -> Labels:
    """Say yes to 0.55 of group 0 and to the other 0.45 of group 1."""
    return as_labels((values[:, 1] < 550) == (values[:, 0] == 0))


def _three_labels(values: Values) -> Labels:
    edges = np.array([[200, 500], [300, 500], [250, 500]])[values[:, 0].astype(int)]
    return as_labels((values[:, 1:2] >= edges).sum(axis=1))


def _by_two(values: Values) -> Labels:
    cutoffs = np.array([[400, 450], [450, 500]])[values[:, 0].astype(int), values[:, 1].astype(int)]
    return as_labels(values[:, 2] < cutoffs)


def uniform_modes() -> list[Mode]:
    """Return the properties on independent, evenly drawn features."""
    fair = {"threshold": 0.1}
    labels = spec_of([category("g", 3), number()], fair, labels=("low", "middle", "high"))
    combined = spec_of([category("g", 2), category("h", 2), number()], {"protected": ["g", "h"], **fair})
    opposite = Drawing(spec_of([category("g", 2), number()], fair), _opposite, Truth(0.1, rates_of((550, 450))))
    given = spec_of([category("g", 2), number(), number("y", 9)], {"given": "y <= 4", **fair})
    make = partial(mode_of, "uniform")
    return [
        make("difference, 2 groups", uniform((0, 100), fair), PEEKING),
        make("difference, 2 groups, rates near 1/2", uniform((450, 550), fair), PEEKING),
        make("difference, 2 groups that never agree", opposite, STAKES),
        make("difference, 9 groups, 8 tied pairs", windows(9), HINDSIGHT),
        make("difference, 20 groups, 100 tied pairs", uniform([300] * 10 + [400] * 10, fair), PEEKING),
        make("difference, 3 labels", Drawing(labels, _three_labels, Truth(0.1)), PEEKING),
        make("difference, 2 x 2 combinations", Drawing(combined, _by_two, Truth(0.1)), PEEKING, share=1.7),
        make("ratio, 3 groups", uniform((400, 500, 450), {"kind": "ratio", "threshold": 0.8}), PEEKING),
        make("ratio, small rates", uniform((40, 50), {"kind": "ratio", "threshold": 0.8}), PEEKING),
        make("individual", uniform((300, 400), {"kind": "individual", "threshold": 0.1}, Truth(0.1)), PEEKING),
        make("individual, rare", uniform((300, 350), {"kind": "individual", "threshold": 0.05}, Truth(0.05)), AGAIN),
        make("difference, given", Drawing(given, below((450, 550)), Truth(0.1, rates_of((450, 550)))), AGAIN),
        make(
            "difference to overall", uniform((0, 0, 300), {"compare": "overall", "threshold": 0.2}), PEEKING, share=1.7
        ),
    ]


# A node z says yes with these probabilities in the groups of a Bayesian network.
def _network(shares: Sequence[float], rates: Sequence[float], about: Plain) -> Drawing:
    nodes = [
        {"name": "g", "probabilities": list(shares)},
        {"name": "z", "parents": ["g"], "probabilities": {f"g{i}": [1 - p, p] for i, p in enumerate(rates)}},
    ]
    spec = spec_of([category("g", len(shares)), category("z", 2)], about, {"kind": "network", "nodes": nodes})
    known = {(f"g=g{i}", "yes"): p for i, p in enumerate(rates)}
    return Drawing(spec, _second_column, Truth(about["threshold"], known))


def _second_column(values: Values) -> Labels:
    return as_labels(values[:, 1])


def _second_of_one_group(values: Values) -> Labels:
    return as_labels(values[:, 0] * values[:, 1])


def _network_given() -> Drawing:
    nodes = [
        {"name": "g", "probabilities": [0.2, 0.8]},
        {"name": "w", "parents": ["g"], "probabilities": {"g0": [0.5, 0.5], "g1": [0.8, 0.2]}},
        {
            "name": "z",
            "parents": ["g", "w"],
            "probabilities": {"g0, w0": [0.9, 0.1], "g0, w1": [0.2, 0.8], "g1, w0": [0.8, 0.2], "g1, w1": [0.9, 0.1]},
        },
    ]
    features = [category("g", 2), category("z", 2), category("w", 2)]
    about = {"given": "w == 'w0'", "threshold": 0.1}
    spec = spec_of(features, about, {"kind": "network", "nodes": nodes})
    return Drawing(spec, _second_column, Truth(0.1, {("g=g0", "yes"): 0.1, ("g=g1", "yes"): 0.2}))


def dependent_modes() -> list[Mode]:
    """Return marginals and Bayesian networks."""
    shares = {"g": {"g0": 0.8, "g1": 0.2}, "z": {"z0": 0.9, "z1": 0.1}}
    marginals = spec_of(
        [category("g", 2), category("z", 2)], {"threshold": 0.1}, {"kind": "marginals", "frequencies": shares}
    )
    known = Truth(0.1, {("g=g0", "yes"): 0.0, ("g=g1", "yes"): 0.1})
    large = {"threshold": 0.1, "min_size": 0.1}
    make = partial(mode_of, "Bayesian network")
    return [
        mode_of("marginals", "difference, 2 groups", Drawing(marginals, _second_of_one_group, known), AGAIN),
        make("difference, 2 groups", _network((0.3, 0.7), (0.05, 0.15), {"threshold": 0.1}), PEEKING),
        make("difference, min_size", _network((0.05, 0.45, 0.5), (0.9, 0.4, 0.5), large), PEEKING, share=1.7),
        make("average", _network((0.1, 0.9), (0.0, 0.25), {"threshold": 0.1, "compare": "average"}), PEEKING),
        make("difference, given (rejection)", _network_given(), PEEKING),
    ]


def _apart(values: Values) -> Labels:
    """Say yes to 0.55 of group 0 and to the other 0.45 of group 1."""
    return as_labels(np.where(values[:, 0] == 0, values[:, 1] < 0.55, values[:, 1] >= 0.55))


def _far_apart(values: Values) -> Labels:
    """Say yes to 0.75 of group 0 and to the other 0.25 of group 1."""
    return as_labels(np.where(values[:, 0] == 0, values[:, 1] < 0.75, values[:, 1] >= 0.75))


def _nested(values: Values) -> Labels:
    """Say yes to 0.55 of group 0 and to 0.45 of group 1: a tenth of all inputs change with the group."""
    return as_labels(values[:, 1] < np.where(values[:, 0] == 0, 0.55, 0.45))


def _of_group(rng: np.random.Generator, count: int, group: str | None) -> NDArray[np.float64]:
    """Draw one number before the inputs of group 1: a shared stream is shifted against that of the other group."""
    second = group == "g=g1"
    if second:
        rng.random()
    return np.column_stack([np.full(count, second), rng.random(count)])


def _of_all(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    return np.column_stack([rng.random(count) < 0.3, rng.random(count)])


def _of_all_repeated(rng: np.random.Generator, count: int) -> NDArray[np.float64]:
    return np.repeat(_of_all(rng, -(-count // REPEATED)), REPEATED, axis=0)[:count]


def _of_uniforms(u: NDArray[np.float64], group: str | None) -> NDArray[np.float64]:
    return np.column_stack([np.full(len(u), group == "g=g1"), u[:, 0]])


def _of_few_uniforms(u: NDArray[np.float64], group: str | None) -> NDArray[np.float64]:
    """Take several inputs from the same row of uniforms, which is what the check refuses."""
    return _of_uniforms(np.repeat(u[::REPEATED], REPEATED, axis=0)[: len(u)], group)


def _one_stream() -> Any:
    """Return a context in which all groups draw from generators in the same state."""
    own = function._generator

    def shared(address: Any, _lane: int) -> np.random.Generator:
        return own(address, 0)

    return exchanged(function, "_generator", shared)


def _unchecked() -> Any:
    """Return a context in which rows of a coupled function may depend on other rows."""
    return exchanged(function.FunctionPopulation, "_check_rows", lambda *_: None)


def function_modes() -> list[Mode]:
    """Return populations that a Python function draws."""
    features = [category("g", 2), {"name": "x", "kind": "real", "low": 0, "high": 1}]
    coupled, few = (Coupled(each, uniforms=1) for each in (_of_uniforms, _of_few_uniforms))
    repeated = f"function returns every input {REPEATED} times", nullcontext
    unchecked = "inputs that depend on random numbers of other rows, without the check for this", _unchecked
    population = {"kind": "callable"}
    questions: list[tuple[str, str, Any, Any, Any, tuple[str, Breaking]]] = [
        ("f(rng, count, group)", "individual", _nested, _of_group, _of_group, AGAIN),
        ("f(rng, count)", "difference", _apart, _of_all, _of_all_repeated, repeated),
        ("f(rng, count)", "individual", _nested, _of_all, _of_all_repeated, repeated),
        ("Coupled f(u, group)", "difference", _apart, coupled, few, unchecked),
        ("Coupled f(u, group)", "individual", _nested, coupled, few, unchecked),
    ]
    modes = []
    for form, about, model, draw, wrongly, (variant, breaking) in questions:
        spec = spec_of(features, {"kind": about, "threshold": 0.1}, population)
        truth = Truth(0.1, {("g=g0", "yes"): 0.55, ("g=g1", "yes"): 0.45})
        sound, broken = (Drawing(spec, model, truth, each) for each in (draw, wrongly))
        unsound = partial(broken.play, breaking=breaking)
        modes.append(Mode(f"callable {form}", about, "betting", AT_THRESHOLD, DELTA, sound.play, variant, unsound))
    # Streams that are shared only double the variance of a sum of rounds: that takes a smaller delta, longer runs and
    # more of them to be seen. About 6% of the runs are wrong at a delta of 1%.
    spec = spec_of(features, {"threshold": 0.5}, population, delta=0.01)
    truth = Truth(0.5, {("g=g0", "yes"): 0.75, ("g=g1", "yes"): 0.25})
    sound, longer = (Drawing(spec, _far_apart, truth, _of_group, rounds) for rounds in (None, 1000))
    unsound = partial(longer.play, breaking=_one_stream)
    variant = "one stream for all groups"
    by_group = "callable f(rng, count, group)"
    modes.insert(0, Mode(by_group, "difference", "betting", AT_THRESHOLD, 0.01, sound.play, variant, unsound, share=5))
    return modes


def estimate_modes() -> list[Mode]:
    """Return estimates of everything within epsilon, to the end and cut by a budget."""
    whole, paper = (windows(9, epsilon=0.1, rule=rule) for rule in ("betting", "paper"))
    whole, paper = (Drawing(each.spec, _windows, each.truth, rounds=10**5) for each in (whole, paper))
    fine = windows(9, epsilon=0.02)
    cut = Drawing(fine.spec, _windows, fine.truth, rounds=estimate.PILOT + 200)

    def at_once(successes: Any, trials: Any, _: Any) -> Any:
        return clopper_pearson(successes, trials, DELTA)

    without_union = partial(exchanged, estimate, "probability_any_time", at_once)
    return [
        Mode(
            "uniform",
            "difference, 9 groups",
            "estimate (epsilon)",
            AT_THRESHOLD,
            DELTA,
            whole.play,
            "the paper's stopping rule",
            paper.play,
            share=0.5,
        ),
        Mode(
            "uniform",
            "difference, 9 groups",
            "estimate mode, ended by a budget",
            AT_THRESHOLD,
            DELTA,
            cut.play,
            "every interval at delta: no union over groups",
            partial(cut.play, breaking=without_union),
        ),
    ]


TEXT_TERMS = {"sun": ["sunny"], "moon": ["moony"]}


@cache
def _folder() -> TemporaryDirectory[str]:
    """Return a folder for this process, removed when it ends."""
    return TemporaryDirectory(prefix="calibration-")


@cache
def _texts(reading: str) -> Drawing:
    """Return a question about 20 texts for each group; 9 of one and 11 of the other are bad."""
    folder = Path(_folder().name)
    texts = [
        f"{term} town {'bad' if i < bad else 'good'} {i}"
        for term, bad in (("sunny", 9), ("moony", 11))
        for i in range(20)
    ]
    corpus = folder / f"{reading}.txt"
    corpus.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    features: list[Plain] = [
        {"name": "text", "kind": "text"},
        {"name": "faith", "kind": "category", "values": ["sun", "moon"], "terms": TEXT_TERMS},
    ]
    spec = spec_of(
        features,
        {"protected": ["faith"], "threshold": 0.1, "outcome": "yes"},
        {"kind": "text", "path": str(corpus), "as": reading},
    )
    known = {("faith=sun", "yes"): 0.45, ("faith=moon", "yes"): 0.55} if reading == "observed" else {}
    return Drawing(spec, _bad_text if reading == "observed" else _bad_if_moon, Truth(0.1, known))


def _bad_text(texts: Sequence[str]) -> NDArray[np.int64]:
    return np.array(["bad" in text for text in texts], np.int64)


def _bad_if_moon(texts: Sequence[str]) -> NDArray[np.int64]:
    """Say yes to 4 of the 40 texts where they mention the moon."""
    return np.array(["moony" in text and text.split()[-1] in ("0", "1") for text in texts], np.int64)


def text_modes() -> list[Mode]:
    """Return texts that mention a group, and the same text with each group's terms."""

    def play(reading: str, breaking: Breaking, seed: int, effort: Effort) -> Wrong:
        return _texts(reading).play(seed, effort, breaking)

    def mode(reading: str) -> Mode:
        variant, breaking = AGAIN
        sound, unsound = (partial(play, reading, each) for each in (nullcontext, breaking))
        return Mode(
            f"texts ({reading})", "difference, 2 groups", "betting", AT_THRESHOLD, DELTA, sound, variant, unsound
        )

    return [mode("observed"), mode("swapped")]


def _every_pair(cutoffs: Sequence[int], about: Plain) -> tuple[Any, Play]:
    drawing = uniform(cutoffs, about)

    def play(seed: int, effort: Effort, breaking: Breaking = nullcontext) -> Wrong:
        with breaking():
            case = prepare(drawing.model, with_rounds(drawing.spec, effort.rounds), seed=seed)
            verdict = verify_case(case, workers=1)
            found = all_pairs.all_pairs(case, verdict)
        assert found is not None
        missed = False
        for pair in found.pairs:
            one, other = (drawing.truth.rates[name, pair.outcome] for name in (pair.first, pair.second))
            truth = min(one, other) / max(one, other) if found.measure == "ratio" else one - other
            missed |= outside(truth, pair.low, pair.high)
        groups = [(drawing.truth.rates[group.name, group.outcome], group) for group in verdict.record.groups]
        rates = any(outside(truth, each.low, each.high) for truth, each in groups)
        gap = outside(drawing.truth.gap, verdict.gap.low, verdict.gap.high)
        return {GAP: missed or gap, RATES: rates, TOGETHER: missed or gap or rates}

    def normal(cells: Any, _: float, payoff: Any) -> Any:
        """Return a 95% interval of every pair on its own, from the normal approximation."""
        values = payoff.values(np.zeros(()))
        total = np.maximum(cells.sum(axis=-1), 1)
        mean = cells @ values / total
        error = np.sqrt(np.maximum(cells @ values**2 / total - mean**2, 0) / total)
        return mean - 1.96 * error, mean + 1.96 * error

    return play, partial(play, breaking=partial(exchanged, all_pairs, "pair_bounds", normal))


def every_pair_modes() -> list[Mode]:
    """Return intervals of all pairs at once, at the end of a verdict whose largest gap is at the threshold."""
    cutoffs = (50, 100, 150, 200, 400, 500, 550, 600)
    modes = []
    for name, about in (("difference", {"threshold": 0.55}), ("ratio", {"kind": "ratio", "threshold": 1 / 12})):
        play, unsound = _every_pair(cutoffs, about)
        variant = "normal interval of every pair on its own"
        modes.append(Mode("uniform", f"{name}, 8 groups", "every pair", "28 gaps known", DELTA, play, variant, unsound))
    play, _ = _every_pair(cutoffs, {"threshold": 0.55})

    def of_another_delta(rule: Any) -> Any:
        """Return intervals of a quarter of a standard error, which each miss with probability 0.8."""
        error = 0.25 * np.sqrt(rule.tally.rates * (1 - rule.tally.rates) / np.maximum(rule.tally.trials, 1))
        return rule.tally.rates - error, rule.tally.rates + error

    # The groups keep their intervals: only the gap is taken to be within those of another delta.
    narrowed = partial(exchanged, BettingRule, "gap", lambda rule: rule.gap_within(*of_another_delta(rule)))
    variant = "interval of the gap intersected with bounds from rates at a larger delta"
    name, unsound = "difference, 8 groups, intersected", partial(play, breaking=narrowed)
    modes.append(Mode("uniform", name, "every pair", "28 gaps known", DELTA, play, variant, unsound))
    return modes


def one_sided_modes() -> list[Mode]:
    """Return reference groups and formulas: one direction of a pair is compared, and its gap equals the threshold."""
    make = partial(mode_of, "uniform")
    behind = {"outcome": "yes", "reference": "g0"}
    four_fifths = {"kind": "ratio", "threshold": 0.8, **behind}
    overlapping = formula("P(yes | g=g0) / P(yes) >= 0.8")
    given = formula("P(yes | g=g0 and y <= 4 and x >= y) - P(yes | g=g1 and y <= 4 and x >= y) <= 0")

    def asked(cutoffs: Sequence[int], about: Plain, gap: float) -> Drawing:
        spec = spec_of([category("g", len(cutoffs)), number()], about)
        return Drawing(spec, below(cutoffs), Truth(gap))

    # 0.48 and 0.48 of the inputs with x >= y say yes, whatever y is: the model looks at x - y.
    features = [category("g", 2), number(most=103), number("y", 9)]
    selected = Drawing(spec_of(features, given), _beyond, Truth(0.0))
    return [
        make("difference to a reference group", asked((550, 450, 650), {"threshold": 0.1, **behind}, 0.1), PEEKING),
        make("ratio to a reference group", asked((500, 400, 600), four_fifths, 0.8), PEEKING),
        make("formula, difference", asked((550, 450), formula("P(yes | g=g0) - P(yes | g=g1) <= 0.1"), 0.1), PEEKING),
        make("formula, ratio of overlapping groups", asked((400, 600), overlapping, 0.8), PEEKING),
        make("formula, conditions (rejection)", selected, AGAIN),
    ]


def _beyond(values: Values) -> Labels:
    """Say yes to the same half of the x from y on in one group, and to the other half in the other group."""
    above = (values[:, 1] - values[:, 2]) % 2 == values[:, 0]
    return as_labels(above & ((values[:, 1] - values[:, 2]) < 94))


def random_modes() -> list[Mode]:
    """Return decisions that are drawn with the model's probabilities, and models that are random by themselves."""
    features, rates = [category("g", 2), number()], np.array([0.0, 0.1])
    drawn = {"labels": list(NO_YES), "decision": "random"}
    own = {"labels": list(NO_YES), "decision": "label", "codes": [0, 1], "deterministic": False}
    truth = Truth(0.1, {("g=g0", "yes"): 0.0, ("g=g1", "yes"): 0.1})
    generator = np.random.Generator(np.random.Philox(11))

    def probability(values: Values) -> NDArray[np.float64]:
        chosen: NDArray[np.float64] = rates[values[:, 0].astype(int)]
        return chosen

    def decide(values: Values) -> Labels:
        return as_labels(generator.random(len(values)) < probability(values))

    def asked(model: Plain, function: Any) -> Drawing:
        return Drawing(spec_of(features, {"threshold": 0.1}, model=model), function, truth)

    make = partial(mode_of, "uniform")
    return [
        make("difference, drawn decisions", asked(drawn, probability), AGAIN),
        make("difference, non-deterministic model", asked(own, decide), PEEKING),
    ]


def switching_modes() -> list[Mode]:
    """Return a Bayesian network whose table switches at a threshold of a normal number."""
    nodes = [
        {"name": "g", "probabilities": [0.3, 0.7]},
        {"name": "w", "mean": 0.0, "std": 1.0},
        {
            "name": "z",
            "parents": ["g", "w"],
            "switches": {"w": 0},
            "probabilities": {
                "g0, w < 0": [0.9, 0.1], "g0, w >= 0": [0.7, 0.3], "g1, w < 0": [0.8, 0.2], "g1, w >= 0": [0.6, 0.4],
            },
        },
    ]  # fmt: skip
    population = {"kind": "network", "nodes": nodes}
    spec = spec_of([category("g", 2), category("z", 2)], {"threshold": 0.1}, population)
    known = Truth(0.1, {("g=g0", "yes"): 0.2, ("g=g1", "yes"): 0.3})
    return [mode_of("Bayesian network", "difference, switching node", Drawing(spec, _second_column, known), PEEKING)]


def drawn_modes() -> list[Mode]:
    """Return all modes of this module."""
    return [
        *one_sided_modes(),
        *random_modes(),
        *switching_modes(),
        *uniform_modes(),
        *dependent_modes(),
        *function_modes(),
        *text_modes(),
        *estimate_modes(),
        *every_pair_modes(),
    ]

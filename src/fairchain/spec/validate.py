"""What several keys of a spec must agree on. Each check raises a SpecError that names the key and the remedy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from fairchain.errors import SpecError
from fairchain.messages import suggest
from fairchain.spec.conditions import predicate_of
from fairchain.spec.groups import check_groups, domain_of, groups_of
from fairchain.spec.schema import (
    BayesNetwork,
    CategoryFeature,
    Difference,
    Feature,
    Individual,
    IntegerFeature,
    Marginals,
    ModelSpec,
    Ratio,
    Scale,
    Spec,
    Table,
    TextFeature,
    Texts,
)

# One 32-bit word per integer draw: see population.streams.
MOST_VALUES = 2**32
# The largest whole number up to which doubles hold every one.
MOST_EXACT = 2**53


def check(spec: Spec) -> None:
    """Raise a SpecError for the first thing in the spec that cannot be meant."""
    _check_model(spec.model)
    _unique("feature.name", [feature.name for feature in spec.described])
    check_texts(spec)
    for feature in spec.features:
        _check_feature(feature)
    _check_property(spec)
    check_combinations(spec)
    rounds = spec.guarantee.budget.rounds
    if not math.isfinite(rounds) or rounds != int(rounds):
        raise SpecError(f"guarantee.budget.rounds: found {rounds:g}; write a whole number, for example rounds = 1e8")
    if not math.isfinite(spec.guarantee.budget.seconds):
        raise SpecError("guarantee.budget.seconds: write a finite number, for example seconds = 60")
    for feature in spec.features:
        check_groups(feature)
    groups_of(spec)


def _check_model(model: ModelSpec) -> None:
    _unique("model.labels", model.labels)
    if model.codes is not None and len(model.codes) != len(model.labels):
        raise SpecError(
            f"model.codes: {len(model.codes)} codes for {len(model.labels)} labels; give one code for each label"
        )
    if model.codes is not None:
        _unique("model.codes", model.codes)
        if any(isinstance(code, int) and not -(2**63) <= code < 2**63 for code in model.codes):
            raise SpecError("model.codes: a label lies between -2**63 and 2**63 - 1; write what the network returns")
    if model.decision_threshold is not None and model.decision not in ("logit", "probability"):
        raise SpecError(
            'model.decision_threshold: only decision = "logit" or decision = "probability" has one; state one of these'
        )
    if model.decision_threshold is not None and not math.isfinite(model.decision_threshold):
        raise SpecError(f"model.decision_threshold: found {model.decision_threshold}; write a finite number")


def _check_feature(feature: Feature) -> None:
    where = f'feature "{feature.name}"'
    if isinstance(feature, CategoryFeature):
        _unique(f"{where}.values", [str(value) for value in feature.values])
        if feature.codes is not None and feature.one_hot:
            raise SpecError(f"{where}: codes and one_hot exclude each other; keep one")
        if feature.codes is not None and len(feature.codes) != len(feature.values):
            raise SpecError(
                f"{where}.codes: {len(feature.codes)} codes for {len(feature.values)} values; give one each"
            )
        if feature.codes is not None and not all(abs(code) <= MOST_EXACT for code in feature.codes):
            raise SpecError(f"{where}.codes: every code must be a finite number, at most 2**53")
        if feature.aliases is not None:
            _unique(f"{where}.aliases", [str(cell) for cell in feature.aliases])
            if len(feature.aliases) != len(feature.values):
                raise SpecError(
                    f"{where}.aliases: {len(feature.aliases)} aliases for {len(feature.values)} values; give one each"
                )
        return
    if isinstance(feature, IntegerFeature) and feature.high - feature.low >= MOST_VALUES:
        raise SpecError(f'{where}: more than 2**32 integers; narrow the range, or use kind = "real"')
    if isinstance(feature, IntegerFeature) and max(abs(feature.low), abs(feature.high)) > MOST_EXACT:
        raise SpecError(f"{where}: integers beyond 2**53 are not exact in any network's numbers; narrow the range")
    if not (math.isfinite(feature.low) and math.isfinite(feature.high)):
        raise SpecError(f"{where}: low and high must be finite, found {feature.low} and {feature.high}")
    if feature.low > feature.high:
        raise SpecError(f"{where}: low {feature.low:g} is above high {feature.high:g}; exchange them")
    domain = domain_of(feature)
    if domain.real and feature.low == feature.high:
        raise SpecError(f"{where}: low equals high; widen the range, or make it an integer")
    if not math.isfinite(feature.high - feature.low):
        raise SpecError(f"{where}: the range is wider than any number; narrow it")
    check_preprocessing(feature)


def _check_property(spec: Spec) -> None:
    names = [feature.name for feature in spec.features]
    _unique("property.protected", spec.property.protected)
    for name in spec.property.protected:
        if name not in names:
            raise SpecError(f'property.protected: there is no feature "{name}"; {suggest(name, names)}')
    outcome = spec.property.outcome
    if outcome is not None and outcome not in spec.model.labels:
        raise SpecError(
            f'property.outcome: "{outcome}" is not one of model.labels; {suggest(outcome, spec.model.labels)}'
        )
    predicate_of(spec)


def _unique(where: str, names: Sequence[object]) -> None:
    seen: set[object] = set()
    for name in names:
        if name in seen:
            raise SpecError(f'{where}: "{name}" occurs twice; every name must be different')
        seen.add(name)


def check_combinations(spec: Spec) -> None:
    """Raise a SpecError for keys that are right by themselves and mean nothing together."""
    _check_source(spec)
    if isinstance(spec.property, Individual):
        _check_individual(spec)
    else:
        _check_rates(spec)
    _check_size(spec)
    _check_guarantee(spec)


def _check_source(spec: Spec) -> None:
    """Where people and decisions come from."""
    population = spec.population
    if isinstance(population, Marginals) and population.path is None and not population.frequencies:
        raise SpecError(
            'population: has neither path nor frequencies; name a table, path = "people.csv", or state '
            "frequencies = {sex = {Female = 0.5, Male = 0.5}}"
        )
    if isinstance(population, BayesNetwork) and (population.path is None) == (not population.nodes):
        found = "both path and nodes" if population.nodes else "neither path nor nodes"
        raise SpecError(f'population: has {found}; name a file, path = "people.bif", or state [[population.nodes]]')


def _check_individual(spec: Spec) -> None:
    population = spec.population
    if isinstance(population, Table) and population.prediction is not None:
        raise SpecError(
            'property.kind: "individual" asks the network about the same person as another group, and recorded '
            "decisions cannot be asked; remove population.prediction and give the network"
        )
    if isinstance(population, Table) and population.reading == "sample" and spec.property.min_size is not None:
        # Ignored, more groups than the user wants would be compared; used, the rows would choose their own question.
        raise SpecError(
            'property.min_size: kind = "individual" shows every row of a sample as each group, so sizes in these rows '
            "must not choose the groups; remove min_size, and name the groups to compare in groups of the [[feature]]"
        )


def _check_rates(spec: Spec) -> None:
    asked, population = spec.property, spec.population
    assert isinstance(asked, Difference | Ratio)
    if asked.criterion == "demographic_parity":
        return
    if not isinstance(population, Table):
        raise SpecError(
            f'property.criterion: "{asked.criterion}" needs people whose true label is known; '
            'use [population] kind = "table" with label = "..."'
        )
    if population.label is None:
        raise SpecError(
            f'property.criterion: "{asked.criterion}" needs the true labels; add label = "..." to [population]'
        )


def _check_size(spec: Spec) -> None:
    size = spec.property.min_size
    if size is None:
        return
    if size >= 1 and not isinstance(spec.population, Table):
        raise SpecError(
            f"property.min_size: {size:g} rows, and there is no table; write a share of the population below 1, "
            "for example min_size = 0.01"
        )
    if size > 1 and size != int(size):
        raise SpecError(f"property.min_size: found {size:g}; write a whole number of rows, or a share below 1")


def _check_guarantee(spec: Spec) -> None:
    guarantee, asked = spec.guarantee, spec.property
    if guarantee.epsilon is not None and isinstance(spec.population, Table):
        raise SpecError(
            "guarantee.epsilon: the rows there are decide how exact an answer can be; leave it out for a table"
        )
    if guarantee.epsilon is not None and isinstance(asked, Ratio) and guarantee.rule != "paper":
        raise SpecError(
            'guarantee.epsilon: estimate mode is about differences; leave it out for kind = "ratio", which comes '
            'with its interval, or use kind = "difference"'
        )
    if guarantee.rule != "paper":
        return
    plain = isinstance(asked, Difference) and asked.compare == "groups" and asked.given is None
    if not plain or isinstance(spec.population, Table):
        raise SpecError(
            'guarantee.rule: "paper" knows differences between groups of drawn people only; use rule = "betting"'
        )


# The largest whole number up to which doubles hold every one.
MOST_BINS = 10_000


def check_preprocessing(feature: Feature) -> None:
    """Raise a SpecError for the first preprocessing key of a feature that cannot be meant."""
    if isinstance(feature, CategoryFeature):
        return
    where = f'feature "{feature.name}"'
    if feature.one_hot and feature.bins is None:
        raise SpecError(
            f"{where}.one_hot: a number has no values to span inputs with; state its bins = [...] too, "
            'or make it kind = "category"'
        )
    if feature.bins is not None:
        if feature.step is not None or feature.scale is not None:
            other = "step" if feature.step is not None else "scale"
            raise SpecError(f"{where}: bins and {other} exclude each other; keep one")
        _check_bins(f"{where}.bins", feature.bins)
    if feature.step is not None:
        _check_step(f"{where}.step", feature.step, max(abs(feature.low), abs(feature.high)))
    if feature.scale is not None:
        _check_scale(f"{where}.scale", feature.scale)


def _check_bins(where: str, edges: tuple[float, ...]) -> None:
    if not edges:
        raise SpecError(f"{where}: no edges; list at least one, for example bins = [25, 40, 60]")
    if len(edges) > MOST_BINS:
        raise SpecError(f"{where}: {len(edges)} edges are more than {MOST_BINS}; use step = ... for even bins")
    for edge in edges:
        if not abs(edge) <= MOST_EXACT:
            raise SpecError(f"{where}: found {edge}; every edge must be a finite number, at most 2**53")
    for one, other in pairwise(edges):
        if one >= other:
            raise SpecError(f"{where}: {other:g} follows {one:g}; write every edge once, the smallest first")


def _check_step(where: str, step: float, largest: float) -> None:
    if not math.isfinite(step):
        raise SpecError(f"{where}: found {step}; write a finite number, for example step = 10")
    if not largest / step <= MOST_EXACT:
        raise SpecError(f"{where}: {step:g} fits more than 2**53 times into the feature's range; write a larger step")


def _check_scale(where: str, scale: Scale) -> None:
    given = {key for key in ("mean", "std", "low", "high") if getattr(scale, key) is not None}
    if given not in ({"mean", "std"}, {"low", "high"}):
        found = ", ".join(key for key in ("mean", "std", "low", "high") if key in given) or "nothing"
        raise SpecError(
            f"{where}: found {found}; write both of {{mean = ..., std = ...}} or both of {{low = ..., high = ...}}"
        )
    for key in sorted(given):
        if not math.isfinite(getattr(scale, key)):
            raise SpecError(f"{where}.{key}: found {getattr(scale, key)}; write a finite number")
    if scale.low is not None and scale.high is not None:
        if scale.high <= scale.low:
            raise SpecError(f"{where}: high {scale.high:g} is not above low {scale.low:g}; what is low becomes 0")
        if not math.isfinite(scale.high - scale.low):
            raise SpecError(f"{where}: the range is wider than any number; narrow it")


# Names of the value that a text has which mentions none of the others.
NOBODY = ("none", "others", "other", "nobody")


def check_texts(spec: Spec) -> None:
    """Raise a SpecError for the first thing about texts that cannot be meant."""
    texts = [feature for feature in spec.described if isinstance(feature, TextFeature)]
    mentioned = [f for f in spec.features if isinstance(f, CategoryFeature) and f.terms is not None]
    if not texts:
        _check_no_texts(spec, mentioned)
        return
    if len(texts) > 1:
        raise SpecError(f'feature "{texts[1].name}": is a second text, and a network reads one; keep one')
    _check_text(texts[0])
    others = [feature for feature in spec.features if feature not in mentioned]
    if others:
        raise SpecError(
            f'feature "{others[0].name}": beside a text stand only features that say who is mentioned in it; add '
            'terms = "religion" (or race, gender, a file or a table of words)'
        )
    if not isinstance(spec.population, Texts):
        raise SpecError('population.kind: a text is drawn from a corpus; write kind = "text" with path or dataset')
    for feature in mentioned:
        _check_mentioned(feature)
    _check_corpus(spec.population)
    _check_question(spec)


def _check_no_texts(spec: Spec, mentioned: list[CategoryFeature]) -> None:
    if isinstance(spec.population, Texts):
        raise SpecError('population.kind: "text" needs a text for the network to read; add a [[feature]] of that kind')
    if mentioned:
        raise SpecError(
            f'feature "{mentioned[0].name}".terms: there is no text to look for them in; add a [[feature]] with '
            'kind = "text"'
        )


def _check_text(feature: TextFeature) -> None:
    where = f'feature "{feature.name}"'
    if (feature.vectors is None) == (feature.vocabulary is None):
        found = "neither vectors nor vocabulary" if feature.vectors is None else "both vectors and vocabulary"
        raise SpecError(
            f'{where}: has {found}; write vectors = "glove" (or a file) if the network takes vectors of words, '
            'vocabulary = "words.txt" if it takes their numbers'
        )


def _check_mentioned(feature: CategoryFeature) -> None:
    where = f'feature "{feature.name}"'
    for key in ("codes", "aliases", "missing", "column", "input"):
        if getattr(feature, key) is not None:
            raise SpecError(f"{where}.{key}: who is mentioned is read off the text; remove it")
    if feature.one_hot:
        raise SpecError(f"{where}.one_hot: the network gets the text alone; remove it")
    if isinstance(feature.terms, dict):
        for value in feature.terms:
            if value != "neutral" and value not in map(str, feature.values):
                raise SpecError(f'{where}.terms: "{value}" is not one of its values; add it there, or remove its words')


def _check_corpus(corpus: Texts) -> None:
    if (corpus.path is None) == (corpus.dataset is None):
        found = "neither path nor dataset" if corpus.path is None else "both path and dataset"
        raise SpecError(f'population: has {found}; name a file, path = "texts.csv", or write dataset = "toxicity"')
    if (corpus.synonyms == "wordnet") != (corpus.wordnet is not None):
        remedy = 'name its folder: wordnet = "/usr/share/wordnet"' if corpus.wordnet is None else "remove one"
        raise SpecError(f'population.wordnet: goes together with synonyms = "wordnet"; {remedy}')


def _check_question(spec: Spec) -> None:
    asked = spec.property
    if asked.given is not None:
        raise SpecError("property.given: a text has no values to put conditions on; leave it out, or cut the corpus")
    if isinstance(asked, Difference | Ratio):
        if asked.criterion != "demographic_parity":
            raise SpecError(
                f'property.criterion: "{asked.criterion}" needs true labels, and texts are compared without them; '
                "keep only the texts of one true label in the corpus, and leave it out"
            )
        return
    if isinstance(spec.population, Texts) and spec.population.reading != "swapped":
        raise SpecError(
            'property.kind: "individual" asks about the same text as each group; write as = "swapped" in [population]'
        )

"""Consistency checks between keys of a spec. Each check raises a SpecError that names the key and the remedy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from fairchain.errors import SpecError
from fairchain.messages import doubled, near, unknown
from fairchain.spec.feature_keys import CategoryFeature, IntegerFeature, RealFeature, Scale, TextFeature
from fairchain.spec.groups import groups_of, groups_of_feature, reference_group
from fairchain.spec.population_keys import BayesNetwork, Marginals, Table, Texts, Uniform
from fairchain.spec.properties import shows_same_individual
from fairchain.spec.property_keys import Difference, Individual, ProbabilityFormula, Ratio
from fairchain.spec.schema import ModelSpec, Spec

DECLARED_RANDOM = "needs decisions that follow from the text, and the model is declared random (deterministic = false)"
RANDOM_IS_NOT_EXACT = (
    "model.deterministic: the rates of a random model are not known exactly from one decision for each row; write "
    'as = "sample", or decision = "random" with the probabilities'
)
COLUMN_NOT_SWAPPED = (
    'property.protected: "{name}" is a column, and as = "swapped" exchanges terms in the text; write as = "observed", '
    "or give the feature terms"
)
# One 32-bit word per integer draw: see populations.streams.
MOST_FEATURE_VALUES = 2**32
# Doubles represent every integer up to this one.
MOST_EXACT = 2**53
MOST_BINS = 10_000
NUL_IN_LABEL = "model.{key}: contains a NUL character, which arrays of texts lose at the end of a text; remove it"
TOO_WIDE = "the range is wider than any number; narrow it"
# Names of the value of a text that mentions none of the other values.
NONE_VALUES = ("none", "others", "other", "nobody")
TERMS_NEED_TEXT = 'feature "{name}".terms: the spec has no text; add a [[feature]] with kind = "text"'
NO_TEXT_FEATURE = 'population.kind: "text" needs a text for the network to read; add a [[feature]] of that kind'
MIN_SIZE_OF_INDIVIDUAL = (
    'property.min_size: kind = "individual" shows every row of a sample as each group, so the sizes of groups in '
    "these rows must not select groups; remove min_size, and name the groups to compare in groups of the [[feature]]"
)
SHIFT_OF_WITHOUT_SHIFT = "property.shift_of: has no effect without shift; state the factor: shift = 2.0"
SHIFT_REFUSED = "property.shift: {why}; leave shift out, and see the verdict's tipping factor"
ONLY_ASSUMED = "property.shift: {what} is about the assumed population alone; leave shift out, or use verify or check"


def check_spec(spec: Spec) -> None:
    """Raise a SpecError for the first invalid key of a spec."""
    _check_model(spec.model)
    _unique("feature.name", [feature.name for feature in spec.described])
    _check_texts(spec)
    for feature in spec.features:
        if isinstance(feature, CategoryFeature):
            _check_category(feature)
        else:
            _check_number(feature)
    _check_property(spec)
    _check_population(spec)
    _check_guarantee(spec)
    _check_shift(spec)
    for feature in spec.features:
        if feature.groups:
            groups_of_feature(feature)
    reference_group(spec, groups_of(spec))


def _unique(where: str, names: Sequence[object]) -> None:
    if (twice := doubled(names)) is not None:
        raise SpecError(f'{where}: "{twice}" occurs twice; every name must be different')


def _one_for_each(where: str, key: str, listed: Sequence[object] | None, noun: str, owners: Sequence[object]) -> None:
    """Raise an error unless a list, if given, has one entry for each label or value."""
    if listed is not None and len(listed) != len(owners):
        raise SpecError(f"{where}.{key}: {len(listed)} {key} for {len(owners)} {noun}; give one for each")


def refuse_nul(model: ModelSpec) -> None:
    """Raise a SpecError if a label or a code contains a character that numpy drops: two labels could become one."""
    for key, names in (("labels", model.labels), ("codes", model.codes or ())):
        if any("\0" in str(name) for name in names):
            raise SpecError(NUL_IN_LABEL.format(key=key))


def _check_model(model: ModelSpec) -> None:
    _unique("model.labels", model.labels)
    _one_for_each("model", "codes", model.codes, "labels", model.labels)
    _unique("model.codes", model.codes or ())
    refuse_nul(model)
    if any(isinstance(code, int) and not -(2**63) <= code < 2**63 for code in model.codes or ()):
        raise SpecError(
            "model.codes: a label must be between -2**63 and 2**63 - 1; write the labels that the network returns"
        )
    if model.decision == "random" and model.codes is not None:
        raise SpecError('model.codes: decision = "random" reads probabilities, not labels; remove one of the two')
    threshold = model.decision_threshold
    if threshold is not None and model.decision not in ("logit", "probability", "score"):
        raise SpecError(
            'model.decision_threshold: only decision = "logit", "probability" or "score" has one; state one of these'
        )
    if threshold is None and model.decision == "score":
        raise SpecError(
            'model.decision: a "score" has no natural decision threshold; state the score above which the second label '
            "is decided: decision_threshold = ..."
        )
    if threshold is not None and not math.isfinite(threshold):
        raise SpecError(f"model.decision_threshold: found {threshold}; write a finite number")


def _check_category(feature: CategoryFeature) -> None:
    where = f'feature "{feature.name}"'
    _unique(f"{where}.values", [str(value) for value in feature.values])
    if feature.codes is not None and feature.one_hot:
        raise SpecError(f"{where}: codes and one_hot exclude each other; keep one")
    _one_for_each(where, "codes", feature.codes, "values", feature.values)
    if not all(abs(code) <= MOST_EXACT for code in feature.codes or ()):
        raise SpecError(f"{where}.codes: every code must be a finite number, at most 2**53")
    _unique(f"{where}.aliases", [str(cell) for cell in feature.aliases or ()])
    _one_for_each(where, "aliases", feature.aliases, "values", feature.values)


def _check_number(feature: IntegerFeature | RealFeature) -> None:
    where, low, high = f'feature "{feature.name}"', feature.low, feature.high
    if isinstance(feature, IntegerFeature) and high - low >= MOST_FEATURE_VALUES:
        raise SpecError(f'{where}: more than 2**32 integers; narrow the range, or use kind = "real"')
    if isinstance(feature, IntegerFeature) and max(abs(low), abs(high)) > MOST_EXACT:
        raise SpecError(f"{where}: integers beyond 2**53 are not exact in any network's numbers; narrow the range")
    if not (math.isfinite(low) and math.isfinite(high)):
        raise SpecError(f"{where}: low and high must be finite, found {low} and {high}")
    if low > high:
        raise SpecError(f"{where}: low {low:g} is above high {high:g}; exchange them")
    if isinstance(feature, RealFeature) and low == high:
        raise SpecError(f"{where}: low equals high; widen the range, or make it an integer")
    if not math.isfinite(high - low):
        raise SpecError(f"{where}: {TOO_WIDE}")
    _check_encoding(where, feature)


def _check_encoding(where: str, feature: IntegerFeature | RealFeature) -> None:
    """Check the encoding of a number: step, bins, scale or one-hot."""
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
        if not math.isfinite(feature.step):
            raise SpecError(f"{where}.step: found {feature.step}; write a finite number, for example step = 10")
        if not max(abs(feature.low), abs(feature.high)) / feature.step <= MOST_EXACT:
            raise SpecError(
                f"{where}.step: {feature.step:g} fits more than 2**53 times into the feature's range; write a larger "
                "step"
            )
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


def _check_scale(where: str, scale: Scale) -> None:
    stated = {key: value for key in scale.__struct_fields__ if (value := getattr(scale, key)) is not None}
    if tuple(stated) not in (("mean", "std"), ("low", "high")):
        raise SpecError(
            f"{where}: found {', '.join(stated) or 'nothing'}; write both of {{mean = ..., std = ...}} or both of "
            "{low = ..., high = ...}"
        )
    for key, value in stated.items():
        if not math.isfinite(value):
            raise SpecError(f"{where}.{key}: found {value}; write a finite number")
    if scale.low is not None and scale.high is not None:
        if scale.high <= scale.low:
            raise SpecError(
                f"{where}: high {scale.high:g} must be above low {scale.low:g}, because low becomes 0 and high "
                "becomes 1"
            )
        if not math.isfinite(scale.high - scale.low):
            raise SpecError(f"{where}: {TOO_WIDE}")


def _check_property(spec: Spec) -> None:
    names = [feature.name for feature in spec.features]
    if isinstance(spec.property, ProbabilityFormula):
        if spec.text is not None:
            raise SpecError(
                'property.kind: "formula" needs conditions on features, and a text has none; use another kind'
            )
        return
    _unique("property.protected", spec.property.protected)
    for name in spec.property.protected:
        if name not in names:
            raise SpecError(f"property.protected: {unknown('feature', name, names)}")
    outcome = spec.property.outcome
    if outcome is not None and outcome not in spec.model.labels:
        raise SpecError(f'property.outcome: "{outcome}" is not one of model.labels; {near(outcome, spec.model.labels)}')
    if spec.property.given is not None:
        from fairchain.spec.conditions import predicate_of

        predicate_of(spec)
    if isinstance(spec.property, Difference | Ratio) and spec.property.reference is not None:
        if spec.property.compare != "groups":
            raise SpecError(
                "property.reference: groups are compared with one group or with the overall population; remove "
                f'reference, or compare = "{spec.property.compare}"'
            )
        if outcome is None:
            raise SpecError(
                "property.reference: no group may be worse off than the reference, so the favourable label must be "
                f'known; name it: outcome = "{spec.model.labels[-1]}"'
            )


def _check_shift(spec: Spec) -> None:
    """Check that a question with `shift` is supported."""
    prop, guarantee = spec.property, spec.guarantee
    if not isinstance(prop, Difference | Ratio) or (prop.shift is None and prop.shift_of == "each_group"):
        return
    if prop.shift is None:
        raise SpecError(SHIFT_OF_WITHOUT_SHIFT)
    alike, why = prop.shift_of == "all_groups_alike", ""
    if prop.criterion != "demographic_parity":
        why = f'criterion = "{prop.criterion}" compares parts of groups, which cannot shift separately'
    elif prop.compare != "groups":
        why = f'compare = "{prop.compare}" compares groups with a population that they belong to'
    elif spec.model.decision == "random" or not spec.model.deterministic:
        why = "needs decisions that follow from the input"
    elif guarantee.epsilon is not None or guarantee.rule == "paper":
        why = "needs a verdict with a guarantee, neither estimate mode (epsilon) nor the rule of the paper"
    elif guarantee.engine == "bounds":
        why = 'engine = "bounds" does not support it'
    elif alike and isinstance(prop, Ratio):
        why = 'shift_of = "all_groups_alike" is about differences'
    elif alike and not shows_same_individual(spec):
        why = 'shift_of = "all_groups_alike" needs inputs that are each shown as every group'
    elif alike and guarantee.engine not in ("auto", "sampling"):
        why = 'shift_of = "all_groups_alike" needs engine = "sampling"'
    if why:
        raise SpecError(SHIFT_REFUSED.format(why=why))


def refuse_shift(spec: Spec, what: str) -> None:
    """Raise a SpecError if a question is about shifted populations, but the answer would ignore the shift."""
    if spec.property.shift is not None:
        raise SpecError(ONLY_ASSUMED.format(what=what))


def _check_population(spec: Spec) -> None:
    """Check the sources of inputs and decisions, and whether they fit the property."""
    prop, population = spec.property, spec.population
    if isinstance(population, Marginals) and population.path is None and not population.frequencies:
        raise SpecError(
            'population: has neither path nor frequencies; name a table, path = "data.csv", or state '
            "frequencies = {sex = {Female = 0.5, Male = 0.5}}"
        )
    if isinstance(population, BayesNetwork) and bool(population.path) == bool(population.nodes):
        found = "both path and nodes" if population.path else "neither path nor nodes"
        raise SpecError(f'population: has {found}; name a file, path = "population.bif", or state [[population.nodes]]')
    table = population if isinstance(population, Table) else None
    if isinstance(prop, Individual):
        if table is not None and table.prediction is not None:
            raise SpecError(
                'property.kind: "individual" needs decisions about one individual as each group, which recorded '
                "decisions do not contain; remove population.prediction and give the network"
            )
        if table is not None and table.reading == "sample" and prop.min_size is not None:
            # If it were ignored, more groups would be compared than the user wants; if it were used, the rows would
            # select their own groups.
            raise SpecError(MIN_SIZE_OF_INDIVIDUAL)
    elif (
        isinstance(prop, Difference | Ratio)
        and prop.criterion != "demographic_parity"
        and getattr(population, "label", None) is None
    ):
        kind = "text" if isinstance(population, Texts) else "table"
        raise SpecError(
            f'property.criterion: "{prop.criterion}" needs the true labels; use [population] kind = "{kind}" with '
            'label = "..."'
        )
    if not spec.model.deterministic:
        if isinstance(prop, Individual):
            raise SpecError(
                'model.deterministic: kind = "individual" is not defined if decisions change at random; use '
                '"difference" or "ratio", or decision = "random" with the probabilities'
            )
        if table is not None and table.reading == "population":
            raise SpecError(RANDOM_IS_NOT_EXACT)
    size = prop.min_size
    if size is not None and size >= 1 and table is None and not isinstance(population, Texts):
        raise SpecError(
            f"property.min_size: {size:g} rows, and there is no table; write a share of the population below 1, "
            "for example min_size = 0.01"
        )
    if size is not None and size > 1 and size != int(size):
        raise SpecError(f"property.min_size: found {size:g}; write a whole number of rows, or a share below 1")


def no_bounds(spec: Spec) -> str:
    """Return the reason why branch and bound cannot answer a question about drawn inputs; empty if it can."""
    if not isinstance(spec.population, Uniform | Marginals):
        kind = spec.population.__struct_config__.tag
        return f'needs independent features, and those of population.kind = "{kind}" may be dependent'
    if isinstance(spec.property, ProbabilityFormula):
        return "takes no formula"
    if spec.property.given is not None:
        return "does not support conditions (property.given)"
    if getattr(spec.property, "reference", None) is not None:
        return "does not support a reference group"
    if spec.model.decision == "random" or not spec.model.deterministic:
        return "needs decisions that follow from the input"
    if spec.guarantee.budget.evaluations is not None:
        return "does not support a budget of evaluations"
    return ""


def _check_guarantee(spec: Spec) -> None:
    guarantee, prop, is_table = spec.guarantee, spec.property, isinstance(spec.population, Table)
    if guarantee.epsilon is not None and is_table:
        raise SpecError(
            "guarantee.epsilon: the number of rows of a table determines the width of intervals; leave it out"
        )
    if guarantee.epsilon is not None and isinstance(prop, Ratio) and guarantee.rule != "paper":
        raise SpecError(
            'guarantee.epsilon: estimate mode is about differences; leave it out for kind = "ratio", which comes '
            'with its interval, or use kind = "difference"'
        )
    one_sided = isinstance(prop, ProbabilityFormula) or getattr(prop, "reference", None) is not None
    if guarantee.epsilon is not None and one_sided:
        raise SpecError(
            "guarantee.epsilon: estimate mode compares groups with each other; leave it out for a formula or a "
            "reference group, which come with their interval"
        )
    plain = isinstance(prop, Difference) and prop.compare == "groups" and prop.given is None and not one_sided
    if guarantee.rule == "paper" and (is_table or not plain):
        raise SpecError(
            'guarantee.rule: "paper" covers only differences between groups of drawn inputs; use rule = "betting"'
        )
    if guarantee.rule == "paper" and guarantee.engine == "enumeration":
        raise SpecError(
            'guarantee.engine: "enumeration" has no stopping rule, so rule = "paper" has no effect; remove one'
        )
    if guarantee.rule == "paper" and guarantee.engine == "bounds":
        raise SpecError('guarantee.engine: "bounds" is sound, and rule = "paper" is not; remove one')
    kind = type(spec.population).__struct_config__.tag
    finite = isinstance(spec.population, Uniform | Marginals | BayesNetwork | Table)
    if guarantee.engine == "enumeration" and not finite:
        raise SpecError(
            f'guarantee.engine: "enumeration" cannot list the inputs of population.kind = "{kind}"; leave engine out'
        )
    if guarantee.engine == "bounds" and not is_table and (why := no_bounds(spec)):
        raise SpecError(f'guarantee.engine: "bounds" {why}; leave engine out')
    if guarantee.engine == "counting" and not is_table and (why := _not_counted(spec)):
        raise SpecError(f'guarantee.engine: "counting" {why}; leave engine out')
    rounds = guarantee.budget.rounds
    if not math.isfinite(rounds) or rounds != int(rounds):
        raise SpecError(f"guarantee.budget.rounds: found {rounds:g}; write a whole number, for example rounds = 1e8")
    if not math.isfinite(guarantee.budget.seconds):
        raise SpecError("guarantee.budget.seconds: write a finite number, for example seconds = 60")


def _not_counted(spec: Spec) -> str:
    """Return the reason why the inputs of a population that is not a table cannot be counted; empty if they can."""
    if not isinstance(spec.population, Texts):
        kind = type(spec.population).__struct_config__.tag
        return f'is for the rows of a table and the texts of a corpus, and population.kind = "{kind}" has none'
    if not spec.model.deterministic:
        return DECLARED_RANDOM
    if spec.population.replace:
        return "needs finitely many texts, and words are replaced at random (population.replace)"
    return ""


def may_count(spec: Spec) -> bool:
    """Return whether all inputs of a corpus can be counted."""
    return isinstance(spec.population, Texts) and not _not_counted(spec) and spec.guarantee.rule != "paper"


def _check_texts(spec: Spec) -> None:
    texts = [feature for feature in spec.described if isinstance(feature, TextFeature)]
    mentioned = [f for f in spec.features if isinstance(f, CategoryFeature) and f.terms is not None]
    if not texts:
        if isinstance(spec.population, Texts):
            raise SpecError(NO_TEXT_FEATURE)
        if mentioned:
            raise SpecError(TERMS_NEED_TEXT.format(name=mentioned[0].name))
        return
    if len(texts) > 1:
        raise SpecError(
            f'feature "{texts[1].name}": is a second text, and a network reads only one; remove one of them'
        )
    _check_text(texts[0])
    for feature in mentioned:
        _check_mentioned(feature)
    for other in spec.features:
        if other not in mentioned and other.model_input:
            raise SpecError(
                f'feature "{other.name}": the model gets only the text; add terms = "religion" (or race, gender, a '
                "file or a table of words) if texts mention its values, or model_input = false if it is a column "
                "beside the texts"
            )
    if not isinstance(spec.population, Texts):
        raise SpecError('population.kind: a text is drawn from a corpus; write kind = "text" with path or dataset')
    _check_corpus(spec, spec.population, texts[0], [feature.name for feature in mentioned])


def _check_corpus(spec: Spec, corpus: Texts, text: TextFeature, mentioned: Sequence[str]) -> None:
    """Check the corpus, and the property against the features that a text mentions and the columns beside it."""
    if corpus.path is not None and corpus.dataset is not None:
        raise SpecError("population: has both path and dataset; keep one")
    if (corpus.synonyms == "wordnet") != (corpus.wordnet is not None):
        remedy = 'name its folder: wordnet = "/usr/share/wordnet"' if corpus.wordnet is None else "remove one"
        raise SpecError(f'population.wordnet: belongs to synonyms = "wordnet"; {remedy}')
    if corpus.replace and text.raw:
        raise SpecError(
            "population.replace: synonyms need a list of words, and this model gets whole texts; leave it out, or "
            "state vectors or vocabulary in the [[feature]]"
        )
    prop = spec.property
    if isinstance(prop, Individual) and corpus.reading != "swapped":
        raise SpecError(
            'property.kind: "individual" compares the same text as each group; write as = "swapped" in [population]'
        )
    beside = {feature.name for feature in spec.features}.difference(mentioned)
    if corpus.reading == "swapped" and not isinstance(prop, ProbabilityFormula):
        for name in prop.protected:
            if name in beside:
                raise SpecError(COLUMN_NOT_SWAPPED.format(name=name))
    if prop.given is not None:
        from fairchain.spec.conditions import given_features

        for name in given_features(spec):
            if name in mentioned:
                raise SpecError(
                    f'property.given: the text determines "{name}", and may mention several values; use conditions '
                    "on columns beside the texts: a [[feature]] with model_input = false"
                )


def _check_text(text: TextFeature) -> None:
    where = f'feature "{text.name}"'
    if text.vectors is not None and text.vocabulary is not None:
        raise SpecError(
            f'{where}: has both vectors and vocabulary; write vectors = "glove" (or a file) if the network takes '
            'vectors of words, vocabulary = "words.txt" if it takes their numbers'
        )
    if not text.raw and text.length is None:
        raise SpecError(f"{where}: has no length; state how many words the network reads, for example length = 60")
    if text.raw:
        defaults = TextFeature(name=text.name)
        for key in ("length", "pad", "unknown", "padding", "layout", "lengths", "mask", "input"):
            if getattr(text, key) != getattr(defaults, key):
                raise SpecError(
                    f"{where}.{key}: belongs to vectors or vocabulary, and without them the model gets the text as it "
                    'is; remove it, or state vectors = "glove" (or a file) for a network of word vectors, '
                    'vocabulary = "words.txt" for one of word numbers'
                )


def _check_mentioned(feature: CategoryFeature) -> None:
    where = f'feature "{feature.name}"'
    for key in ("codes", "aliases", "missing", "column", "input"):
        if getattr(feature, key) is not None:
            raise SpecError(f"{where}.{key}: the text determines which groups it mentions; remove this key")
    if feature.one_hot:
        raise SpecError(f"{where}.one_hot: the network gets only the text; remove it")
    for value in feature.terms if isinstance(feature.terms, dict) else ():
        if value != "neutral" and value not in map(str, feature.values):
            raise SpecError(f'{where}.terms: "{value}" is not one of its values; add it there, or remove its words')

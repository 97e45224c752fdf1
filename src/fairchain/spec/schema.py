"""The shape of a spec: frozen, strict structs that TOML and JSON are converted into.

Only what one key can be checked for on its own is here; what several keys must agree on is in `validate`, and what
the groups of a spec are is in `groups`. The JSON Schema for editors is made from these same structs (`load`).
Annotations are evaluated here, with the module, and not by name when the first spec is read, which takes longer.
"""

import builtins
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from fairchain.statements import shifted_populations

if TYPE_CHECKING:
    from fairchain.spec.formulas import Shape

Fraction = Annotated[float, Meta(gt=0, lt=1)]
Positive = Annotated[float, Meta(gt=0)]
Text = Annotated[str, Meta(min_length=1)]
Number = int | float
# Cells of a table that mean "not known", besides the empty one.
NA_VALUES = ("?", "NA", "N/A", "NaN", "nan", "null", "None")
# Words of a text that a network may read.
MOST_WORDS = 10_000


def doc(description: str, **limits: Any) -> Meta:
    """Return the description of a key for the reference and for editors, with the limits of its values."""
    return Meta(description=description, **limits)


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all parts of a spec: frozen, and a key that is not declared is an error."""


class Members(_Strict, frozen=True, kw_only=True):
    """One group of a feature in long form: a set of values, or a range with both ends."""

    values: Annotated[tuple[Number | str, ...] | None, doc("The values of the group.")] = None
    low: Annotated[Number | None, doc("Lowest value of the group.")] = None
    high: Annotated[Number | None, doc("Highest value of the group.")] = None


# A number or a name is one value; a list is a range [low, high] of numbers or a set of names.
GroupExpr = Number | str | tuple[Number | str, ...] | Members


class _Feature(_Strict, frozen=True, kw_only=True):
    name: Annotated[Text, doc("Name of the feature in groups, conditions and results.")]
    input: Annotated[Text | None, doc("Name of the network's input that takes this feature, if there are several.")] = (
        None
    )
    groups: Annotated[
        dict[str, GroupExpr], doc("Named groups: a value, a range [low, high], a list of names, or {values = [...]}.")
    ] = {}
    model_input: Annotated[
        bool, doc("Whether the model takes this feature; false if it only defines groups or conditions.")
    ] = True
    column: Annotated[Text | None, doc("Column of this feature in a table, if it differs from the name.")] = None
    missing: Annotated[
        Number | str | None,
        doc("Value that replaces an empty cell of a table; without it, such a row is an error."),
    ] = None


class Scale(_Strict, frozen=True, kw_only=True):
    """Scaling of a number for the network: (x - mean) / std, or (x - low) / (high - low)."""

    mean: Annotated[float | None, doc("Mean, which is subtracted first.")] = None
    std: Annotated[Positive | None, doc("Standard deviation, by which the difference is divided.")] = None
    low: Annotated[float | None, doc("Number that becomes 0.")] = None
    high: Annotated[float | None, doc("Number that becomes 1.")] = None


class _Number(_Feature, frozen=True, kw_only=True):
    """A number in the user's own units, and how it is encoded for the network."""

    clip: Annotated[bool, doc("Replace values of a table beyond low and high by these limits.")] = False
    step: Annotated[
        Positive | None, doc("The network gets the number of whole steps: with step = 10, age 39 becomes 3.")
    ] = None
    bins: Annotated[
        tuple[Number, ...] | None,
        doc("The network gets the number of these edges that are at most the value: 0, 1, 2, ..."),
    ] = None
    one_hot: Annotated[bool, doc("One network input for each of the bins.")] = False
    scale: Annotated[Scale | None, doc("Scaling of the number before the network gets it.")] = None


class IntegerFeature(_Number, tag_field="kind", tag="integer", frozen=True, kw_only=True):
    """Whole numbers from low to high, both ends included."""

    low: Annotated[int, doc("Lowest value, included.")]
    high: Annotated[int, doc("Highest value, included.")]


class RealFeature(_Number, tag_field="kind", tag="real", frozen=True, kw_only=True):
    """Real numbers between low and high."""

    low: Annotated[float, doc("Lower end.")]
    high: Annotated[float, doc("Upper end.")]


class CategoryFeature(_Feature, tag_field="kind", tag="category", frozen=True, kw_only=True):
    """One of several named values, encoded 0, 1, ... unless `codes` says otherwise."""

    values: Annotated[tuple[Text | int, ...], doc("Names of the values, in order.", min_length=1)]
    codes: Annotated[
        tuple[Number, ...] | None, doc("Number that the network gets for each value, in the same order.")
    ] = None
    one_hot: Annotated[bool, doc("One network input for each value: 1 for the given value, otherwise 0.")] = False
    aliases: Annotated[
        tuple[Text | int, ...] | None, doc("Names of the values in a table, in the same order, if they differ.")
    ] = None
    terms: Annotated[
        Text | dict[str, tuple[Text, ...]] | None,
        doc(
            "Words by which a text mentions each value: religion, race or gender, a .toml or .json file, "
            "or a table. Such a feature is not an input of the network: model_input is false."
        ),
    ] = None

    def __post_init__(self) -> None:
        """Set `model_input` to False for a feature with terms: it is read off the text, and has no input."""
        if self.terms is not None:
            msgspec.structs.force_setattr(self, "model_input", False)


class TextFeature(_Strict, tag_field="kind", tag="text", frozen=True, kw_only=True):
    """A text. The model gets it as it is, unless `vectors` or `vocabulary` state that the model takes words.

    The other keys belong to these two.
    """

    name: Annotated[Text, doc("Name of the text in results.")]
    input: Annotated[Text | None, doc("The network's input that takes the words, if it has several.")] = None
    length: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_WORDS)] | None,
        doc("Number of words that the network reads; longer texts are truncated. Needed with vectors or vocabulary."),
    ] = None
    vectors: Annotated[
        Text | None, doc("The network takes word vectors: glove, or a file (.txt, .vec, .bin, .npy beside its words).")
    ] = None
    vocabulary: Annotated[
        Text | None, doc("The network takes numbers of words: a file whose line i, from 0, is the word with number i.")
    ] = None
    pad: Annotated[Literal["right", "left"], doc("The end at which a short text is padded.")] = "right"
    unknown: Annotated[
        Text, doc("skip: words that are not in the list are left out; or the word that replaces them.")
    ] = "skip"
    padding: Annotated[
        Text | None, doc("For a vocabulary: the word whose number pads short texts; found by its name if absent.")
    ] = None
    layout: Annotated[
        Literal["batch", "time"] | None,
        doc("First axis of the network's input; found by trials if absent."),
    ] = None
    lengths: Annotated[
        Text | None, doc("The network's input for the number of words; found by its shape if absent.")
    ] = None
    mask: Annotated[
        Text | None, doc("The network's input with 1 for a word and 0 for padding; found by its shape if absent.")
    ] = None

    @builtins.property
    def raw(self) -> bool:
        """Whether the model gets the texts as they are: no list of words is stated."""
        return self.vectors is None and self.vocabulary is None

    @builtins.property
    def steps(self) -> int:
        """The number of words that a network reads."""
        assert self.length is not None
        return self.length


# What has values of its own to draw; a text is drawn from a corpus.
Feature = IntegerFeature | RealFeature | CategoryFeature
Decision = Literal["argmax", "logit", "probability", "score", "label", "random"]


class ModelSpec(_Strict, frozen=True, kw_only=True):
    """The network, and how its output becomes a decision."""

    path: Annotated[
        Text | None, doc("The network's file, relative to the spec file; none for recorded predictions.")
    ] = None
    labels: Annotated[tuple[Text, ...], doc("Names of the classes, in order.", min_length=2)]
    output: Annotated[Text | None, doc("The output to read, if there are several.")] = None
    decision: Annotated[
        Decision | None,
        doc(
            "argmax: the largest of several columns; logit, probability, score: one column, where a logit is "
            "positive for the second label, and a probability is that of the second label (of two columns, the "
            "second one is read); label: the class label itself; random: the label is drawn with the "
            "probabilities that the network gives, in one column for the second label or in one column for each "
            "label."
        ),
    ] = None
    deterministic: Annotated[
        bool,
        doc(
            "false for a non-deterministic function or service: verdicts about drawn inputs, or about the "
            "population of a sample, include its randomness, and a recheck repeats the question with fresh draws."
        ),
    ] = True
    decision_threshold: Annotated[
        float | None,
        doc("The second label is decided above this logit (default 0), probability (0.5) or score (no default)."),
    ] = None
    codes: Annotated[
        tuple[int | str, ...] | None,
        doc("Names of the labels in a table and in the output of a network that returns labels."),
    ] = None


class Uniform(_Strict, tag_field="kind", tag="uniform", frozen=True, kw_only=True):
    """Every feature independent and uniform over its range."""


class _Rows(_Strict, frozen=True, kw_only=True):
    """Rows of a CSV or Parquet file, and which of their cells count as missing."""

    na_values: Annotated[tuple[str, ...], doc("Cells that count as missing, in addition to empty cells.")] = NA_VALUES
    drop_missing: Annotated[bool, doc("Leave out rows in which a value that is used is missing.")] = False


# [low, high, share]: this share of the population lies, evenly, between low and high.
Piece = tuple[Number, Number, float]


class Marginals(_Rows, tag_field="kind", tag="marginals", frozen=True, kw_only=True):
    """Every feature independent, with the frequencies of a table's column or those stated here."""

    path: Annotated[Text | None, doc("Table whose columns give the frequencies.")] = None
    frequencies: Annotated[
        dict[str, dict[str, float] | tuple[Piece, ...]],
        doc("For a feature, the share of each value, or pieces [low, high, share] of a number."),
    ] = {}


class Table(_Rows, tag_field="kind", tag="table", rename={"reading": "as"}, frozen=True, kw_only=True):
    """Rows of a table: the whole population, or a sample of a larger population."""

    path: Annotated[Text | None, doc("CSV or Parquet file; absent if the rows are passed in Python.")] = None
    reading: Annotated[
        Literal["population", "sample"],
        doc(
            "population: the rows are the whole population, and the answer is exact; sample: they are drawn from "
            "a larger one."
        ),
    ]
    label: Annotated[Text | None, doc("Column with the true labels.")] = None
    prediction: Annotated[
        Text | None,
        doc("Column with recorded decisions, or with scores if decision is score; it replaces the network."),
    ] = None
    keep_missing: Annotated[
        bool,
        doc(
            "Give missing values to the model, which must accept them. This does not keep rows that lack a label "
            "or a value of the protected features or of given."
        ),
    ] = False


class Node(_Strict, frozen=True, kw_only=True):
    """A node of a Bayesian network: a table of probabilities, a normal number, or an expression of its parents."""

    name: Annotated[Text, doc("Name of a feature, or a new name for a node that is not a feature.")]
    parents: Annotated[tuple[Text, ...], doc("Nodes on which this node depends.")] = ()
    values: Annotated[
        tuple[Text | int, ...] | None, doc("Names of the values, if the node is not a feature of that name.")
    ] = None
    probabilities: Annotated[
        tuple[float, ...] | dict[str, tuple[float, ...]] | None,
        doc('Without parents a list; else one for each combination of the parents: "Female, White".'),
    ] = None
    mean: Annotated[
        float | dict[str, float] | None, doc("Mean of a number; one for each combination of discrete parents.")
    ] = None
    std: Annotated[
        float | dict[str, float] | None,
        doc("Standard deviation of a number; one for each combination of discrete parents."),
    ] = None
    slopes: Annotated[dict[str, float], doc("Change of the mean for each unit of a numeric parent.")] = {}
    switches: Annotated[
        dict[str, Number | tuple[Number, ...]],
        doc(
            "Thresholds of numeric parents at which the node switches: switches = {age = 40}; the keys of its entries "
            'are then "age < 40" and "age >= 40".'
        ),
    ] = {}
    value: Annotated[
        Text | None,
        doc('Expression that computes the node from its parents: value = "max(age, years + 16)".'),
    ] = None


class BayesNetwork(_Strict, tag_field="kind", tag="network", frozen=True, kw_only=True):
    """A Bayesian network over the features, stated here or in a file."""

    path: Annotated[Text | None, doc("A .bif, .json or .toml file with the nodes.")] = None
    nodes: Annotated[tuple[Node, ...], doc("The nodes, if they are stated here.")] = ()
    name: Annotated[Text | None, doc("Name of the network in verdicts; by default the name of its file.")] = None


class Texts(_Rows, tag_field="kind", tag="text", rename={"reading": "as"}, frozen=True, kw_only=True):
    """Texts of a corpus: texts that mention a group, or the same text shown with the terms of each group."""

    path: Annotated[
        Text | None,
        doc(
            "A .txt file with one text per line, or a .csv, .tsv or .jsonl file; absent if texts are passed in Python."
        ),
    ] = None
    dataset: Annotated[Literal["toxicity"] | None, doc("A corpus of `fairchain data`, instead of path.")] = None
    column: Annotated[Text | None, doc("The column, or key, that contains the texts.")] = None
    pair_by: Annotated[
        Text | None,
        doc("A column, or key, by which the texts of a round are matched, which reduces the number of rounds."),
    ] = None
    label: Annotated[Text | None, doc("The column, or key, with the true labels of the texts.")] = None
    reading: Annotated[
        Literal["observed", "swapped"],
        doc("observed: texts that mention the group; swapped: one text, shown with the terms of each group."),
    ]
    replace: Annotated[
        int, doc("Largest number of words of a text that are replaced by synonyms; 0 for none.", ge=0, le=100)
    ] = 0
    synonyms: Annotated[
        Literal["vectors", "wordnet"], doc("Words with the nearest vectors, or of the same synset of WordNet.")
    ] = "vectors"
    neighbours: Annotated[int, doc("Largest number of synonyms among which a replacement is drawn.", ge=1, le=100)] = 8
    wordnet: Annotated[Text | None, doc("Folder of WordNet 3.0: index.noun, data.noun, ...")] = None
    show_texts: Annotated[
        bool, doc("Quote texts in full; else offensive words and personal data are masked, and long texts shortened.")
    ] = False
    mask_words: Annotated[tuple[Text, ...], doc("Further words that are masked where texts are quoted.")] = ()


class Callable(_Strict, tag_field="kind", tag="callable", frozen=True, kw_only=True):
    """Inputs drawn by a Python function, which is named in Python or on the command line, never in a spec."""


Population = Uniform | Marginals | Table | BayesNetwork | Texts | Callable


class _Property(_Strict, frozen=True, kw_only=True):
    protected: Annotated[
        tuple[Text, ...],
        doc("Features whose groups are compared; if there are several, their combinations.", min_length=1),
    ]
    outcome: Annotated[Text | None, doc("The label whose rates are compared; every label if absent.")] = None
    given: Annotated[
        Text | None, doc("Only individuals for whom this holds: given = \"hours >= 40 and education == 'Masters'\".")
    ] = None
    min_size: Annotated[
        Positive | None, doc("Leave out smaller groups: a number of rows or, below 1, a share of the population.")
    ] = None
    depth: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        doc(
            "With several protected features: ask one question for each combination of at most this many "
            "features; without it, one question about the combinations of all."
        ),
    ] = None


class _Rates(_Property, frozen=True, kw_only=True):
    criterion: Annotated[
        Literal["demographic_parity", "equal_opportunity", "equalized_odds"],
        doc("Inputs whose rates are compared: all inputs, or those with the same true label."),
    ] = "demographic_parity"
    compare: Annotated[
        Literal["groups", "overall", "average"],
        doc(
            "Compare groups with each other, each group with the overall population, or the mean of all groups with it."
        ),
    ] = "groups"
    reference: Annotated[
        Text | dict[str, Text | int] | None,
        doc(
            'The group with which every other group is compared, in one direction: no group may be worse off. "Male", '
            '"sex=Male & race=White", or {sex = "Male", race = "White"}; needs outcome, the favourable label.'
        ),
    ] = None
    shift: Annotated[
        Annotated[float, Meta(gt=1, le=1000)] | None,
        doc(
            "Ask for a verdict over every population in which no input is more than this many times as frequent, "
            "or as rare, as assumed: shift = 2.0. Without it, the verdict is about the assumed population alone."
        ),
    ] = None
    shift_of: Annotated[
        Literal["each_group", "all_groups_alike"],
        doc(
            "What shift changes: the inputs of each group separately, or the individuals that are shown as every group."
        ),
    ] = "each_group"

    def _formula(self, relation: str) -> str:
        group, label = " & ".join(self.protected), self.outcome or "l"
        given = f", {self.given}" if self.given else ""
        truth = {"equal_opportunity": f", truth={label}", "equalized_odds": ", truth=t"}.get(self.criterion, "")
        overall = f"P(Y={label}{f' | {(truth + given)[2:]}' if truth or given else ''})"
        one, other = (f"P(Y={label} | {group}={each}{truth}{given})" for each in "ij")
        quantified = ["i", "j"]
        if self.reference is not None:
            # A one-sided ratio has the reference below, a difference has it first.
            named = self.reference
            if not isinstance(named, str):
                named = " & ".join(f"{name}={value}" for name, value in named.items())
            one = f"P(Y={label} | {named if '=' in named else f'{group}={named}'}{truth}{given})"
            other, quantified = f"P(Y={label} | {group}=i{truth}{given})", ["i"]
        elif self.compare == "overall":
            other, quantified = overall, ["i"]
        elif self.compare == "average":
            one, other, quantified = f"mean over i of {one}", overall, []
        quantified = ["l"] * (self.outcome is None) + ["t"] * (self.criterion == "equalized_odds") + quantified
        scope = f"for all {', '.join(quantified)}: " if quantified else ""
        formula = scope + relation.format(one=one, other=other)
        if self.shift is None:
            return formula
        return f"{formula}, for {shifted_populations('every population', self.shift, self.shift_of)}"


class Difference(_Rates, tag_field="kind", tag="difference", frozen=True, kw_only=True):
    """The largest difference of P(outcome) between two groups is at most the threshold."""

    threshold: Annotated[Fraction, doc("The largest difference that still counts as fair.")]

    def __str__(self) -> str:
        """Return the property as a formula."""
        difference = "|{one} - {other}|" if self.reference is None else "{one} - {other}"
        return self._formula(f"{difference} <= {self.threshold:g}")


class Ratio(_Rates, tag_field="kind", tag="ratio", frozen=True, kw_only=True):
    """The smallest ratio of P(outcome) between two groups is at least the threshold: 0.8 for the four-fifths rule."""

    threshold: Annotated[Fraction, doc("The smallest ratio that still counts as fair.")]

    def __str__(self) -> str:
        """Return the property as a formula."""
        if self.reference is not None:
            return self._formula(f"{{other}} / {{one}} >= {self.threshold:g}")
        form = self._formula(f"{{one}} / {{other}} >= {self.threshold:g}")
        return form if self.compare == "groups" else f"{form}, and the inverse"


class Individual(_Property, tag_field="kind", tag="individual", frozen=True, kw_only=True):
    """The share of individuals whose decision changes with the protected features alone is at most the threshold."""

    threshold: Annotated[Fraction, doc("The largest share of individuals that still counts as fair.")]
    shift = None  # what other properties state in a key of their own

    def __str__(self) -> str:
        """Return the property as a formula."""
        label = f"[Y={self.outcome}]" if self.outcome else "Y"
        given = f" | {self.given}" if self.given else ""
        return f"P({label} changes with {' & '.join(self.protected)} alone{given}) <= {self.threshold:g}"


class ProbabilityFormula(_Strict, tag_field="kind", tag="formula", frozen=True, kw_only=True):
    """A comparison of two conditional probabilities, written as a formula (see `formulas`)."""

    formula: Annotated[
        Text,
        doc('The comparison: formula = "P(hired | sex=F and qualified) / P(hired | sex=M and qualified) >= 0.8".'),
    ]
    # What other properties state in keys of their own.
    given = min_size = depth = shift = None

    @builtins.property
    def outcome(self) -> str:
        """The label whose probabilities are compared."""
        return self._shape.first.label

    @builtins.property
    def threshold(self) -> float:
        """The number of the canonical form: the largest fair difference, or the smallest fair ratio."""
        return float(self._shape.threshold)

    @builtins.property
    def measure(self) -> Literal["difference", "ratio"]:
        """Whether the two probabilities are compared by their difference or by their ratio."""
        return self._shape.measure

    @builtins.property
    def _shape(self) -> "Shape":
        from fairchain.spec.formulas import shape_of

        return shape_of(self.formula)

    def __str__(self) -> str:
        """Return the property as a formula."""
        return self.formula


Property = Difference | Ratio | Individual | ProbabilityFormula


class Budget(_Strict, frozen=True, kw_only=True):
    """The largest number of rounds, of evaluations and of seconds."""

    rounds: Annotated[
        float, doc("Largest number of rounds; in each round, one individual is shown as every group.", ge=1)
    ] = 1e8
    seconds: Annotated[
        float,
        doc(
            "Largest wall-clock time in seconds, including loading the model; rows of a table are counted to the end.",
            gt=0,
        ),
    ] = 60.0
    evaluations: Annotated[
        Annotated[float, Meta(ge=1)] | None,
        doc("Largest number of decisions of the model; rows of a table are then evaluated in random order."),
    ] = None


class Guarantee(_Strict, frozen=True, kw_only=True):
    """Error probability, accuracy, stopping rule and budget."""

    delta: Annotated[float, doc("Largest probability of a wrong verdict.", ge=1e-100, lt=1)] = 1e-6
    epsilon: Annotated[
        Annotated[float, Meta(ge=1e-9, lt=0.5)] | None,
        doc("Estimate mode: continue until every probability and every gap is known within epsilon."),
    ] = None
    refine: Annotated[
        Annotated[float, Meta(ge=1e-4, lt=0.5)] | None,
        doc(
            "After the verdict, continue until the half width of every interval is at most this, for at most as "
            "many evaluations as take about 0.2 s (computed from the size of the network). Only for sampled ONNX "
            "networks."
        ),
    ] = None
    engine: Annotated[
        Literal["auto", "sampling", "enumeration", "bounds", "counting"],
        doc(
            "Engine for inputs that are not rows of a table: sampling, enumeration of all inputs if they are "
            "finitely many, or bounds by branch and bound for ReLU networks; auto chooses the cheapest. The rows "
            "of a table are always counted."
        ),
    ] = "auto"
    rule: Annotated[
        Literal["betting", "paper"], doc("betting is sound; paper is the rule of the paper, which is not sound.")
    ] = "betting"
    seed: Annotated[
        Annotated[int, Meta(ge=0, le=2**63 - 1)] | None,
        doc(
            "Chosen seed of the random numbers. By default the seed is derived from the network, the spec and the"
            " data, so that a network cannot be fitted to it."
        ),
    ] = None
    budget: Annotated[Budget, doc("The largest number of rounds, of evaluations and of seconds.")] = Budget()
    allow_constant: Annotated[bool, doc("Accept a model that gives the same decision to every tested input.")] = False


class About(_Strict, frozen=True, kw_only=True):
    """Facts about the audit for the report and the model card. They change neither the verdict nor the seed."""

    model_name: Annotated[Text | None, doc("Name of the model.")] = None
    model_version: Annotated[Text | None, doc("Version of the model.")] = None
    provider: Annotated[Text | None, doc("Who provides the model.")] = None
    intended_purpose: Annotated[Text | None, doc("What the model is used for.")] = None
    auditor: Annotated[Text | None, doc("Who carried out the audit.")] = None
    independence: Annotated[Text | None, doc("How the auditor is related to the provider.")] = None
    audit_date: Annotated[Text | None, doc("Date of the audit, as text; the computer's clock is not used.")] = None
    data_source: Annotated[Text | None, doc("Where the data come from; whether they are historical or test data.")] = (
        None
    )
    data_period: Annotated[Text | None, doc("The period in which the data were collected.")] = None
    threshold_reason: Annotated[Text | None, doc("Reason for this threshold.")] = None
    population_reason: Annotated[Text | None, doc("Reason for this population.")] = None
    legal_context: Annotated[Text | None, doc("The rule or law that the audit is made for.")] = None
    seeds_tried: Annotated[Text | None, doc("Number of seeds with which the question was tried, and the reason.")] = (
        None
    )
    monitoring: Annotated[Text | None, doc("How the model is monitored after the audit: a link or a sentence.")] = None
    signature: Annotated[Text | None, doc("Who signs the report.")] = None


class Spec(_Strict, rename={"described": "feature"}, frozen=True, kw_only=True):
    """A whole question: the network, its inputs, the groups, the threshold and the error probability.

    `described` has every [[feature]]. `features` are those with values, one column each in the drawn inputs; `text` is
    the text, if the network reads one.
    """

    model: ModelSpec
    described: Annotated[tuple[Feature | TextFeature, ...], Meta(min_length=1)]
    property: Property
    population: Population = Uniform()
    guarantee: Guarantee = Guarantee()
    about: About | None = None

    @builtins.property
    def features(self) -> tuple[Feature, ...]:
        """The features that have values; for texts, those that define which group a text mentions."""
        return tuple(feature for feature in self.described if not isinstance(feature, TextFeature))

    @builtins.property
    def protected(self) -> tuple[str, ...]:
        """The features whose values define a group; for a formula, those with a single value in it."""
        if not isinstance(self.property, ProbabilityFormula):
            return self.property.protected
        from fairchain.spec.formulas import formula_groups

        return formula_groups(self.property, self.features, self.model.labels).protected

    @builtins.property
    def text(self) -> TextFeature | None:
        """The text that the network reads, if it reads one."""
        return next((feature for feature in self.described if isinstance(feature, TextFeature)), None)

    @builtins.property
    def inputs(self) -> str:
        """The word for the inputs in sentences: individuals or texts."""
        return "individuals" if self.text is None else "texts"

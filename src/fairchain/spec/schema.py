"""The tables of a spec: frozen, strict structs into which TOML and JSON are converted.

The model, the guarantee and the facts about an audit are here; features, population and property have separate modules.
These structs check single keys; `validate` checks relations between keys, and `groups` determines the groups of a spec.
The JSON Schema for editors is generated from the same structs (`load`).
"""

import builtins
from typing import Annotated, Literal

from msgspec import Meta

from fairchain.spec.feature_keys import Feature, TextFeature
from fairchain.spec.keys import Strict, Text, doc
from fairchain.spec.population_keys import PopulationSpec, Uniform
from fairchain.spec.property_keys import ProbabilityFormula, Property

DecisionKind = Literal["argmax", "logit", "probability", "score", "label", "random"]


class ModelSpec(Strict, frozen=True, kw_only=True):
    """The network, and the rule that turns its output into a decision."""

    path: Annotated[
        Text | None, doc("The network's file, relative to the spec file; none for recorded predictions.")
    ] = None
    labels: Annotated[tuple[Text, ...], doc("Names of the classes, in order.", min_length=2)]
    output: Annotated[Text | None, doc("The output to read, if there are several.")] = None
    decision: Annotated[
        DecisionKind | None,
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


class Budget(Strict, frozen=True, kw_only=True):
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


class Guarantee(Strict, frozen=True, kw_only=True):
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


class About(Strict, frozen=True, kw_only=True):
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


class Spec(Strict, rename={"described": "feature"}, frozen=True, kw_only=True):
    """A whole question: the network, its inputs, the groups, the threshold and the error probability.

    `described` has every [[feature]]. `features` are those with values, one column each in the drawn inputs; `text` is
    the text, if the network reads one.
    """

    model: ModelSpec
    described: Annotated[tuple[Feature | TextFeature, ...], Meta(min_length=1)]
    property: Property
    population: PopulationSpec = Uniform()
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

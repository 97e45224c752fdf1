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
    """The model, and the rule that turns its output into a decision."""

    path: Annotated[
        Text | None, doc("File of the model, relative to the spec file. Leave out this key for recorded decisions.")
    ] = None
    labels: Annotated[tuple[Text, ...], doc("Names of the labels, in the order of the classes.", min_length=2)]
    output: Annotated[Text | None, doc("Name of the output to read, if the network has several outputs.")] = None
    decision: Annotated[
        DecisionKind | None,
        doc(
            "Meaning of the output. By default, fairchain infers the meaning, and asks for this key if the output is "
            "ambiguous. argmax: one column for each label, and the largest value decides. logit, probability, score: "
            "one column, whose value belongs to the second label and is compared with `decision_threshold`. For "
            "probability, the output may have two columns, and the first column is ignored. label: the output is the "
            "label. random: the label is drawn with the probabilities in the output, which has one column for the "
            "second label or one column for each label."
        ),
    ] = None
    deterministic: Annotated[
        bool,
        doc(
            "Set false for a non-deterministic function or service. The verdict then includes the randomness of the "
            "model. A recheck answers the question again, with fresh draws or with new answers about the same rows."
        ),
    ] = True
    decision_threshold: Annotated[
        float | None,
        doc(
            "The model decides for the second label if the logit (default 0), the probability (default 0.5) or the "
            "score (no default) is above this number."
        ),
    ] = None
    codes: Annotated[
        tuple[int | str, ...] | None,
        doc(
            "Codes of the labels, in the order of `labels`. A code is the value that a table, or the output of a "
            "network that returns labels, contains instead of the name of the label."
        ),
    ] = None


class Budget(Strict, frozen=True, kw_only=True):
    """The largest number of rounds, of evaluations and of seconds."""

    rounds: Annotated[
        float,
        doc(
            "Largest number of rounds. A round is one joint draw that is shown to the model once for every group, or "
            "only for selected groups.",
            ge=1,
        ),
    ] = 1e8
    seconds: Annotated[
        float,
        doc(
            "Largest wall-clock time in seconds, including the time to load the model. This limit does not apply to "
            "the rows of a table.",
            gt=0,
        ),
    ] = 60.0
    evaluations: Annotated[
        Annotated[float, Meta(ge=1)] | None,
        doc(
            "Largest number of evaluations of the model. If a table has more rows, a random part of the rows is "
            "evaluated."
        ),
    ] = None


class Guarantee(Strict, frozen=True, kw_only=True):
    """The error probability, the width of the intervals, the algorithm, the stopping rule and the budget."""

    delta: Annotated[float, doc("Largest probability of a wrong verdict.", ge=1e-100, lt=1)] = 1e-6
    epsilon: Annotated[
        Annotated[float, Meta(ge=1e-9, lt=0.5)] | None,
        doc(
            "Estimate mode: continue until the half width of the interval of every probability and every gap is at "
            "most epsilon."
        ),
    ] = None
    refine: Annotated[
        Annotated[float, Meta(ge=1e-4, lt=0.5)] | None,
        doc(
            "After the verdict, continue sampling until the half width of every interval is at most this number. The "
            "further sampling takes at most about 0.2 s, because the size of the network determines a limit for the "
            "evaluations. The key has no effect if no inputs are sampled, or if the model is not an ONNX network. By "
            "default, `fairchain verify`, `fairchain demo` and audits use 0.01, but `fairchain check` and the Python "
            "function `verify` stop at the verdict."
        ),
    ] = None
    engine: Annotated[
        Literal["auto", "sampling", "enumeration", "bounds", "counting"],
        doc(
            "Algorithm that answers the question. sampling: draw inputs. counting: evaluate every row of a table, or "
            "every text of a corpus. enumeration: evaluate all inputs, if their number is finite. bounds: branch and "
            "bound, for ReLU networks. auto: choose the cheapest algorithm. For a table, fairchain always uses "
            "counting."
        ),
    ] = "auto"
    rule: Annotated[
        Literal["betting", "paper"],
        doc(
            "Stopping rule. The rule betting is sound. The rule paper, which the original paper proposes, is not sound."
        ),
    ] = "betting"
    seed: Annotated[
        Annotated[int, Meta(ge=0, le=2**63 - 1)] | None,
        doc(
            "Chosen seed of the random numbers. By default, the seed is derived from the model, the spec and the data, "
            "so that a model cannot be fitted to a known seed."
        ),
    ] = None
    budget: Annotated[Budget, doc("The largest number of rounds, of evaluations and of seconds.")] = Budget()
    allow_constant: Annotated[bool, doc("Accept a model that gives the same decision to every tested input.")] = False


class About(Strict, frozen=True, kw_only=True):
    """Facts about the audit, for the report and the model card. These facts do not change the verdict or the seed."""

    model_name: Annotated[Text | None, doc("Name of the model.")] = None
    model_version: Annotated[Text | None, doc("Version of the model.")] = None
    provider: Annotated[Text | None, doc("Provider of the model.")] = None
    intended_purpose: Annotated[Text | None, doc("Purpose of the model.")] = None
    auditor: Annotated[Text | None, doc("Person or organisation that carried out the audit.")] = None
    independence: Annotated[Text | None, doc("Relation of the auditor to the provider.")] = None
    audit_date: Annotated[Text | None, doc("Date of the audit, as a text. The computer's clock is not used.")] = None
    data_source: Annotated[
        Text | None, doc("Source of the data, and whether they are historical data or test data.")
    ] = None
    data_period: Annotated[Text | None, doc("Period in which the data were collected.")] = None
    threshold_reason: Annotated[Text | None, doc("Reason for this threshold.")] = None
    population_reason: Annotated[Text | None, doc("Reason for this population.")] = None
    legal_context: Annotated[Text | None, doc("Rule or law for which the audit is made.")] = None
    seeds_tried: Annotated[Text | None, doc("Number of seeds with which the question was tried, and the reason.")] = (
        None
    )
    monitoring: Annotated[Text | None, doc("Monitoring of the model after the audit, as a link or a sentence.")] = None
    signature: Annotated[Text | None, doc("Name of the person who signs the report.")] = None


class Spec(Strict, rename={"described": "feature"}, frozen=True, kw_only=True):
    """One question: the model, its inputs, the groups, the threshold and the error probability.

    `described` contains every [[feature]].
    """

    model: ModelSpec
    described: Annotated[tuple[Feature | TextFeature, ...], Meta(min_length=1)]
    property: Property
    population: PopulationSpec = Uniform()
    guarantee: Guarantee = Guarantee()
    about: About | None = None

    @builtins.property
    def features(self) -> tuple[Feature, ...]:
        """All features except texts. If the inputs are texts, each feature has terms, or is a column of the corpus."""
        return tuple(feature for feature in self.described if not isinstance(feature, TextFeature))

    @builtins.property
    def protected(self) -> tuple[str, ...]:
        """The features whose values define a group. For a formula: each discrete feature that is the only feature in
        a part of a condition, such as `sex` in the part `sex=Female`.
        """
        if not isinstance(self.property, ProbabilityFormula):
            return self.property.protected
        from fairchain.spec.formulas import formula_groups

        return formula_groups(self.property, self.features, self.model.labels).protected

    @builtins.property
    def text(self) -> TextFeature | None:
        """The text that the network reads, or None."""
        return next((feature for feature in self.described if isinstance(feature, TextFeature)), None)

    @builtins.property
    def inputs(self) -> str:
        """The word for the inputs in sentences: individuals or texts."""
        return "individuals" if self.text is None else "texts"

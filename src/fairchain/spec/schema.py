"""The shape of a spec: frozen, strict structs that TOML and JSON are converted into.

Only what one key can be checked for on its own stands here; what several keys must agree on is in `check`, and
what the groups of a spec are is in `groups`. The JSON Schema for editors is made from these same structs.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Fraction = Annotated[float, Meta(gt=0, lt=1)]
Text = Annotated[str, Meta(min_length=1)]
Number = int | float


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A key that is not declared is an error, and nothing can be changed afterwards."""


class Members(_Strict, frozen=True, kw_only=True):
    """One group of a feature in long form: a set of values, or a range with both ends."""

    values: Annotated[tuple[Number | str, ...] | None, Meta(description="The values that belong to it.")] = None
    low: Annotated[Number | None, Meta(description="Lowest value that belongs to it.")] = None
    high: Annotated[Number | None, Meta(description="Highest value that belongs to it.")] = None


# A number or a name is one value; a list is a range [low, high] of numbers or a set of names.
GroupExpr = Number | str | tuple[Number | str, ...] | Members


class _Feature(_Strict, frozen=True, kw_only=True):
    name: Text
    input: Annotated[
        Text | None,
        Meta(description="The network's input that takes this feature, if it has one per feature."),
    ] = None
    groups: Annotated[
        dict[str, GroupExpr],
        Meta(description="Named groups: a value, a range [low, high], a list of names, or {values = [...]}."),
    ] = {}


class IntegerFeature(_Feature, tag_field="kind", tag="integer", frozen=True, kw_only=True):
    """Whole numbers from low to high, both ends included."""

    low: int
    high: int


class RealFeature(_Feature, tag_field="kind", tag="real", frozen=True, kw_only=True):
    """Real numbers between low and high."""

    low: float
    high: float


class CategoryFeature(_Feature, tag_field="kind", tag="category", frozen=True, kw_only=True):
    """One of several named values, encoded 0, 1, ... unless `codes` says otherwise."""

    values: Annotated[tuple[Text | int, ...], Meta(min_length=1)]
    codes: Annotated[
        tuple[Number, ...] | None,
        Meta(description="What the network gets for each value, in the same order."),
    ] = None
    one_hot: Annotated[bool, Meta(description="One network input per value, 1 for the value and 0 else.")] = False


Feature = IntegerFeature | RealFeature | CategoryFeature
Decision = Literal["argmax", "logit", "probability", "label"]


class ModelSpec(_Strict, frozen=True, kw_only=True):
    """Which network, and how its output becomes a decision."""

    path: Annotated[Text, Meta(description="The ONNX file, relative to the spec file.")]
    labels: Annotated[tuple[Text, ...], Meta(min_length=2, description="Names of the classes, in order.")]
    output: Annotated[Text | None, Meta(description="The output to read, where there are several.")] = None
    decision: Annotated[
        Decision | None,
        Meta(
            description="argmax of several columns; one column as logit (positive is the second label) or as "
            "probability of the second label; or the class label itself."
        ),
    ] = None
    cut: Annotated[float | None, Meta(description="Where logit or probability changes the decision.")] = None
    codes: Annotated[
        tuple[int | str, ...] | None,
        Meta(description="What the network calls each label, if it returns labels."),
    ] = None


class Uniform(_Strict, tag_field="kind", tag="uniform", frozen=True, kw_only=True):
    """Every feature independent and uniform over its range."""


class Difference(_Strict, tag_field="kind", tag="difference", frozen=True, kw_only=True):
    """The largest difference of P(outcome) between two groups stays within the threshold."""

    protected: Annotated[tuple[Text, ...], Meta(min_length=1)]
    threshold: Annotated[Fraction, Meta(description="The largest difference that still counts as fair.")]
    outcome: Annotated[Text | None, Meta(description="The label looked at; every label if absent.")] = None

    def __str__(self) -> str:
        """The property as a formula."""
        group = " & ".join(self.protected)
        label = self.outcome or "l"
        scope = "for all i, j" if self.outcome else "for all l, i, j"
        return f"{scope}: |P(Y={label} | {group}=i) - P(Y={label} | {group}=j)| <= {self.threshold:g}"


class Budget(_Strict, frozen=True, kw_only=True):
    """Where to stop without a verdict."""

    rounds: Annotated[float, Meta(ge=1)] = 1e8
    seconds: Annotated[float, Meta(gt=0)] = 60.0


class Guarantee(_Strict, frozen=True, kw_only=True):
    """How sure to be, how exact, by which rule, and at what cost."""

    delta: Annotated[float, Meta(ge=1e-100, lt=1, description="Probability of a wrong verdict, at most.")] = 1e-6
    epsilon: Annotated[
        Annotated[float, Meta(ge=1e-9, lt=0.5)] | None,
        Meta(description="Estimate mode: go on until every probability and gap is known within epsilon."),
    ] = None
    rule: Annotated[
        Literal["betting", "paper"],
        Meta(description="betting is sound; paper is the literature's rule, which is not."),
    ] = "betting"
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    budget: Budget = Budget()


class Spec(_Strict, rename={"features": "feature"}, frozen=True, kw_only=True):
    """A whole question: this network, these inputs, these groups, this threshold, this sure."""

    model: ModelSpec
    features: Annotated[tuple[Feature, ...], Meta(min_length=1)]
    property: Difference
    population: Uniform = Uniform()
    guarantee: Guarantee = Guarantee()


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a spec file, for editors that complete and check while one types."""
    schema = msgspec.json.schema(Spec)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "fairchain spec", **schema}

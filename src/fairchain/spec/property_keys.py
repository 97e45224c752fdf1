"""The property of a spec, [property]: one struct for each kind, printed as its formula.

The meaning of a property for counts and gaps is in `properties`.
"""

import builtins
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta

from fairchain.spec.keys import Positive, Strict, Text, doc
from fairchain.statements import shifted_populations

if TYPE_CHECKING:
    from fairchain.spec.formulas import Shape

Threshold = Annotated[float, Meta(gt=0, lt=1)]


class _Property(Strict, frozen=True, kw_only=True):
    protected: Annotated[
        tuple[Text, ...],
        doc(
            "Features that define the groups. If there are several features, the groups are their combinations.",
            min_length=1,
        ),
    ]
    outcome: Annotated[Text | None, doc("Label that the property is about, by default every label.")] = None
    given: Annotated[
        Text | None,
        doc("Compare only individuals that meet this condition: given = \"hours >= 40 and education == 'Masters'\"."),
    ] = None
    min_size: Annotated[
        Positive | None,
        doc("Smallest size of a compared group: a number of rows or texts, or, if below 1, a share of the population."),
    ] = None
    depth: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        doc(
            "Largest number of protected features in one question. With depth = 2, there is one question for each "
            "feature and for each pair of features. By default, one question combines all protected features."
        ),
    ] = None


class _Rates(_Property, frozen=True, kw_only=True):
    criterion: Annotated[
        Literal["demographic_parity", "equal_opportunity", "equalized_odds"],
        doc(
            "Inputs on which rates are compared. demographic_parity: all inputs. equal_opportunity: inputs whose true "
            "label is the outcome. equalized_odds: inputs of each true label, separately."
        ),
    ] = "demographic_parity"
    compare: Annotated[
        Literal["groups", "overall", "average"],
        doc(
            "groups: compare groups with each other. overall: compare each group with the overall population. average: "
            "compare the mean of the groups' rates with the rate of the overall population."
        ),
    ] = "groups"
    reference: Annotated[
        Text | dict[str, Text | int] | None,
        doc(
            "Reference group. The threshold limits how far the rate of every other group is below the rate of this "
            'group. Higher rates are allowed. Examples: "Male", "sex=Male & race=White", {sex = "Male", race = '
            '"White"}. With this key, outcome must state the favourable label.'
        ),
    ] = None
    shift: Annotated[
        Annotated[float, Meta(gt=1, le=1000)] | None,
        doc(
            "Ask for one verdict over all populations in which the frequency of each input is between 1/shift and "
            "shift times the assumed frequency. Without this key, the verdict is about the assumed population alone."
        ),
    ] = None
    shift_of: Annotated[
        Literal["each_group", "all_groups_alike"],
        doc("each_group: the groups may shift differently. all_groups_alike: all groups shift in the same way."),
    ] = "each_group"

    def _formula(self, relation: str) -> str:
        group, label = " & ".join(self.protected), self.outcome or "l"
        given = f", {self.given}" if self.given else ""
        truth = {"equal_opportunity": f", truth={label}", "equalized_odds": ", truth=t"}.get(self.criterion, "")
        overall = f"P(Y={label}{f' | {(truth + given)[2:]}' if truth or given else ''})"
        one, other = (f"P(Y={label} | {group}={each}{truth}{given})" for each in "ij")
        quantified = ["i", "j"]
        if self.reference is not None:
            # In a one-sided ratio the reference is the denominator, in a difference it is first.
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
    """For every compared pair of groups, the difference of the selection rates P(outcome) is at most the threshold."""

    threshold: Annotated[Threshold, doc("Largest difference that counts as fair.")]

    def __str__(self) -> str:
        """Return the property as a formula."""
        difference = "|{one} - {other}|" if self.reference is None else "{one} - {other}"
        return self._formula(f"{difference} <= {self.threshold:g}")


class Ratio(_Rates, tag_field="kind", tag="ratio", frozen=True, kw_only=True):
    """For every compared pair of groups, the ratio of the selection rates P(outcome) is at least the threshold."""

    threshold: Annotated[Threshold, doc("Smallest ratio that counts as fair. The four-fifths rule uses 0.8.")]

    def __str__(self) -> str:
        """Return the property as a formula."""
        if self.reference is not None:
            return self._formula(f"{{other}} / {{one}} >= {self.threshold:g}")
        form = self._formula(f"{{one}} / {{other}} >= {self.threshold:g}")
        return form if self.compare == "groups" else f"{form}, and the inverse"


class Individual(_Property, tag_field="kind", tag="individual", frozen=True, kw_only=True):
    """When only the protected features change, the share of individuals whose decision changes is at most the
    threshold.
    """

    threshold: Annotated[Threshold, doc("Largest share of individuals whose decision may change.")]
    shift = None  # a separate key of other properties

    def __str__(self) -> str:
        """Return the property as a formula."""
        label = f"[Y={self.outcome}]" if self.outcome else "Y"
        given = f" | {self.given}" if self.given else ""
        return f"P({label} changes with {' & '.join(self.protected)} alone{given}) <= {self.threshold:g}"


class ProbabilityFormula(Strict, tag_field="kind", tag="formula", frozen=True, kw_only=True):
    """A comparison of two conditional probabilities, written as a formula."""

    formula: Annotated[
        Text, doc('The comparison: formula = "P(hired | sex=F and qualified) / P(hired | sex=M and qualified) >= 0.8".')
    ]
    # Separate keys of other properties.
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

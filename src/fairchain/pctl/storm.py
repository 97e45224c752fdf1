"""Storm as a second engine: the same questions, translated and answered by a program that is not ours.

Needs the extra `storm`. Only values come from it, by elimination of states: no iteration that stops somewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from fairchain.errors import QueryError
from fairchain.pctl.evaluator import Evaluator
from fairchain.pctl.formula import TRUE, Eventually, Formula, Measure, Path, UntilForm, Window
from fairchain.pctl.graph import Floats, Mask
from fairchain.pctl.label_names import DEADLOCK, INITIAL, states_of
from fairchain.pctl.point_values import Points

MISSING = "engine storm needs the package stormpy; install it with: pip install fairchain[storm]"
MOST_CHARACTERS = 100_000
OPPOSITE = {">=": "<=", "<=": ">=", ">": "<", "<": ">"}


@dataclass(frozen=True, eq=False)
class Storm:
    """A chain as a model of Storm's, whose labels are named l0, l1, ..."""

    points: Points
    model: Any
    names: dict[str, str]

    @classmethod
    def of(cls, points: Points) -> Storm:
        """Build the model.

        Raises
        ------
        QueryError
            If stormpy is not installed.
        """
        try:
            import stormpy
        except ImportError:
            raise QueryError(MISSING) from None

        chain, matrix = points.chain, points.matrix.tocoo()
        builder = stormpy.datastructures.SparseMatrixBuilder[float](
            rows=len(chain), columns=len(chain), entries=matrix.nnz
        )
        builder.add_next_values(matrix.row.tolist(), matrix.col.tolist(), matrix.data.tolist(), [])
        known = dict.fromkeys([*chain.labels, INITIAL, DEADLOCK])
        names = {label: f"l{number}" for number, label in enumerate(known)}
        labeling = stormpy.models.StateLabeling(len(chain))
        marked = {names[label]: states_of(chain, label) for label in names} | {"init": {chain.initial}}
        for name, states in marked.items():
            labeling.add_label(name)
            labeling.set_states(name, stormpy.datastructures.BitVector(len(chain), sorted(states)))
        components = stormpy.models.SparseModelComponents[float](
            transition_matrix=builder.build(), state_labeling=labeling
        )
        return cls(points, stormpy.models.SparseDtmc[float](components), names)

    @cached_property
    def _translation(self) -> _Translation:
        return _Translation(self)

    def holds(self, formula: Formula) -> Mask:
        """(states,): where a formula is true."""
        result = self._asked(self._translation.holds(formula))
        return np.array([result[state] for state in range(len(self.points.chain))], bool)

    def measure(self, formula: Measure) -> Floats:
        """(states,): the number of a measure."""
        asked = self._translation.measure(formula)
        values = np.array(self._asked(f"{asked.operator}=? [ {asked.body} ]").get_value_vector(), float)
        return 1 - values if asked.opposite else values

    def _asked(self, text: str) -> Any:
        import stormpy

        environment = stormpy.Environment()
        environment.solver().set_linear_equation_solver_type(stormpy.environments.EquationSolverType.ELIMINATION)
        return stormpy.model_checking(self.model, stormpy.parse_property(text), environment=environment)


class _Number(NamedTuple):
    """A measure in Storm's language, and whether it is the opposite of what was asked."""

    operator: str
    body: str
    opposite: bool = False


class _Translation(Evaluator[str, _Number]):
    """Formulas in Storm's language, which may have to say the same part twice."""

    def __init__(self, storm: Storm) -> None:
        self._storm = storm

    def truth(self, value: bool) -> str:
        return "true" if value else "false"

    def label(self, name: str) -> str:
        return f'"{self._storm.names[name]}"'

    def negated(self, part: str) -> str:
        return _checked(f"!({part})")

    def joined(self, sign: str, parts: list[str]) -> str:
        """Storm knows & and |; the others are written with them."""
        parts = [f"({part})" for part in parts]
        if sign in ("&", "|"):
            return _checked(f"({f' {sign} '.join(parts)})")
        if sign == "=>":
            *before, text = parts
            for part in reversed(before):
                text = f"(!{part} | {text})"
            return _checked(text)
        text = parts[0]
        for part in parts[1:]:
            text = _checked(f"(({text} & {part}) | (!{text} & !{part}))")
        return text

    def compared(self, number: _Number, formula: Measure) -> str:
        assert formula.bound is not None
        sign, edge = formula.bound.sign, formula.bound.value
        if number.opposite:
            sign, edge = OPPOSITE[sign], 1 - edge
        return _checked(f"({number.operator}{sign}{edge!r} [ {number.body} ])")

    def long_run(self, part: str) -> _Number:
        return _Number("LRA", part)

    def expected_steps(self, target: str) -> _Number:
        return _Number("T", f"F {target}")

    def next(self, part: str) -> _Number:
        return _Number("P", f"X {part}")

    def probability(self, path: Path) -> _Number:
        if isinstance(path, Eventually) and path.window == Window():
            return _Number("P", f"{'G' if path.always else 'F'} {self.holds(path.part)}")
        return super().probability(path)

    def until(self, left: str, right: str, until: UntilForm) -> _Number:
        window = until.window
        if window.low and window.high is None:
            raise QueryError(f"Storm knows no step bound like {window} without an end; use engine own")
        # Storm lets a run pass before the window where `right` holds without `left`; PCTL does not.
        if window.low and (self._storm.holds(until.right) & ~self._storm.holds(until.left)).any():
            raise QueryError(f"Storm reads U{window} another way where its right side holds alone; use engine own")
        before = "F" if until.left == TRUE else f"{left} U"
        return _Number("P", f"{before}{window} {right}", until.opposite)


def _checked(text: str) -> str:
    if len(text) > MOST_CHARACTERS:
        raise QueryError("the formula is too long for Storm once it is translated; use engine own")
    return text

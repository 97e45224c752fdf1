"""The engine "storm": translation of queries for Storm, an independent model checker.

It needs the extra `storm`. Only values come from it, by state elimination, which is exact up to rounding.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fairchain.errors import QueryError
from fairchain.messages import needs
from fairchain.pctl.formula import TRUE, Evaluator, Eventually, Formula, Measure, Path, UntilForm, Window
from fairchain.pctl.graph import Floats, Mask
from fairchain.pctl.point_values import DEADLOCK, INITIAL, Points, holds_in

STORM_MISSING = needs("engine storm", "stormpy", "fairchain[storm]")
MOST_STORM_CHARACTERS = 100_000
OPPOSITE = {">=": "<=", "<=": ">=", ">": "<", "<": ">"}


class Storm:
    """A chain as a model of Storm, whose labels are named l0, l1, ...; a QueryError without stormpy."""

    def __init__(self, points: Points) -> None:
        try:
            import stormpy
        except ImportError:
            raise QueryError(STORM_MISSING) from None

        chain, matrix = points.chain, points.matrix.tocoo()
        builder = stormpy.datastructures.SparseMatrixBuilder[float](
            rows=len(chain), columns=len(chain), entries=matrix.nnz
        )
        builder.add_next_values(matrix.row.tolist(), matrix.col.tolist(), matrix.data.tolist(), [])
        known = dict.fromkeys([*chain.labels, INITIAL, DEADLOCK])
        self.names = {label: f"l{number}" for number, label in enumerate(known)}
        labeling = stormpy.models.StateLabeling(len(chain))
        marked = {name: np.flatnonzero(holds_in(chain, label)).tolist() for label, name in self.names.items()}
        for name, states in {**marked, "init": [chain.initial]}.items():
            labeling.add_label(name)
            labeling.set_states(name, stormpy.datastructures.BitVector(len(chain), states))
        components = stormpy.models.SparseModelComponents[float](
            transition_matrix=builder.build(), state_labeling=labeling
        )
        self.model = stormpy.models.SparseDtmc[float](components)
        self._size = len(chain)
        self._translation = _Translation(self)

    def holds(self, formula: Formula) -> Mask:
        """Return (states,): whether a formula is true."""
        result = self._checked(self._translation.holds(formula))
        return np.array([result[state] for state in range(self._size)], bool)

    def measure(self, formula: Measure) -> Floats:
        """Return (states,): the number of a measure."""
        number = self._translation.measure(formula)
        values = np.array(self._checked(f"{number.operator}=? [ {number.body} ]").get_value_vector(), float)
        return 1 - values if number.opposite else values

    def _checked(self, text: str) -> Any:
        import stormpy

        environment = stormpy.Environment()
        environment.solver().set_linear_equation_solver_type(stormpy.environments.EquationSolverType.ELIMINATION)
        return stormpy.model_checking(self.model, stormpy.parse_property(text), environment=environment)


class _Number(NamedTuple):
    """A measure in Storm's language, and whether it is the complement of the measure that was translated."""

    operator: str
    body: str
    opposite: bool = False


class _Translation(Evaluator[str, _Number]):
    """Formulas in Storm's language, which may repeat a part."""

    def __init__(self, storm: Storm) -> None:
        self._storm = storm

    def truth(self, value: bool) -> str:
        return "true" if value else "false"

    def label(self, name: str) -> str:
        return f'"{self._storm.names[name]}"'

    def negated(self, part: str) -> str:
        return _limited(f"!({part})")

    def joined(self, sign: str, parts: list[str]) -> str:
        """Translate all operators to & and |, which Storm supports."""
        parts = [f"({part})" for part in parts]
        if sign in ("&", "|"):
            return _limited(f"({f' {sign} '.join(parts)})")
        if sign == "=>":
            *before, text = parts
            for part in reversed(before):
                text = f"(!{part} | {text})"
            return _limited(text)
        text = parts[0]
        for part in parts[1:]:
            text = _limited(f"(({text} & {part}) | (!{text} & !{part}))")
        return text

    def compared(self, number: _Number, formula: Measure) -> str:
        assert formula.bound is not None
        sign, edge = formula.bound.sign, formula.bound.value
        if number.opposite:
            sign, edge = OPPOSITE[sign], 1 - edge
        return _limited(f"({number.operator}{sign}{edge!r} [ {number.body} ])")

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
            raise QueryError(f"Storm cannot check a step bound like {window} without an end; use engine own")
        # Storm lets a run pass before the window if `right` holds without `left`; PCTL does not.
        if window.low and (self._storm.holds(until.right) & ~self._storm.holds(until.left)).any():
            raise QueryError(f"Storm evaluates U{window} differently if only its right side holds; use engine own")
        before = "F" if until.left == TRUE else f"{left} U"
        return _Number("P", f"{before}{window} {right}", until.opposite)


def _limited(text: str) -> str:
    if len(text) > MOST_STORM_CHARACTERS:
        raise QueryError("the formula is too long for Storm once it is translated; use engine own")
    return text

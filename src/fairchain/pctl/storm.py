"""Storm as a second engine: the same questions, translated and answered by a program that is not ours.

Needs the extra `storm`. Only values come from it, by elimination of states: no iteration that stops somewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairchain.errors import QueryError
from fairchain.pctl.formula import (
    TRUE,
    Eventually,
    ExpectedSteps,
    Formula,
    Joined,
    Label,
    LongRun,
    Measure,
    Next,
    Not,
    Path,
    Probability,
    Truth,
    Until,
    Window,
)
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
    _translated: dict[Formula, str] = field(default_factory=dict)

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

    def holds(self, formula: Formula) -> Mask:
        """(states,): where a formula is true."""
        result = self._asked(self._state(formula))
        return np.array([result[state] for state in range(len(self.points.chain))], bool)

    def measure(self, formula: Measure) -> Floats:
        """(states,): the number that a measure stands for."""
        if isinstance(formula, Probability):
            opposite, path = self._path(formula.path)
            values = self._numbers(f"P=? [ {path} ]")
            return 1 - values if opposite else values
        if isinstance(formula, LongRun):
            return self._numbers(f"LRA=? [ {self._state(formula.part)} ]")
        assert isinstance(formula, ExpectedSteps)
        return self._numbers(f"T=? [ F {self._state(formula.target)} ]")

    def _numbers(self, text: str) -> Floats:
        return np.array(self._asked(text).get_value_vector(), float)

    def _asked(self, text: str) -> Any:
        import stormpy

        environment = stormpy.Environment()
        environment.solver().set_linear_equation_solver_type(stormpy.environments.EquationSolverType.ELIMINATION)
        return stormpy.model_checking(self.model, stormpy.parse_property(text), environment=environment)

    def _state(self, formula: Formula) -> str:
        """A formula in Storm's language, which may have to say the same part twice."""
        if formula not in self._translated:
            self._translated[formula] = _checked(self._translate(formula))
        return self._translated[formula]

    def _translate(self, formula: Formula) -> str:
        if isinstance(formula, Truth):
            return str(formula)
        if isinstance(formula, Label):
            return f'"{self.names[formula.name]}"'
        if isinstance(formula, Not):
            return f"!({self._state(formula.part)})"
        if isinstance(formula, Joined):
            return self._joined(formula)
        assert isinstance(formula, Measure)
        assert formula.bound is not None
        sign, edge = formula.bound.sign, formula.bound.value
        if isinstance(formula, Probability):
            opposite, path = self._path(formula.path)
            asked = f"P{OPPOSITE[sign]}{1 - edge!r}" if opposite else f"P{sign}{edge!r}"
            return f"({asked} [ {path} ])"
        if isinstance(formula, LongRun):
            return f"(LRA{sign}{edge!r} [ {self._state(formula.part)} ])"
        assert isinstance(formula, ExpectedSteps)
        return f"(T{sign}{edge!r} [ F {self._state(formula.target)} ])"

    def _joined(self, formula: Joined) -> str:
        """Storm knows & and |, and writes the others with them."""
        parts = [f"({self._state(part)})" for part in formula.joined]
        if formula.sign in ("&", "|"):
            return f"({f' {formula.sign} '.join(parts)})"
        if formula.sign == "=>":
            *before, text = parts
            for part in reversed(before):
                text = f"(!{part} | {text})"
            return text
        text = parts[0]
        for part in parts[1:]:
            text = _checked(f"(({text} & {part}) | (!{text} & !{part}))")
        return text

    def _path(self, path: Path) -> tuple[bool, str]:
        """A path formula in Storm's language, and whether it is the opposite of what was asked."""
        if isinstance(path, Next):
            return False, f"X {self._state(path.part)}"
        if isinstance(path, Eventually) and path.window == Window():
            return False, f"{'G' if path.always else 'F'} {self._state(path.part)}"
        assert isinstance(path, Eventually | Until)
        until = path.until
        if until.window.low and until.window.high is None:
            raise QueryError(f"Storm knows no step bound like {until.window} without an end; use engine own")
        right = self._state(until.right)
        # Storm lets a run pass before the window where `right` holds without `left`; PCTL does not.
        if until.window.low and (self.holds(until.right) & ~self.holds(until.left)).any():
            raise QueryError(
                f"Storm reads U{until.window} another way where its right side holds alone; use engine own"
            )
        if until.left == TRUE:
            return until.opposite, f"F{until.window} {right}"
        return until.opposite, f"{self._state(until.left)} U{until.window} {right}"


def _checked(text: str) -> str:
    if len(text) > MOST_CHARACTERS:
        raise QueryError("the formula is too long for Storm once it is translated; use engine own")
    return text

"""What is said about a repair: the change of every tensor, and the sentence that the evidence carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairchain.models.edit.weights import Array, Weights
from fairchain.repairing.result import TensorChange, WeightChange
from fairchain.spec import Spec

if TYPE_CHECKING:
    from fairchain.repairing.judge import Judged

MOST_SHOWN = 5


def changes_of(weights: Weights, new: Mapping[str, Array]) -> tuple[TensorChange, ...]:
    """What became of each tensor, those that stayed as they were left out."""
    found = []
    for name, values in new.items():
        before = weights.values[name]
        after = values.astype(before.dtype)
        move = np.abs(after.astype(np.float64) - before)
        if not move.any():
            continue
        length = float(np.linalg.norm(before.astype(np.float64)))
        order = np.argsort(-move, axis=None, kind="stable")[:MOST_SHOWN]
        places = [tuple(int(i) for i in np.unravel_index(flat, before.shape)) for flat in order if move.flat[flat]]
        found.append(
            TensorChange(
                tensor=name,
                operator=weights.operator_of(name),
                shape=before.shape,
                changed=int(np.count_nonzero(move)),
                size=before.size,
                # A bias that was added to a layer had no length.
                relative=float(np.linalg.norm(move)) / length if length else 1.0,
                largest=tuple(WeightChange(place, float(before[place]), float(after[place])) for place in places),
            )
        )
    return tuple(found)


def statement_of(spec: Spec, judged: Sequence[Judged], accepted: bool) -> str:
    """What may be believed of the last network, in a sentence or two."""
    last = judged[-1]
    if not accepted or last.verdict is None:
        tries = "the one candidate" if len(judged) == 1 else f"any of {len(judged)} candidates"
        return f"Not repaired: the judge did not accept {tries}; {last.attempt.why}."
    if last.verdict.exact:
        return f"{last.verdict.statement} The saved network was counted anew on all of them."
    return (
        f"{last.verdict.statement} This is attempt {last.attempt.number}, at delta {last.attempt.delta:g}; attempts "
        f"together wrongly accept a network with probability at most {spec.guarantee.delta:g}. The search "
        "knows nothing of the draws that it was judged on."
    )

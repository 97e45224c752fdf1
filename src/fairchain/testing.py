"""Fairness in a test suite: `assert_fair` fails a test unless a network is found fair.

With pytest, a marker does the same; see `fairchain.pytest_plugin`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairchain.spec import Spec
from fairchain.verification.verdict import Verdict

BAD_ON_CONSTANT = 'undecided: found "{undecided}"; write "fail" or "pass"'


class UnfairError(AssertionError):
    """The network is unfair, undecided or constant, or the rule is not sound; `verdict` has the details."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(str(verdict))
        self.verdict = verdict


def assert_fair(
    model: Any, spec: Spec | str | Path, *, undecided: str = "fail", allow_constant: bool | None = None, **options: Any
) -> Verdict:
    """Return the verdict if it passes, and raise an AssertionError if not.

    A verdict passes if it is FAIR and its rule is sound. With `undecided="pass"`, UNDECIDED passes too.

    Parameters
    ----------
    model, spec
        As for `verify`.
    undecided
        Whether UNDECIDED raises the error ("fail") or not ("pass").
    allow_constant
        Whether a constant model passes; by default as the spec states.
    options
        Other arguments of `verify`.

    Returns
    -------
    Verdict
        The verdict, for further assertions such as `verdict.gap.high < 0.05`.

    Raises
    ------
    UnfairError
        An AssertionError with the verdict, its statement and its interval.

    Examples
    --------
    >>> import fairchain
    >>> fairchain.assert_fair(None, fairchain.example("census")).gap.high <= 0.1
    True
    """
    __tracebackhide__ = True  # pytest shows the caller's line, not this one
    if undecided not in ("fail", "pass"):
        raise ValueError(BAD_ON_CONSTANT.format(undecided=undecided))
    from fairchain.verification import verify

    verdict = verify(model, spec, allow_constant=allow_constant, **options)
    passes = ("FAIR", "UNDECIDED") if undecided == "pass" else ("FAIR",)
    # The paper's rule is not sound, so a gate must not depend on it.
    if verdict.sound and verdict.conclusion in passes:
        return verdict
    raise UnfairError(verdict)

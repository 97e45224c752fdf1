"""The condition of a spec, as something that can be asked of people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fairchain.spec.schema import Spec

if TYPE_CHECKING:
    from fairchain.spec.predicate import Predicate


def predicate_of(spec: Spec) -> Predicate | None:
    """What `property.given` says; None if there is no condition. The parser is imported only for one."""
    if spec.property.given is None:
        return None
    from fairchain.spec.predicate import parse_predicate

    return parse_predicate(spec.property.given, spec.features)

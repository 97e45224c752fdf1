"""Common parts of all tables of a spec: the strict base class, the description of a key, and types of values.

The tables themselves are in `feature_keys`, `population_keys`, `property_keys` and `schema`. Annotations are evaluated
with the module there, because evaluating them by name when the first spec is read takes longer.
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

Positive = Annotated[float, Meta(gt=0)]
Text = Annotated[str, Meta(min_length=1)]
Number = int | float


def doc(description: str, **limits: Any) -> Meta:
    """Return the description of a key for the reference and for editors, with the limits of its values."""
    return Meta(description=description, **limits)


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of all tables of a spec: frozen, and an undeclared key is an error."""

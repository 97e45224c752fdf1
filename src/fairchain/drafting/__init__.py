"""A first spec from a table and a model: what can be seen in them is read, the rest guessed, and every guess said.

`infer` is the way in, `write` makes the commented file. Nothing here decides about fairness, and a draft is an ordinary
spec: whatever reads it checks it again.
"""

from fairchain.drafting.draft_result import Draft, Guess
from fairchain.drafting.infer import draft_spec, infer_spec
from fairchain.drafting.options import DraftOptions
from fairchain.drafting.protected import NobodyProtectedError
from fairchain.drafting.write import must_be_free, save_spec, write_spec

__all__ = [
    "Draft",
    "DraftOptions",
    "Guess",
    "NobodyProtectedError",
    "draft_spec",
    "infer_spec",
    "must_be_free",
    "save_spec",
    "write_spec",
]

"""Drafting of a first spec from a table and a model: visible properties are read, others guessed, every guess noted.

`draft_spec` infers a spec and `write_spec` makes the commented file; `texts.draft_text_spec`, which is imported only
when it is needed, infers one about texts. A draft is an ordinary spec, checked again wherever it is read.
"""

from fairchain.drafting.draft import draft_spec, infer_spec
from fairchain.drafting.guesses import Draft, DraftOptions, Guess, must_be_free, save_spec, write_spec
from fairchain.errors import NoProtectedFeatureError

__all__ = [
    "Draft",
    "DraftOptions",
    "Guess",
    "NoProtectedFeatureError",
    "draft_spec",
    "infer_spec",
    "must_be_free",
    "save_spec",
    "write_spec",
]

"""What a draft is: a spec, and a sentence for everything in it that was guessed."""

from __future__ import annotations

from dataclasses import dataclass

from fairchain.spec import Spec


@dataclass(frozen=True)
class Guess:
    """One sentence about one key of the spec.

    Parameters
    ----------
    key
        `model.labels`, `feature.age`, `population.label` and so on; "" for the spec as a whole.
    text
        What was taken, why, and what to check.
    loud
        Whether the spec is probably wrong unless somebody mends it.
    """

    key: str
    text: str
    loud: bool = False


@dataclass(frozen=True)
class Draft:
    """A spec that was inferred.

    Parameters
    ----------
    spec
        Checked; its paths are as they were given.
    guesses
        In the order of the keys in the spec.
    likely
        Features and columns whose names say that a law may protect them, the likeliest first.
    """

    spec: Spec
    guesses: tuple[Guess, ...]
    likely: tuple[str, ...] = ()

    def about(self, key: str) -> tuple[str, ...]:
        """What was guessed about one key."""
        return tuple(guess.text for guess in self.guesses if guess.key == key and not guess.loud)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What somebody must look at before believing a verdict."""
        return tuple(guess.text for guess in self.guesses if guess.loud)

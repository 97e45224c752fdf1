"""The last steps of a draft: who is protected, the outcome, the property, and the spec checked as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from fairchain.drafting.draft_result import Draft, Guess
from fairchain.drafting.encoding_trial import EncodingTrial, spec_of
from fairchain.drafting.input_layouts import InputLayout, unseen
from fairchain.drafting.labels import find_outcome
from fairchain.drafting.name_hints import like_protected
from fairchain.drafting.options import DraftOptions, Reading
from fairchain.drafting.profile import Profile
from fairchain.drafting.protected import Protection, candidates, protect
from fairchain.errors import SpecError
from fairchain.messages import many, shown
from fairchain.spec import Difference, Spec, Table, Uniform, parse_spec
from fairchain.spec.schema import Population
from fairchain.tables import RawTable, people_of

_TABLES = ("", "model", "feature", "population", "property")


@dataclass(frozen=True, eq=False)
class Ground:
    """What a draft stands on: the table and what the caller said. `people` is how rows were read in trials."""

    raw: RawTable
    typed: bool
    wishes: DraftOptions
    people: Table
    model_path: str | None
    table_path: str | None


def assemble(ground: Ground, trial: EncodingTrial, told: tuple[Guess, ...]) -> Draft:
    """The draft, with what was told about it before and what is told here, in the order of the spec's tables."""
    outcome, hoped = find_outcome(trial.reading.model.labels, ground.wishes.outcome)
    who, dropped, about = _who(ground, trial)
    uniform = ground.wishes.reading == "uniform"
    reading, chosen = _reading(ground, who)
    spec = Spec(
        model=msgspec.structs.replace(trial.reading.model, path=ground.model_path),
        described=who.features,
        property=Difference(
            protected=who.protected,
            outcome=outcome,
            threshold=ground.wishes.threshold,
            min_size=None if uniform else who.min_size,
        ),
        population=_population(ground, reading, drop_missing=dropped > 0),
    )
    told += (*who.guesses, *about, *chosen, *_about_rows(ground, who, dropped), *((hoped,) if hoped else ()))
    if uniform:
        told = tuple(guess for guess in told if not guess.key.startswith(("population.", "property.min_size")))
    order = sorted(told, key=lambda guess: _TABLES.index(guess.key.partition(".")[0]))
    return Draft(parse_spec(msgspec.to_builtins(spec)), tuple(order), tuple(like_protected(ground.raw.names)))


def _reading(ground: Ground, who: Protection) -> tuple[Reading, tuple[Guess, ...]]:
    """What the rows are, and what is to be said about that.

    Given which row has which single value, decisions within a group are independent draws: groups of single values,
    and a least size, may be read off a sample. Ranges whose ends follow the rows may not
    (docs/mathematics.md, "Rates counted apart").
    """
    wanted = ground.wishes.reading
    by_name = {feature.name: feature for feature in who.features}
    ranges = [
        name
        for name in who.protected
        if any(isinstance(members, tuple) for members in getattr(by_name[name], "groups", {}).values())
    ]
    if not ranges or wanted not in (None, "sample"):
        return wanted or "sample", ()
    cut = f"The ranges of {shown(ranges[0])} were cut by looking at these rows"
    if wanted is None:
        return "population", (
            Guess(
                "population.as",
                f"{cut}, so the verdict is about these rows alone. To speak about their source, state ranges of your "
                'own, chosen without these rows, or give other rows of it, and write as = "sample".',
            ),
        )
    return wanted, (
        Guess(
            "population.as",
            f"{cut}: the guarantee of a sample does not hold for the same rows. State ranges of your own, chosen "
            "without these rows, or give other rows of the same source.",
            loud=True,
        ),
    )


def _population(ground: Ground, reading: Reading, *, drop_missing: bool) -> Population:
    if reading == "uniform":
        return Uniform()
    people = ground.people
    return Table(
        path=ground.table_path,
        reading=reading,
        label=people.label,
        prediction=people.prediction,
        drop_missing=drop_missing,
    )


def _who(ground: Ground, trial: EncodingTrial) -> tuple[Protection, int, tuple[Guess, ...]]:
    """Who is compared, how many rows are left out, and what was guessed.

    A protected column that the model does not take becomes a feature that it does not see.
    """
    features, values, dropped = trial.layout.features, trial.values, trial.dropped
    raw, people = ground.raw, ground.people
    names = [feature.name for feature in features]
    others = [name for name in raw.names if name and name not in (*names, people.label, people.prediction)]
    problem: SpecError | None = None
    for protected in candidates(names, others, ground.wishes.protected, raw.source):
        besides = [name for name in protected if name not in names]
        if besides:
            features = trial.layout.features + tuple(unseen(Profile(raw, name, ground.typed)) for name in besides)
            found = people_of(raw, spec_of(InputLayout(features), trial.reading, people))
            values, dropped = found.values, found.dropped
        try:
            who = protect(features, values, protected, like_protected(names), raw.source)
        except SpecError as error:
            problem = problem or error
            features, values, dropped = trial.layout.features, trial.values, trial.dropped
            continue
        also = [name for name in like_protected([*names, *others]) if name not in protected]
        about = (*_about_protected(protected, also, ground.wishes), *(_about_unseen(name, ground) for name in besides))
        return who, dropped, about
    assert problem is not None
    raise problem


def _about_protected(protected: Sequence[str], also: Sequence[str], wishes: DraftOptions) -> Iterator[Guess]:
    text = "" if wishes.protected else f"Guess: {shown(protected[0])}, by its name."
    if also:
        text += f" Also likely: {', '.join(map(shown, also))}."
    if text:
        yield Guess("property.protected", text.strip())


def _about_unseen(name: str, ground: Ground) -> Guess:
    if ground.wishes.reading == "uniform":
        return Guess(
            "population",
            f"The model does not take {shown(name)}, and nothing depends on it in people who are drawn uniformly: "
            "there can be no gap. Ask about the rows: --as sample or --as population.",
            loud=True,
        )
    return Guess(f"feature.{name}", "The model does not take this column; it only says who belongs to which group.")


def _about_rows(ground: Ground, who: Protection, dropped: int) -> Iterator[Guess]:
    if not dropped:
        return
    raw = ground.raw
    lacking = [feature.name for feature in who.features if Profile(raw, feature.column or feature.name).missing]
    owners = f" ({', '.join(map(shown, lacking[:5]))}{', ...' if len(lacking) > 5 else ''})" if lacking else ""
    yield Guess(
        "population.drop_missing",
        f"{many(dropped, 'row')} of {raw.count:,} lack a value{owners} and are left out. To keep them, state "
        "missing = ... in the [[feature]].",
        loud=dropped > raw.count / 2,
    )

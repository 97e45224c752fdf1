"""From a TOML or JSON file to a checked `Spec`, with errors that name the file, the key and the remedy.

Reading executes nothing: a spec is data. A file is limited in size before it is parsed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from functools import lru_cache, reduce
from itertools import combinations
from operator import getitem
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
from msgspec.structs import replace

from fairchain.errors import SpecError
from fairchain.messages import doubled, near
from fairchain.spec.condition_text import short
from fairchain.spec.documents import files_of, parse_document, read_bytes
from fairchain.spec.feature_keys import Feature, Members, Scale, TextFeature
from fairchain.spec.population_keys import Node, PopulationSpec
from fairchain.spec.property_keys import ProbabilityFormula, Property
from fairchain.spec.schema import About, Budget, Guarantee, ModelSpec, Spec
from fairchain.spec.validate import check_spec

MOST_SPEC_BYTES = 4_000_000
# Largest number of questions in one spec file.
MOST_QUESTIONS = 1000
SEVERAL_QUESTIONS = (
    "{path}: property: found {count} questions where one is expected; leave one [[property]] without depth, or use "
    "what answers all of them: fairchain verify, verify_family in Python"
)
NOT_A_SPEC = (
    "spec: cannot use an object of type {} as a spec; pass the path of a spec file, or a Spec such as verdict.spec"
)
UNKNOWN_KEY = "{key}: unknown key; {remedy}"
SPEC_NOT_UNICODE = 'a spec contains "{}", which is not valid Unicode text; write it without lone surrogates'
TABLE_SUFFIXES = (".csv", ".tsv", ".gz", ".parquet")
ASK_WITHOUT_SPEC = "a table needs none: fairchain check {path} --protected COLUMN"
MODEL_SUFFIXES = (
    *(".onnx", ".keras", ".h5", ".hdf5", ".nnet", ".skops", ".ubj", ".cbm"),
    *(".pt", ".pth", ".pkl", ".joblib"),
)

# Remedies for the keys that are most often wrong.
ADVICE = {
    "property.threshold": "write a number strictly between 0 and 1, for example threshold = 0.1 (10%)",
    "guarantee.delta": "write a probability from 1e-100 to below 1, for example delta = 1e-6",
    "guarantee.epsilon": "write a half width from 1e-9 to below 0.5, for example epsilon = 0.01",
    "guarantee.refine": "write a half width from 1e-4 to below 0.5, for example refine = 0.01",
    "guarantee.seed": "write a whole number from 0 to 2**63 - 1, or leave it out",
    "guarantee.engine": 'write "auto", "sampling", "enumeration", "bounds" or "counting"',
    "guarantee.rule": 'write "betting" (sound) or "paper" (not sound, for comparison only)',
    "guarantee.budget.rounds": "write a number from 1 up, for example rounds = 1e8",
    "guarantee.budget.seconds": "write a positive number, for example seconds = 60",
    "model.labels": 'name every class in order, for example labels = ["no", "yes"]',
    "model.decision": 'write "argmax", "logit", "probability", "score", "label" or "random"',
    "population.kind": 'write "uniform", "marginals", "table", "network" or "text"',
    "population.as": 'of a table write "population" (these rows are all) or "sample" (of a larger '
    'population), of texts "observed" (those that mention a group) or "swapped" (one text with the term of each)',
    "population.dataset": 'write "toxicity", or path = "texts.csv" for a file of your own',
    "population.synonyms": 'write "vectors" (the nearest words) or "wordnet" (words of the same synset)',
    "population.replace": "write how many words of a text may be replaced, from 0 to 100",
    "population.neighbours": "write among how many synonyms to draw, from 1 to 100",
    "property.kind": 'write "difference", "ratio", "individual" or "formula"',
    "property.formula": "write a comparison: P(hired | sex=Female) / P(hired | sex=Male) >= 0.8",
    "property.reference": 'name a group, for example reference = "Male"',
    "property.criterion": 'write "demographic_parity", "equal_opportunity" or "equalized_odds"',
    "property.compare": 'write "groups", "overall" or "average"',
    "property.min_size": "write a number of rows, or a share below 1, for example min_size = 30",
    "property.shift": "write a factor above 1 and at most 1000, for example shift = 2.0",
    "property.shift_of": 'write "each_group" or "all_groups_alike"',
    "property.protected": 'name at least one feature, for example protected = ["sex"]',
    "feature": "describe every network input in a separate [[feature]]",
    "feature.kind": 'write "integer", "real", "category" or "text"',
    "feature.length": "write how many words the network reads, from 1 to 10000, for example length = 60",
    "feature.pad": 'write "right" or "left"',
    "feature.layout": 'write "batch" or "time": which axis of the network\'s input comes first',
    "feature.values": 'name at least one value, for example values = ["Female", "Male"]',
}

# Replacements of keys of earlier versions.
RENAMED_KEYS = {
    ("model", "cut"): "decision_threshold = ...",
    ("feature", "cells"): "aliases = [...]",
    ("feature", "unseen"): "model_input = false instead of unseen = true",
    ("population", "not_known"): "na_values = [...]",
}

# The tables of keys that are often written in another table.
ELSEWHERE = {
    ("property", "groups"): "groups belong in the [[feature]] that they divide",
    ("property", "delta"): "delta belongs in [guarantee]",
    ("guarantee", "threshold"): "threshold belongs in [property]",
    ("model", "features"): "features belong in [[feature]] tables",
    ("property", "label"): "label belongs in [population]",
    ("model", "label"): "label belongs in [population]",
    ("model", "prediction"): "prediction belongs in [population]",
    ("population", "node"): "nodes are written [[population.nodes]]",
    ("", "features"): "features belong in [[feature]] tables",
}


def load_spec(path: str | Path) -> Spec:
    """Read and check a spec file with one question.

    Parameters
    ----------
    path
        A `.toml` or `.json` file. `model.path` and `population.path` inside are relative to this file's folder and are
        returned as paths that can be opened from the working directory.

    Raises
    ------
    SpecError
        If the file is not a valid spec. The message states the file, the key, what was found and what to write instead.
    """
    specs = load_specs(path)
    if len(specs) > 1:
        raise SpecError(SEVERAL_QUESTIONS.format(path=path, count=len(specs)))
    return specs[0]


def load_specs(path: str | Path) -> tuple[Spec, ...]:
    """Read and check a spec file with one question or several: a spec for each, which share everything else."""
    if not isinstance(path, str | Path):
        raise SpecError(NOT_A_SPEC.format(type(path).__name__))
    path = Path(path)
    try:
        suffix = path.suffix.lower()
        content = read_bytes(path, MOST_SPEC_BYTES, "give the path of a spec (.toml or .json)")
        if suffix not in (".toml", ".json"):
            hint = "write one with fairchain init MODEL TABLE" if suffix in MODEL_SUFFIXES else "rename it"
            hint = ASK_WITHOUT_SPEC.format(path=path) if suffix in TABLE_SUFFIXES else hint
            raise SpecError(f'a spec ends in .toml or .json, found "{suffix}"; {hint}')
        data = parse_document(content, suffix)
        if not isinstance(data, dict):
            raise SpecError("a spec is one JSON object with model, feature, property")
        specs = parse_specs(data)
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None
    return tuple(
        replace(
            spec,
            model=_beside(path, spec.model),
            population=_beside(path, spec.population),
            described=tuple(_beside(path, feature) for feature in spec.described),
        )
        for spec in specs
    )


def parse_specs(data: Mapping[str, Any]) -> tuple[Spec, ...]:
    """Check a spec with one property or a list of them, and return a spec for each question.

    >>> question = {"kind": "difference", "protected": ["sex", "race"], "threshold": 0.1, "depth": 2}
    >>> features = [{"name": name, "kind": "category", "values": ["a", "b"]} for name in ("sex", "race")]
    >>> data = {"model": {"labels": ["no", "yes"]}, "feature": features, "property": question}
    >>> [spec.protected for spec in parse_specs(data)]
    [('sex',), ('race',), ('sex', 'race')]
    """
    properties = data.get("property")
    listed = properties if isinstance(properties, list | tuple) else [properties]
    if not listed:
        raise SpecError("property: found an empty list; state at least one [[property]]")
    specs: list[Spec] = []
    for number, each in enumerate(listed, start=1):
        try:
            specs += [parse_spec({**data, "property": one} if "property" in data else data) for one in _expanded(each)]
        except SpecError as error:
            raise SpecError(f"[[property]] number {number}: {error}" if len(listed) > 1 else str(error)) from None
    if len(specs) > MOST_QUESTIONS:
        raise SpecError(f"property: {len(specs):,} questions, and at most {MOST_QUESTIONS:,} are answered together")
    if twice := doubled(str(spec.property) for spec in specs):
        raise SpecError(f"property: the same question is stated twice: {twice}; remove one")
    return tuple(specs)


def _expanded(question: Any) -> list[Any]:
    """Return a question for each combination of up to `depth` protected features; without a depth, the question."""
    if not isinstance(question, Mapping) or not isinstance(question.get("depth"), int):
        return [question]
    rest = {key: value for key, value in question.items() if key != "depth"}
    protected = rest.get("protected")
    if not isinstance(protected, list | tuple) or question["depth"] < 1 or question["depth"] > len(protected):
        raise SpecError(
            f"property.depth: found {question['depth']}; write a whole number from 1 to the number of protected "
            "features, or leave it out for their combinations alone"
        )
    sizes = range(1, question["depth"] + 1)
    return [{**rest, "protected": list(some)} for size in sizes for some in combinations(protected, size)]


def parse_spec(data: Mapping[str, Any]) -> Spec:
    """Check a spec given as nested mappings, from TOML, JSON or a Python literal.

    >>> spec = parse_spec({
    ...     "model": {"path": "m.onnx", "labels": ["no", "yes"]},
    ...     "feature": [{"name": "sex", "kind": "category", "values": ["Female", "Male"]}],
    ...     "property": {"kind": "difference", "protected": ["sex"], "outcome": "yes", "threshold": 0.1},
    ... })
    >>> print(spec.property)
    for all i, j: |P(Y=yes | sex=i) - P(Y=yes | sex=j)| <= 0.1
    """
    try:
        spec = _converted(data)
    except msgspec.ValidationError as error:
        raise SpecError(_explain(str(error), data)) from None
    except UnicodeEncodeError:
        raise SpecError("spec: some text in it cannot be written as UTF-8; remove the lone surrogates") from None
    if spec.property.depth is not None:
        raise SpecError(
            "property.depth: states several questions, and one is expected; use parse_specs, or leave it out"
        )
    if (content := content_of(spec)) is None:
        check_spec(spec)
    else:
        _check_content(content)
    if isinstance(spec.property, ProbabilityFormula):
        from fairchain.spec.formulas import formula_groups

        # In the canonical form, so that the spelling of a formula changes nothing.
        text = formula_groups(spec.property, spec.features, spec.model.labels).text
        return replace(spec, property=ProbabilityFormula(formula=text))
    return spec


def content_of(spec: Spec) -> bytes | None:
    """Return the content of a spec without its seed, as a key for caching results that depend only on the spec.

    It is None if a number of the spec is too long for it.
    """
    try:
        return msgspec.msgpack.encode(replace(spec, guarantee=replace(spec.guarantee, seed=None)))
    except OverflowError:
        return None
    except UnicodeEncodeError as error:
        raise SpecError(SPEC_NOT_UNICODE.format(ascii(error.object)[1:-1][:80])) from None


def spec_from(content: bytes) -> Spec:
    """Return a spec with this content."""
    return msgspec.msgpack.decode(content, type=Spec)


@lru_cache(maxsize=32)
def _check_content(content: bytes) -> Spec:
    """Check a spec once, because questions are often repeated with another seed or model; return it without a seed."""
    spec = spec_from(content)
    check_spec(spec)
    return spec


def _converted(data: Mapping[str, Any]) -> Spec:
    """Return the spec that mappings describe; numbers and texts of numpy are accepted as Python's own."""
    try:
        return msgspec.convert(data, Spec)
    except (msgspec.ValidationError, ValueError) as error:  # the second for a signalling NaN
        try:
            plain = _plain(data)
        except RecursionError:  # the values of a spec are not nested that deeply
            raise error from None
        return msgspec.convert(plain, Spec)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Decimal) and value.is_nan():
        return math.nan
    if isinstance(value, Mapping):
        return {_plain(key): _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value


def revise(spec: Spec, **changes: Any) -> Spec:
    """Return the spec with some keys changed and everything checked again; None leaves a key unchanged.

    Keys are written with double underscores for dots: `revise(spec, guarantee__delta=0.05)`.
    """
    kind = changes.get("property__kind")
    changes = {key: value for key, value in changes.items() if value is not None}
    one_question = spec.property.depth is None and not isinstance(spec.property, ProbabilityFormula)
    if one_question and changes.keys() == {"guarantee__seed"}:
        # Only the seed differs from a spec that was checked before: its features need not be converted again.
        with suppress(msgspec.ValidationError, TypeError):
            seed = msgspec.convert({"seed": changes["guarantee__seed"]}, Guarantee).seed
            if (content := content_of(spec)) is not None:
                checked = _check_content(content)
                return replace(checked, guarantee=replace(checked.guarantee, seed=seed))
    data = msgspec.to_builtins(spec)
    if kind is not None:
        # Keys that another kind of property lacks are dropped, if they have their default value.
        known = {field.encode_name for field in msgspec.structs.fields(_by_kind(Property, kind))}
        plain = {"criterion": "demographic_parity", "compare": "groups", "shift_of": "each_group"}
        data["property"] = {k: v for k, v in data["property"].items() if k in known or v != plain.get(k)}
        if kind == ProbabilityFormula.__struct_config__.tag:
            # A formula states the whole property.
            data["property"] = {}
    for key, value in changes.items():
        *tables, name = key.split("__")
        reduce(getitem, tables, data)[name] = value
    return parse_spec(data)


def _beside(spec: Path, part: Any) -> Any:
    """Return a part of the spec with its file names resolved relative to the spec's folder."""
    found = {key: str(spec.parent / value) for key, value in files_of(part).items()}
    return replace(part, **found) if found else part


def _explain(problem: str, data: Mapping[str, Any]) -> str:
    """Turn a validation problem `what - at `$.feature[0].low`` into key, finding and remedy."""
    what, _, at = problem.partition(" - at `$")
    path = at.rstrip("`").lstrip(".")
    key, found = _locate(path, data)
    table = re.sub(r"\[.*?\]", "", path)
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", what):
        name = unknown[1]
        if table.endswith("groups") and isinstance(found, Mapping):
            # The validator does not state the group; it is the first one that has the key.
            groups = (group for group, value in found.items() if isinstance(value, Mapping) and name in value)
            key += next((f".{group}" for group in groups), "")
        if (table, name) in RENAMED_KEYS:
            return f"{_join(key, name)}: renamed; write {RENAMED_KEYS[table, name]}"
        remedy = ELSEWHERE.get((table, name)) or near(name, _known_keys(table, found))
        return UNKNOWN_KEY.format(key=_join(key, name), remedy=remedy)
    if missing := re.fullmatch(r"Object missing required field `(.*)`", what):
        from difflib import get_close_matches

        name = missing[1]
        if mistyped := get_close_matches(name, list(found) if isinstance(found, Mapping) else [], n=1):
            return UNKNOWN_KEY.format(key=_join(key, mistyped[0]), remedy=f'did you mean "{name}"?')
        return f"{_join(key, name)}: missing; {ADVICE.get(_join(table, name), f'add {name} = ...')}"
    advice = ADVICE.get(table, what[0].lower() + what[1:].replace("`", ""))
    return f"{key or 'spec'}: found {_short(found)}; {advice}"


def _known_keys(table: str, found: object) -> list[str]:
    kind = found.get("kind") if isinstance(found, Mapping) else None
    structs: dict[str, type[msgspec.Struct]] = {
        "": Spec,
        "model": ModelSpec,
        "population": _by_kind(PopulationSpec, kind),
        "population.nodes": Node,
        "property": _by_kind(Property, kind),
        "guarantee": Guarantee,
        "guarantee.budget": Budget,
        "about": About,
        "feature": _by_kind(Feature | TextFeature, kind),
        "feature.scale": Scale,
    }
    struct = structs.get(table, Members)
    tag = [struct.__struct_config__.tag_field] if struct.__struct_config__.tag_field else []
    return tag + [field.encode_name for field in msgspec.structs.fields(struct)]


def _by_kind(union: Any, kind: object) -> type[msgspec.Struct]:
    """Return the member of a tagged union with this kind; the first member if none has it."""
    members: tuple[type[msgspec.Struct], ...] = get_args(union)
    return next((each for each in members if each.__struct_config__.tag == kind), members[0])


def _locate(path: str, data: Any) -> tuple[str, Any]:
    """Follow `feature[0].low` into the data; a feature is identified by its name, not its number."""
    shown = ""
    for step in re.findall(r"[^.\[\]]+|\[[^\]]*\]", path):
        if step.startswith("["):
            index = step[1:-1]
            if not index.isdigit() or not isinstance(data, list | tuple) or int(index) >= len(data):
                return shown, data
            data = data[int(index)]
            name = data.get("name") if isinstance(data, Mapping) else None
            shown += f' "{name}"' if isinstance(name, str) else f" number {int(index) + 1}"
        else:
            shown = _join(shown, step)
            data = data.get(step) if isinstance(data, Mapping) else None
    return shown, data


def _join(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _short(value: object) -> str:
    try:
        return short(msgspec.json.encode(value).decode() if not isinstance(value, float) else repr(value))
    except (TypeError, ValueError):
        return short(ascii(value))


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a spec file, for editors that complete and check specs."""
    schema = msgspec.json.schema(Spec)
    keys = schema["$defs"]["Spec"]["properties"]
    # Several questions are a list of properties.
    keys["property"] = {"anyOf": [keys["property"], {"type": "array", "items": keys["property"], "minItems": 1}]}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "fairchain spec", **schema}

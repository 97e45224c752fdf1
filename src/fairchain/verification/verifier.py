"""The front door: what is given becomes a spec, people and a model, and goes by rounds or by rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from fairchain.errors import CertificateError, SpecError
from fairchain.models import Limits, Model, load_model
from fairchain.populations.build import with_nodes
from fairchain.spec import Marginals, Spec, Table, Texts, load_spec, revise
from fairchain.statements import NO_CERTIFICATE, NO_PAPER_CERTIFICATE, table_name
from fairchain.system.isolation import isolated
from fairchain.verification.progress import Report
from fairchain.verification.sampler import default_workers
from fairchain.verification.sampling import verify_rounds
from fairchain.verification.verdict import Verdict

if TYPE_CHECKING:
    from fairchain.tables import People


def verify(
    model: Any,
    spec: Spec | str | Path,
    *,
    weights: str | Path | None = None,
    table: Any = None,
    population: Callable[..., Any] | None = None,
    seed: int | None = None,
    allow_constant: bool | None = None,
    workers: int | None = None,
    limits: Limits | None = None,
    progress: Report | None = None,
    certify: bool = False,
    isolate: bool = False,
) -> Verdict:
    """Decide whether a network treats the groups of a spec alike.

    Parameters
    ----------
    model
        A file (ONNX, SOCRATES JSON, Keras), a torch, scikit-learn or Keras model, any Python function of arrays, or
        None for what the spec names.
    spec
        A `Spec`, or the path of a spec file.
    weights
        A torch state dict to load into the module that `model` is, names or makes.
    table
        Rows in place of the spec's `population.path`: a CSV or Parquet file, a pandas or polars frame, or a mapping
        from column names to cells. Of a question about texts the file of a corpus.
    population
        A Python function that draws inputs, for a spec with `kind = "callable"`: `f(rng, count)`,
        `f(rng, count, group)`, or `Coupled(f, uniforms=m)` for `f(u, group)`, which needs fewer evaluations.
    seed
        A chosen seed, instead of the spec's. Without one it is derived from the network, the spec and its data. The
        same seed gives the same counts, whatever the workers.
    allow_constant
        Instead of the spec's: whether a model that gives one decision to every input may be called FAIR. Otherwise
        its `conclusion` is CONSTANT.
    workers
        Threads; by default one for each core.
    limits
        What an untrusted network may ask for.
    progress
        Called now and then with a `Progress`.
    certify
        Refuse at once what no certificate could be written for, rather than after the work.
    isolate
        Work in a new Python process, so that a network that crashes the runtime raises a `ModelError` instead of
        ending the caller (see `isolated`). For models that are files.

    Returns
    -------
    Verdict
        FAIR or UNFAIR with its guarantee, or UNDECIDED with what is known so far. What a gate should act on is its
        `conclusion`, which is CONSTANT where FAIR only means that one decision is given to everybody.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C before the first round, or while rows are counted: there is no verdict yet. From the first round
        on Ctrl-C returns a verdict with what is known, and a second Ctrl-C raises.

    Examples
    --------
    >>> from fairchain.examples import example
    >>> verify(None, example("census")).decision.name
    'FAIR'
    """
    if isolate:
        given = {"table": table, "population": population, "seed": seed, "workers": workers, "limits": limits}
        given["allow_constant"] = allow_constant
        return isolated(verify, model, spec, weights=weights, certify=certify, progress=progress, **given)  # type: ignore[no-any-return]
    asked = spec if isinstance(spec, Spec) else load_spec(spec)
    asked = with_nodes(revise(asked, guarantee__seed=seed, guarantee__allow_constant=allow_constant))
    if certify and asked.guarantee.rule == "paper":
        raise CertificateError(NO_PAPER_CERTIFICATE)
    if workers is not None and workers < 1:
        raise SpecError(f"workers: found {workers}; give at least one thread, or leave it out for one for each core")
    asked = _with_table(asked, table)
    people = _people(asked, table)
    loaded = _model(model, asked, limits, weights)
    if certify and (population is not None or not (loaded is None or loaded.certifiable)):
        raise CertificateError(NO_CERTIFICATE)
    workers = workers or default_workers()
    if isinstance(asked.population, Table):
        from fairchain.verification.counting import verify_rows

        assert people is not None
        return verify_rows(loaded, asked, people, workers, progress)
    assert loaded is not None
    return verify_rounds(loaded, asked, people, population, workers, progress)


def _with_table(spec: Spec, table: Any) -> Spec:
    """The spec with the given table's file in place of its own, or what rows that were handed over are called."""
    if isinstance(spec.population, Texts) and isinstance(table, str | Path):
        corpus = msgspec.structs.replace(spec.population, path=str(table), dataset=None)
        return msgspec.structs.replace(spec, population=corpus)
    if table is None or not isinstance(spec.population, Table | Marginals):
        return spec
    path = str(table) if isinstance(table, str | Path) else table_name(None)
    return msgspec.structs.replace(spec, population=msgspec.structs.replace(spec.population, path=path))


def _people(spec: Spec, table: Any) -> People | None:
    """The rows that the population speaks of, if it speaks of any."""
    population = spec.population
    if isinstance(population, Texts):
        if table is not None and not isinstance(table, str | Path):
            raise SpecError("population.path: texts are read from a file; give its path, not a table")
        return None
    if not isinstance(population, Table | Marginals):
        if table is not None:
            raise SpecError('population.kind: a table was given, and only kind = "table" or "marginals" reads one')
        return None
    source = table if table is not None else population.path
    if source is None and isinstance(population, Marginals):
        return None
    if source is None:
        raise SpecError(
            'population.path: missing; name the table, path = "people.csv", or give it: --data (table=... in Python)'
        )
    from fairchain.tables import people_of, read_table

    people = people_of(read_table(source), spec)
    if isinstance(population, Marginals):
        # Their frequencies go into the statement, which names no folders.
        return dataclasses.replace(people, source=table_name(population.path))
    return people


def _model(model: Any, spec: Spec, limits: Limits | None, weights: str | Path | None) -> Model | None:
    """The network that is asked; None where the decisions are recorded."""
    if isinstance(spec.population, Table) and spec.population.prediction is not None:
        if model is not None:
            raise SpecError(
                "population.prediction: decisions are recorded in the table, so no model can be asked; remove one"
            )
        return None
    source = model if model is not None else spec.model.path
    if source is None:
        raise SpecError(
            'model.path: missing; name the network\'s file, for example path = "model.onnx", or the column of recorded '
            'decisions: prediction = "..." in [population]'
        )
    return load_model(source, spec, limits, allow_python=model is not None, weights=weights)

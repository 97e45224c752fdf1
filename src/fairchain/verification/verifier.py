"""Verification: prepare a case, choose an engine, and return its answer as a verdict."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from fairchain.errors import CertificateError, ExecutorError, ModelError, StoppedError
from fairchain.executors import AnyWorkers, Workers, open_workers
from fairchain.messages import near
from fairchain.models import Limits
from fairchain.prepare import Case, gather, read_question
from fairchain.spec import Spec, Table
from fairchain.spec.documents import texts_in_memory
from fairchain.statements import (
    NO_BOUNDS_CERTIFICATE,
    NO_CERTIFICATE,
    NO_GROUPED_CERTIFICATE,
    NO_PAPER_CERTIFICATE,
    NO_TEXTS_CERTIFICATE,
)
from fairchain.system.interrupts import first_interrupt
from fairchain.system.isolation import isolated
from fairchain.verification.choosing import engine_for
from fairchain.verification.progress import Progress, Report, reporting
from fairchain.verification.verdict import Verdict, assemble

if TYPE_CHECKING:
    from concurrent.futures import Executor

IN_ONE_PROCESS = (
    "{name}: only this process evaluates it, so that each input is evaluated once; leave --executor (executor=...) out"
)
# Seconds between two reports of the answers of a slow model.
TICK = 0.5
# Keyword arguments of `verify` that replace a key of the spec; double underscores are dots.
OVERRIDES = {
    **{
        name: f"property__{name}"
        for name in (
            *("protected", "kind", "outcome", "given", "criterion", "compare", "min_size", "threshold"),
            *("shift", "shift_of"),
        )
    },
    **{name: f"guarantee__{name}" for name in ("delta", "epsilon", "rule", "refine")},
    "rounds": "guarantee__budget__rounds",
    "seconds": "guarantee__budget__seconds",
    "max_evaluations": "guarantee__budget__evaluations",
    **{name: f"model__{name}" for name in ("decision", "decision_threshold", "labels", "deterministic")},
    "label": "population__label",
    "prediction": "population__prediction",
    "reading": "population__as",
    "show_texts": "population__show_texts",
}
UNEXPECTED_KEYWORD = "verify() got an unexpected keyword argument {unknown!r} ({known})"


def verify(
    model: Any,
    spec: Spec | str | Path,
    *,
    weights: str | Path | None = None,
    data: Any = None,
    population: Callable[..., Any] | None = None,
    seed: int | None = None,
    allow_constant: bool | None = None,
    workers: int | None = None,
    executor: Executor | str | None = None,
    limits: Limits | None = None,
    progress: Report | bool | None = None,
    certify: bool = False,
    checkpoint: str | Path | None = None,
    isolate: bool = False,
    **overrides: Any,
) -> Verdict:
    """Decide whether a model treats the groups of a spec alike.

    Parameters
    ----------
    model
        The model: a file, a model of a package such as torch or scikit-learn, a Python function, or a service. None
        means the model that the spec names. `load_model` lists all kinds of models.
    spec
        A `Spec`, or the path of a spec file.
    weights
        A torch state dict, if `model` is a torch module, the name of a module, or the name of a function that returns a
        module.
    data
        Rows that replace the table in the spec's `population.path`: a CSV or Parquet file, a pandas or polars frame, or
        a mapping from column names to cells. For texts, the file of a corpus, or a frame or mapping that contains the
        texts.
    population
        A Python function that draws inputs, for a spec with `kind = "callable"`. Its signature is `f(rng, count)` or
        `f(rng, count, group)`. A function `f(u, group)` of uniform random numbers is passed as `Coupled(f,
        uniforms=m)`. A run can then need fewer evaluations.
    seed
        A chosen seed, instead of the seed in the spec. Without a chosen seed, the seed is derived from the spec, the
        data and, if the model has a hash, the model. The same seed leads to the same counts for any number of workers,
        unless the budget of seconds ends the run.
    allow_constant
        Whether a model that gives the same decision to every input may be FAIR; by default as the spec states. If
        False, the verdict on such a model has the `conclusion` CONSTANT instead of FAIR or UNDECIDED.
    workers
        Number of threads, or of processes of an executor; by default one thread for each core, or as many processes as
        the executor has.
    executor
        Where to compute: "processes", "dask://HOST:PORT", "ray://HOST:PORT", or an executor of `concurrent.futures`,
        for example `client.get_executor()` of a Dask client. By default, threads are used,
        but a model that runs in Python uses processes if these are faster in a trial. The counts do not depend on the
        executor, unless the budget of seconds ends the run.
    limits
        Limits for an untrusted network.
    progress
        A function that is called at intervals with a `Progress`. True prints a line on standard error, if standard
        error is a terminal.
    certify
        Verify a network for which a certificate can be written. The model is converted to ONNX if necessary, and the
        labels of the model and of the ONNX network are compared. If no certificate can be written, the model is refused
        before the work starts.
    checkpoint
        A file that stores every finished part of the run. The spec's `engine` must be "enumeration" or "sampling". A
        run that was stopped or killed continues from this file. The file is valid only for the same question, network,
        software versions and user.
    isolate
        Work in a new Python process (see `isolated`). A network that crashes the runtime then raises a `ModelError`
        instead of ending the caller. The arguments must be objects that `pickle` can copy, so give the model as a file
        if possible.
    overrides
        Values that replace keys of the spec. Property: `protected`, `kind`, `outcome`, `given`, `criterion`, `compare`,
        `min_size`, `threshold`, `shift` and `shift_of`. Guarantee: `delta`, `epsilon`, `rule`, `refine`, `rounds`,
        `seconds` and `max_evaluations`. Model: `decision`, `decision_threshold`, `labels` and `deterministic`. Table:
        `label`, `prediction` and `reading`. Texts: `show_texts`, to quote texts in full. Without `refine`, this
        function ends at the verdict, because narrow intervals take many times as long as the verdict. By default,
        `fairchain verify`, `fairchain demo` and audits use `refine=0.01`.

    Returns
    -------
    Verdict
        FAIR or UNFAIR with the guarantee, or UNDECIDED with the bounds so far. To accept or reject a model
        automatically, use `conclusion`. Its value is CONSTANT instead of FAIR or UNDECIDED if every tested input gets
        the same decision, unless constant models are allowed.

    Raises
    ------
    KeyboardInterrupt
        If Ctrl-C is pressed before the first round or row. Later, the first Ctrl-C returns a verdict from the evidence
        so far, and a second Ctrl-C raises this exception.

    Examples
    --------
    >>> from fairchain.examples import example
    >>> verify(None, example("census")).decision.name
    'FAIR'
    >>> verify(None, example("census"), threshold=0.005).decision.name
    'UNFAIR'
    """
    began, changes = time.perf_counter(), spec_changes(overrides)
    if isolate:
        given = {"data": data, "population": population, "seed": seed, "workers": workers, "limits": limits}
        given |= {"allow_constant": allow_constant, "executor": executor, "checkpoint": checkpoint, **overrides}
        with reporting(progress) as report:
            return isolated(verify, model, spec, weights=weights, certify=certify, progress=report, **given)  # type: ignore[no-any-return]
    question = read_question(spec, guarantee__seed=seed, guarantee__allow_constant=allow_constant, **changes)
    if certify:
        refuse_uncertifiable(question)
    sources = {"weights": weights, "data": data, "population": population, "limits": limits}
    case = gather(model, question, **sources, network=certify, began=began)
    if certify and not case.certifiable:
        raise CertificateError(why_uncertifiable(case))
    with reporting(progress) as report, open_workers(workers, executor) as opened:
        path = None if checkpoint is None else Path(checkpoint)
        return verify_case(case, workers=opened, progress=report, certify=certify, checkpoint=path)


@contextmanager
def watching(case: Case, cancel: Event, progress: Report | None, start: float) -> Iterator[Report | None]:
    """Stop a slow model as soon as `cancel` is set; yield a callback that reports its answers during a batch too."""
    model: Any = case.model
    if getattr(model, "kept", None) is None:
        yield progress
        return
    if model.service is not None and model.service.tell is not None:
        from fairchain.verification.call_forecast import forecast_calls

        model.service.tell(str(forecast_calls(case)))
    answers = _Answers(progress, start) if progress is not None else None
    try:
        with model.kept.watched(cancel, None if answers is None else answers.count):
            yield answers
    except StoppedError:
        # The model was stopped outside the loop of the engine: there is no evidence yet.
        raise KeyboardInterrupt from None


class _Answers:
    """Reports of an engine, with reports of single answers of a slow model between them."""

    def __init__(self, report: Report, start: float) -> None:
        self._report, self._start = report, start
        self._step, self._since, self._told = Progress(0, 0, 0.0, None), 0, start

    def __call__(self, step: Progress) -> None:
        self._step, self._since, self._told = step, 0, time.perf_counter()
        self._report(step)

    def count(self, inputs: int) -> None:
        """Count answers; report them at intervals."""
        self._since, now = self._since + inputs, time.perf_counter()
        if now - self._told > TICK:
            self._told, known = now, self._step.evaluations + self._since
            known = known if self._step.total is None else min(known, self._step.total)
            self._report(replace(self._step, evaluations=known, seconds=now - self._start))


def refuse_uncertifiable(question: Spec) -> None:
    """Raise a CertificateError for a question that cannot have a certificate."""
    if question.guarantee.engine == "bounds" and not isinstance(question.population, Table):
        raise CertificateError(NO_BOUNDS_CERTIFICATE)
    if question.guarantee.rule == "paper":
        raise CertificateError(NO_PAPER_CERTIFICATE)


def why_uncertifiable(case: Case) -> str:
    """Return why the answer to a case that is not `certifiable` has no certificate, and what to do."""
    if case.rows is not None and case.rows.repeats is not None:
        return NO_GROUPED_CERTIFICATE
    if texts_in_memory(case.spec.population):
        return NO_TEXTS_CERTIFICATE
    from fairchain.models.adapters.from_function import FunctionModel

    model = case.model
    if isinstance(model, FunctionModel) and not model.sha256 and (model.later or model.service or model.note):
        try:
            model.to_network(case.spec, case.rows)
        except ModelError as error:
            return str(error)
    return NO_CERTIFICATE


def spec_changes(overrides: dict[str, Any]) -> dict[str, Any]:
    """Return the spec keys, as `revise` writes them, that keyword arguments of `verify` replace."""
    unknown = [name for name in overrides if name not in OVERRIDES]
    if unknown:
        known = near(unknown[0], list(OVERRIDES))
        raise TypeError(UNEXPECTED_KEYWORD.format(unknown=unknown[0], known=known))
    protected = overrides.get("protected")
    if isinstance(protected, str):
        overrides = overrides | {"protected": (protected,)}
    return {OVERRIDES[name]: value for name, value in overrides.items()}


def verify_case(
    case: Case,
    *,
    workers: AnyWorkers = None,
    progress: Report | None = None,
    certify: bool = False,
    checkpoint: Path | None = None,
) -> Verdict:
    """Return the verdict on a case as `prepare` returns it: the engine's answer with its statements.

    With `certify` only engines with certificates are chosen; the other options are as for `verify`.
    """
    engine, cancel = engine_for(case, certify=certify, checkpoint=checkpoint), Event()
    start = time.perf_counter()
    if isinstance(workers, Workers) and workers.remote and not case.spec.model.deterministic:
        from fairchain.models.adapters.from_function import RANDOM_IN_ONE_PROCESS, FunctionModel

        # A short run sends nothing to the executor, but whether it does depends on the speed of the machine.
        if isinstance(case.model, FunctionModel):
            raise ExecutorError(RANDOM_IN_ONE_PROCESS.format(name=case.model.name))
    if getattr(case.model, "costly", False):
        # A model with a journal is evaluated in one order, over its own connections.
        if isinstance(workers, Workers) and workers.remote:
            raise ExecutorError(IN_ONE_PROCESS.format(name=getattr(case.model, "name", "model")))
        workers = Workers()
    # From here to the verdict, Ctrl-C does not lose evidence.
    with first_interrupt(cancel.set):
        with watching(case, cancel, progress, start) as told, open_workers(workers) as opened:
            if getattr(case.model, "stateless", False) and not getattr(case.model, "thread_safe", False):
                opened.allow_processes()
            answer = engine.answer(case, workers=opened, cancel=cancel, progress=told)
        return assemble(case, answer, start, opened)

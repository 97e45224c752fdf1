"""Independent check of the claims of a certificate.

Everything that can be computed again is computed again. The counts are compared with a complete re-run of the network
if that is affordable, otherwise with a random sample that a forger cannot predict.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fairchain.certificate_format import Certificate, FamilyCertificate
from fairchain.errors import CertificateError, ModelError, SpecError
from fairchain.messages import FILE_NOT_FOUND
from fairchain.models import Limits, Model, load_model
from fairchain.models.journal import Journaled
from fairchain.models.load import PYTHON, is_url
from fairchain.prepare import case_of, read_question, read_rows
from fairchain.rechecking.checker_files import locate_files, used_files
from fairchain.rechecking.contents import Claim, Raw, certificate_of, read_certificate
from fairchain.rechecking.question_check import QuestionCheck
from fairchain.rechecking.rerun import Cost, RecheckOptions
from fairchain.rechecking.result import Recheck
from fairchain.spec import BayesNetwork, Marginals, Spec, Table, Texts, load_specs, parse_spec
from fairchain.spec.population_keys import UserFunction
from fairchain.spec.properties import shifts_alike
from fairchain.spec.seeds import derive_seed, family_seed, meaning_of
from fairchain.statements import family_conclusion
from fairchain.tables import TableRows

NO_MEMBERS = "{path}: not a fairchain certificate: it has no members"
# A re-run with a longer forecast is replaced by a sample, unless a full one is requested.
SAMPLED_BEYOND_SECONDS = 60.0
DIGEST_DIFFERS = "the digest does not match: the file was changed"
BAD_SECONDS_OR_SEED = "seconds must be a number from 0 on, and seed a whole number from 0 to 2**63 - 1"
MODEL_NEEDED = "{path}: is about a model; give its file with --model"
NOT_FRESH = (
    "{path}: is about a random model, which must give new answers, and the journal may contain those of the "
    "certificate; leave --journal (journal=...) out"
)
KEPT_ANSWERS = (
    "{path}: its model is evaluated again, and this model has earlier answers; name a new journal, or give a new "
    "object without one"
)
NO_HASH = "a service or code without a hash: the given model is evaluated again"
ABOUT_NO_HASH = "{model} has sha256 {found}..., and the certificate is about a service, or about random code"
NOT_ALIKE = (
    "the rates of single groups do not determine the effect of a shift of all groups alike: such a verdict is sampled"
)
NOTHING_DRAWN = "{path}: all inputs were enumerated, so nothing is drawn; leave --fresh out"


def recheck(
    certificate: str | Path,
    model: Any = None,
    *,
    data: Any = None,
    spec: Spec | str | Path | None = None,
    full: bool = False,
    fresh: bool = False,
    seconds: float = SAMPLED_BEYOND_SECONDS,
    seed: int | None = None,
    limits: Limits | None = None,
    progress: Callable[[int, int], None] | None = None,
    report: Callable[[Cost], None] | None = None,
) -> Recheck:
    """Check a certificate without trusting the issuer.

    Parameters
    ----------
    certificate, model
        The certificate, and the network file. `model` is left out for recorded decisions, or if `spec` names the model.
        For a service, `model` is the address or a `Service`. For non-deterministic code, `model` is the function or
        `"python:module:name"`.
    data
        A file or a frame with the rows, if the certificate is about rows.
    spec
        The checker's own copy of the spec, with which the certificate must agree. `recheck` then opens the files that
        are named by `model`, `data` and this copy. It ignores the file names in the certificate.
    full
        Repeat all evaluations, without a time limit.
    fresh
        Repeat the whole verification with the checker's own seed.
    seconds
        A time limit. If the evaluation of drawn or enumerated inputs is forecast to take longer, only a random sample
        of these inputs is evaluated. A fresh run ends at the same limit.
    seed
        Seed of a fresh run, or of the choice of the sample; by default an unpredictable number.
    limits
        Limits for an untrusted network.
    progress
        Called with the number of finished evaluations, and the number of requested evaluations.
    report
        Called with the cost of the repeated evaluations, after the first of them were used to measure the speed.
    """
    if not seconds >= 0 or (seed is not None and not 0 <= seed < 2**63):
        raise CertificateError(BAD_SECONDS_OR_SEED)
    path = Path(certificate)
    _, file, intact = read_certificate(path)
    options = RecheckOptions(full, fresh, seconds, seed, limits, progress, report)
    if isinstance(file, FamilyCertificate):
        return _recheck_family(path, file, intact, model, data, spec, options)
    _must_ask_anew(path, model, [_spec_inside(path, file)])
    own = None if spec is None else read_question(spec)
    return _recheck_one(path, file, intact, model, data, own, options)


def _recheck_family(
    path: Path,
    file: FamilyCertificate,
    intact: bool,
    model: str | Path | None,
    data: Any,
    spec: Spec | str | Path | None,
    options: RecheckOptions,
) -> Recheck:
    """Check each member, and the joint claims: the shares of delta, one model, one seed, the verdict."""
    members = [certificate_of(path, raw) for raw in file.members]
    if not members:
        raise CertificateError(NO_MEMBERS.format(path=path))
    inside = [_spec_inside(path, member) for _, member, _ in members]
    _must_ask_anew(path, model, inside)
    own: Sequence[Spec | None] = [None] * len(members)
    claims = [Claim("file", intact, "digest matches" if intact else DIGEST_DIFFERS)]
    if spec is not None:
        specs = [spec] if isinstance(spec, Spec) else load_specs(spec)
        if len(specs) != len(members):
            problem = f"{len(members)} questions, and the given spec states {len(specs)}"
            return Recheck(verdict=file.verdict, claims=(*claims, Claim("questions", False, problem)))
        given = [read_question(each, guarantee__delta=each.guarantee.delta / len(specs)) for each in specs]
        # The order of the questions in a spec does not matter.
        named = {str(each.property): each for each in given}
        own = [named.get(str(each.property), mine) for each, mine in zip(inside, given, strict=True)]
    spent = sum(Fraction(repr(each.guarantee.delta)) for each in inside)
    share = f"{len(inside)} questions spend {float(spent):g} together"
    allowed = Fraction(repr(file.delta)) * Fraction(1 + 1e-9)
    claims.append(Claim.check("delta", "" if spent <= allowed else f"{share}, above {file.delta:g}", share))
    hashes = {str(member.claims.get("model_sha256")) for _, member, _ in members}
    meanings = [meaning_of(each) | {"property": ""} for each in inside]
    same = len(hashes) == 1 and all(each == meanings[0] for each in meanings)
    problem = "" if same else "the questions differ in model, features, population or guarantee"
    claims.append(Claim.check("family", problem, "one model, one population, one guarantee"))
    different = len({str(each.property) for each in inside}) == len(inside)
    problem = "" if different else "a question is answered twice"
    claims.append(Claim.check("questions", problem, f"{len(inside)} different questions"))
    joint = family_seed(
        [
            derive_seed(each, str(member.claims.get("model_sha256")), member.claims.get("table_sha256"))
            for each, (_, member, _) in zip(inside, members, strict=True)
        ]
    )
    results = [
        _recheck_one(path, member, whole, model, data, mine, options, joint if len(members) > 1 else None)
        for (_, member, whole), mine in zip(members, own, strict=True)
    ]
    expected = family_conclusion([result.verdict for result in results])
    problem = "" if file.verdict == expected else f"{file.verdict}, and the verdicts of the questions give {expected}"
    claims.append(Claim.check("verdict", problem, f"{expected}: follows from the verdicts of the questions"))
    return Recheck(
        verdict=file.verdict,
        evaluations=sum(result.evaluations for result in results),
        fraction=min(result.fraction for result in results),
        # One chosen seed makes the seed of the family a chosen one.
        seed_origin=next(
            (each.seed_origin for each in results if each.seed_origin == "chosen"), results[0].seed_origin
        ),
        files=results[0].files,
        claims=tuple(claims),
        members=tuple(results),
    )


def _recheck_one(
    path: Path,
    file: Certificate[Raw],
    intact: bool,
    model: str | Path | None,
    data: Any,
    own: Spec | None,
    options: RecheckOptions,
    joint: int | None = None,
) -> Recheck:
    """Check the certificate of one question; `joint` is the seed of its family."""
    inside = _spec_inside(path, file)
    claims = [Claim("file", intact, "digest matches" if intact else DIGEST_DIFFERS)]
    verdict = str(file.claims.get("verdict"))
    if own is not None and (differs := _differing_keys(own, inside, data)):
        claims.append(Claim("question", False, f"the given spec differs in {', '.join(differs)}"))
        return Recheck(verdict=verdict, claims=tuple(claims))
    recorded = isinstance(inside.population, Table) and inside.population.prediction is not None
    if recorded and model is not None:
        raise CertificateError(f"{path}: about recorded decisions, not about a model; leave --model (model=...) out")
    # A name in a spec, including the checker's own, never runs code or calls a service.
    named = model is not None
    spec, model, data = locate_files(path, inside, model=model, data=data, own=own)
    random = not spec.model.deterministic
    if options.fresh and (isinstance(spec.population, Table) or file.claims.get("engine") == "counting"):
        raise CertificateError(f"{path}: rows or texts were counted, so nothing is drawn; leave --fresh out")
    if options.fresh and file.claims.get("engine") == "enumeration":
        raise CertificateError(NOTHING_DRAWN.format(path=path))
    if shifts_alike(spec) and file.claims.get("engine") in ("counting", "enumeration"):
        claims.append(Claim("question", False, NOT_ALIKE))
        return Recheck(verdict=verdict, claims=tuple(claims))
    rows = _rows(path, file, spec, data)
    loaded = None
    if recorded:
        model = None
    else:
        loaded, problem = _load(path, model, spec, file, options.limits, rows, named=named)
        hashed = str(file.claims.get("model_sha256"))
        claims.append(Claim.check("model", problem, f"sha256 {hashed[:16]}..." if hashed else NO_HASH))
    if rows is not None and not isinstance(spec.population, Texts):
        claimed = str(file.claims.get("table_sha256"))
        problem = (
            f"{rows.source} has rows with sha256 {rows.sha256[:16]}..., the certificate is about {claimed[:16]}..."
        )
        detail = f"{len(rows.values):,} rows with sha256 {claimed[:16]}..."
        claims.append(Claim.check("table", problem if rows.sha256 != claimed else "", detail))
    check = QuestionCheck(path, file, spec, own is not None, loaded, options, joint)
    result = Recheck(verdict=verdict, random=random, files=used_files(spec, model if _is_file(model) else None, data))
    if (constant := file.claims.get("constant")) is not None:
        result = replace(result, constant=str(constant))
    counted = isinstance(spec.population, Texts) and file.claims.get("engine") == "counting"
    if isinstance(spec.population, Table) or counted:
        assert rows is not None
        result = check.by_rows(rows, claims, result)
    elif file.claims.get("engine") == "enumeration":
        result = check.by_enumeration(case_of(spec, loaded, rows), claims, result)
    else:
        result = check.by_rounds(case_of(spec, loaded, rows), claims, result)
    return replace(result, claims=tuple(claims))


def _must_ask_anew(path: Path, model: Any, questions: Sequence[Spec]) -> None:
    """Refuse a model that would repeat earlier answers; a random one repeats only those in a file.

    This is checked before the first question, because the others may reuse its answers.
    """
    if not isinstance(model, Journaled):
        return
    random = not all(spec.model.deterministic for spec in questions)
    if random and model.has_file:
        raise CertificateError(NOT_FRESH.format(path=path))
    if not random and len(getattr(model, "journal", ())):
        raise CertificateError(KEPT_ANSWERS.format(path=path))


def _spec_inside(path: Path, file: Certificate[Raw]) -> Spec:
    try:
        spec = parse_spec(file.spec)
    except SpecError as error:
        raise CertificateError(f"{path}: the spec inside is not valid: {error}") from None
    if isinstance(spec.population, UserFunction):
        raise CertificateError(f"{path}: its inputs were drawn by a Python function, which others cannot check")
    if isinstance(spec.population, BayesNetwork) and spec.population.path is not None:
        raise CertificateError(f"{path}: the nodes of its Bayesian network are missing")
    return spec


def _differing_keys(own: Spec, inside: Spec, data: Any) -> list[str]:
    """Return the keys whose meaning differs between two specs.

    The name of a file does not change the meaning, but frequencies from rows differ from those of a spec without rows.
    """
    ours, theirs = meaning_of(own), meaning_of(inside)
    # A table with default values has no text.
    differs = sorted(key for key in ours | theirs if ours.get(key) != theirs.get(key))
    if isinstance(own.population, Marginals) and isinstance(inside.population, Marginals):
        rows = own.population.path is not None or data is not None
        if rows != (inside.population.path is not None) and "population" not in differs:
            differs.append("population")
    return differs


def _rows(path: Path, file: Certificate[Raw], spec: Spec, data: Any) -> TableRows | None:
    if isinstance(spec.population, Texts):
        return read_rows(spec)
    needs = isinstance(spec.population, Table) or (
        isinstance(spec.population, Marginals)
        and (spec.population.path is not None or file.claims.get("table_sha256") is not None)
    )
    if not needs and data is not None:
        raise CertificateError(f"{path}: its inputs do not come from a table; leave --data (data=...) out")
    if not needs:
        return None
    if data is None:
        raise CertificateError(f"{path}: is about rows of a table; give the table with --data (data=... in Python)")
    return read_rows(spec, data)


def _load(
    path: Path,
    model: Any,
    spec: Spec,
    file: Certificate[Raw],
    limits: Limits | None,
    rows: TableRows | None,
    *,
    named: bool,
) -> tuple[Model | None, str]:
    """Return the model, if it is that of the certificate, or otherwise the problem."""
    if model is None:
        raise ModelError(MODEL_NEEDED.format(path=path))
    own = rows if isinstance(spec.population, Table) or (spec.text is not None and spec.text.raw) else None
    if _is_file(model) and not Path(model).exists():
        raise ModelError(
            FILE_NOT_FOUND.format(path=model, remedy="--model must name the network that the certificate is about")
        )
    claimed = str(file.claims.get("model_sha256"))
    try:
        loaded = load_model(model, spec, limits, allow_python=named, rows=own, network=bool(claimed))
    except ModelError as error:
        return None, str(error)
    if loaded.sha256 and not claimed:
        return None, ABOUT_NO_HASH.format(model=model, found=loaded.sha256[:16])
    if loaded.sha256 != claimed:
        return None, f"{model} has sha256 {loaded.sha256[:16]}..., the certificate is about {claimed[:16]}..."
    return loaded, ""


def _is_file(model: Any) -> bool:
    """Return whether a model is given by the path of a file."""
    return isinstance(model, str | Path) and not is_url(model) and not str(model).startswith(PYTHON)

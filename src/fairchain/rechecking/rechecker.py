"""An independent check of a certificate: which of its claims hold.

Nothing in the file is believed that can be computed again. The counts are compared with a re-run of the network, all
of it where that is affordable, else a random sample that the forger of a certificate cannot foresee.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from fairchain.certificate_format import (
    STREAM,
    Certificate,
    EnumerationEvidence,
    FamilyCertificate,
    RowEvidence,
    RunEvidence,
)
from fairchain.errors import CertificateError, ModelError, SpecError
from fairchain.input_space import input_space
from fairchain.messages import FILE_NOT_FOUND
from fairchain.models import Limits, Model, load_model
from fairchain.models.journal import Journaled
from fairchain.models.load import PYTHON, is_url
from fairchain.prepare import Case, case_of, read_question, read_rows
from fairchain.rechecking.contents import Claim, Raw, certificate_of, evidence_of, read_certificate
from fairchain.rechecking.expected import differences, expected_claims
from fairchain.rechecking.expected_rows import RowCount, count_rows, expected_row_claims
from fairchain.rechecking.files import UsedFile, locate_files, used_files
from fairchain.rechecking.forgery import smallest_forgery
from fairchain.rechecking.fresh import Fresh, fresh_run
from fairchain.rechecking.recount import (
    Recount,
    chain_problem,
    expected_enumeration_claims,
    in_stated_order,
    layout_problem,
)
from fairchain.rechecking.replay import Replay, ReplayedRule, contradiction, impossible
from fairchain.rechecking.rerun import Cost, Counter, Rerun, Sample
from fairchain.records import Record
from fairchain.spec import BayesNetwork, Marginals, Spec, Table, Texts, load_specs, parse_spec
from fairchain.spec.schema import Callable as CallablePopulation
from fairchain.spec.seeds import Seed, derive_seed, family_seed, meaning_of, seed_of
from fairchain.statements import family_conclusion, seed_phrase
from fairchain.tables import TableRows

NO_MEMBERS = "{path}: not a fairchain certificate: it has no members"
# A re-run whose forecast is longer is replaced by a sample, unless a full one is requested.
SECONDS = 60.0
# A certificate with so many choices that do not follow from the past is not read to its end.
MOST_FAULTS = 10

# Which keys of the claims each line of the result speaks of; what is left over belongs to "intervals".
QUESTION = (
    "engine",
    "threshold",
    "delta",
    "epsilon",
    "property",
    "shift",
    "kind",
    "rule",
    "seed",
    "population",
    "rows",
    "table_sha256",
)
VERDICT = ("verdict", "decision", "constant", "statement", "scope", "sound", "stopped")

Conclusion = Literal["CONFIRMED", "CONSISTENT", "REJECTED"]
BAD_SECONDS_OR_SEED = "seconds must be a number from 0 on, and seed a whole number from 0 to 2**63 - 1"
RANDOM_REMARK = (
    "The model is random by itself, so that its counts cannot be run again bit by bit: the question was repeated with "
    "fresh draws, which gave no verdict; --seconds allows more of them."
)
NO_HASH_REMARK = (
    "The model has no hash, so the seed follows from spec and data alone, and a model could have been built to pass "
    "with it; --fresh repeats the run with a seed of your own."
)
MODEL_NEEDED = "{path}: speaks of a network; name its file with --model"
NOT_FRESH = (
    "{path}: is about a random model, which must give new answers, and the journal may hold those of the certificate; "
    "leave --journal (journal=...) out"
)
KEPT_ANSWERS = (
    "{path}: its model is evaluated again, and this model holds answers from before; name a new journal, or "
    "give a new object without one"
)
NO_HASH = "a model without a hash, a service or code: the one that was given is evaluated again"
ABOUT_NO_HASH = (
    "{model} has sha256 {found}..., and the certificate is about a service, or about code that is random by itself"
)
NOTHING_DRAWN = "{path}: all inputs were enumerated, so nothing is drawn; leave --fresh out"


class Recheck(Record, frozen=True, kw_only=True):
    """All claims of a certificate, and what was done to check them.

    `holds` only if every claim does; `fraction` of its evaluations were run again. `seed_origin` is "derived",
    "chosen", or "spec" where it is derived from spec and data only, since the model has no hash; None for rows, which
    are not drawn. `sample` says what a sample of chunks is worth, if only a sample was
    run; `fresh` is the checker's own run, if one was requested or the model is `random` by itself, so that nothing can
    be run again bit by bit; `files` are those that were opened. `constant` is the one decision that the model is
    claimed to give, if the certificate is about a constant model. A certificate of several questions has a result for
    each of them in `members`.
    """

    verdict: str
    constant: str | None = None
    evaluations: int = 0
    fraction: float = 0.0
    seed_origin: str | None = None
    sample: Sample | None = None
    fresh: Fresh | None = None
    random: bool = False
    files: tuple[UsedFile, ...] = ()
    claims: tuple[Claim, ...] = ()
    members: tuple[Recheck, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every claim holds."""
        return all(claim.holds for claim in self.claims) and all(member.holds for member in self.members)

    @property
    def conclusion(self) -> Conclusion:
        """CONFIRMED if nothing is left to believe, REJECTED if a claim fails, else CONSISTENT.

        Nothing is left to believe after a whole re-run with a seed that the issuer could not choose, or after a run of
        the checker's own with the same verdict.
        """
        if not self.holds:
            return "REJECTED"
        if self.members:
            confirmed = all(member.conclusion == "CONFIRMED" for member in self.members)
            return "CONFIRMED" if confirmed else "CONSISTENT"
        independent = self.fresh is not None and self.fresh.agrees is True
        whole = self.sample is None and self.seed_origin not in ("chosen", "spec") and not self.random
        return "CONFIRMED" if independent or whole else "CONSISTENT"

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a certificate that is only CONSISTENT leaves open, a sentence each."""
        if self.conclusion != "CONSISTENT":
            return ()
        if self.members:
            return tuple(dict.fromkeys(remark for member in self.members for remark in member.remarks))
        remarks = [RANDOM_REMARK] if self.random else []
        if self.seed_origin == "chosen":
            remarks.append(
                "The seed was chosen, so the network could have been built, or the seed searched, to pass with it; "
                "--fresh repeats the run with a seed of your own."
            )
        if self.seed_origin == "spec" and not self.random:
            remarks.append(NO_HASH_REMARK)
        if self.sample is not None:
            sample, rests_on = self.sample, ""
            if sample.needed is not None and sample.needed_escape is not None:
                rests_on = (
                    f"; the verdict rests on at least {sample.needed:,} chunks, and forgeries in so many escape with "
                    f"probability {sample.needed_escape:.2g}"
                )
            remarks.append(
                f"{sample.sampled:,} of {sample.chunks:,} chunks were run again: one forged chunk escapes with "
                f"probability {sample.one_escapes:.2g}{rests_on}; --full runs everything."
            )
        return tuple(remarks)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        first = {"conclusion": self.conclusion, "holds": self.holds}
        return {**first, **super().to_dict(), "remarks": list(self.remarks)}


def recheck(
    certificate: str | Path,
    model: Any = None,
    *,
    data: Any = None,
    spec: Spec | str | Path | None = None,
    full: bool = False,
    fresh: bool = False,
    seconds: float = SECONDS,
    seed: int | None = None,
    limits: Limits | None = None,
    progress: Callable[[int, int], None] | None = None,
    report: Callable[[Cost], None] | None = None,
) -> Recheck:
    """Check a certificate against a network, without trusting its issuer.

    Parameters
    ----------
    certificate, model
        The two files; no model for a certificate about recorded decisions, or if the spec names it. If it is about a
        service, its address or a `Service`; if it is about random code, the function or `"python:module:name"`.
    data
        The rows that the certificate is about, if it is about rows: a file or a frame.
    spec
        The spec that the certificate should answer, if the checker has it from elsewhere. The files that it names are
        opened, and none that the certificate names.
    full
        Run every round again, whatever it takes.
    fresh
        Repeat the whole verification with a seed of the checker's own.
    seconds
        Run every round again if that is forecast to take at most so long, else a sample of chunks; also the budget of
        a fresh run.
    seed
        For a fresh run, or for choosing the sample; by default neither can be foreseen.
    limits
        Limits on an untrusted network.
    progress
        Called with evaluations done and wanted.
    report
        Called with the cost of the re-run before it starts.
    """
    if not seconds >= 0 or (seed is not None and not 0 <= seed < 2**63):
        raise CertificateError(BAD_SECONDS_OR_SEED)
    path = Path(certificate)
    _, file, intact = read_certificate(path)
    options: dict[str, Any] = {"full": full, "fresh": fresh, "seconds": seconds, "seed": seed, "limits": limits}
    options |= {"progress": progress, "report": report}
    if isinstance(file, FamilyCertificate):
        return _recheck_family(path, file, intact, model, data, spec, options)
    _must_ask_anew(path, model, [_spec_inside(path, file)])
    own = None if spec is None else read_question(spec)
    return _recheck_one(path, file, intact, model, data, own, None, **options)


def _recheck_family(
    path: Path,
    file: FamilyCertificate,
    intact: bool,
    model: str | Path | None,
    data: Any,
    spec: Spec | str | Path | None,
    options: dict[str, Any],
) -> Recheck:
    """Check each member, and what is claimed of all of them: the shares of delta, one model, one seed, the verdict."""
    members = [certificate_of(path, raw) for raw in file.members]
    if not members:
        raise CertificateError(NO_MEMBERS.format(path=path))
    inside = [_spec_inside(path, member) for _, member, _ in members]
    _must_ask_anew(path, model, inside)
    own: Sequence[Spec | None] = [None] * len(members)
    claims = [Claim("file", intact, "digest matches" if intact else "the digest does not match: the file was changed")]
    if spec is not None:
        specs = [spec] if isinstance(spec, Spec) else load_specs(spec)
        if len(specs) != len(members):
            problem = f"{len(members)} questions, and the given spec states {len(specs)}"
            return Recheck(verdict=file.verdict, claims=(*claims, Claim("questions", False, problem)))
        own = [read_question(each, guarantee__delta=each.guarantee.delta / len(specs)) for each in specs]
    spent = sum(Fraction(repr(each.guarantee.delta)) for each in inside)
    share = f"{len(inside)} questions spend {float(spent):g} together"
    allowed = Fraction(repr(file.delta)) * Fraction(1 + 1e-9)
    claims.append(Claim.check("delta", "" if spent <= allowed else f"{share}, above {file.delta:g}", share))
    hashes = {str(member.claims.get("model_sha256")) for _, member, _ in members}
    about = {key: text for each in inside for key, text in meaning_of(each).items() if key not in ("property",)}
    same = len(hashes) == 1 and all(
        {key: text for key, text in meaning_of(each).items() if key != "property"} == about for each in inside
    )
    problem = "" if same else "the questions differ in model, features, population or guarantee"
    claims.append(Claim.check("family", problem, "one model, one population, one guarantee"))
    told = [str(each.property) for each in inside]
    problem = "" if len(set(told)) == len(told) else "a question is answered twice"
    claims.append(Claim.check("questions", problem, f"{len(told)} different questions"))
    joint = family_seed(
        [
            derive_seed(each, str(member.claims.get("model_sha256")), member.claims.get("table_sha256"))
            for each, (_, member, _) in zip(inside, members, strict=True)
        ]
    )
    results = [
        _recheck_one(path, member, whole, model, data, mine, joint if len(members) > 1 else None, **options)
        for (_, member, whole), mine in zip(members, own, strict=True)
    ]
    expected = family_conclusion([result.verdict for result in results])
    problem = "" if file.verdict == expected else f"{file.verdict}, and the verdicts of the questions give {expected}"
    claims.append(Claim.check("verdict", problem, f"{expected}: follows from the verdicts of the questions"))
    return Recheck(
        verdict=file.verdict,
        evaluations=sum(result.evaluations for result in results),
        fraction=min(result.fraction for result in results),
        # One chosen seed is enough for a choice.
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
    joint: int | None,
    *,
    full: bool,
    fresh: bool,
    seconds: float,
    seed: int | None,
    limits: Limits | None,
    progress: Callable[[int, int], None] | None,
    report: Callable[[Cost], None] | None,
) -> Recheck:
    """Check the certificate of one question; `joint` is the seed of the family that it belongs to."""
    inside = _spec_inside(path, file)
    claims = [Claim("file", intact, "digest matches" if intact else "the digest does not match: the file was changed")]
    verdict = str(file.claims.get("verdict"))
    if own is not None and (differs := _differing_keys(own, inside, data)):
        claims.append(Claim("question", False, f"the given spec differs in {', '.join(differs)}"))
        return Recheck(verdict=verdict, claims=tuple(claims))
    recorded = isinstance(inside.population, Table) and inside.population.prediction is not None
    if recorded and model is not None:
        raise CertificateError(f"{path}: about recorded decisions, not about a model; leave --model (model=...) out")
    # A name in a spec, the checker's own too, never runs code and calls no service.
    named = model is not None
    spec, model, data = locate_files(path, inside, model=model, data=data, own=own)
    random = not spec.model.deterministic
    if fresh and (isinstance(spec.population, Table) or file.claims.get("engine") == "counting"):
        raise CertificateError(f"{path}: rows or texts were counted, so nothing is drawn; leave --fresh out")
    if fresh and file.claims.get("engine") == "enumeration":
        raise CertificateError(NOTHING_DRAWN.format(path=path))
    rows = _rows(path, file, spec, data)
    loaded = None
    if recorded:
        model = None
    else:
        loaded, problem = _load(path, model, spec, file, limits, rows, named=named)
        hashed = str(file.claims.get("model_sha256"))
        claims.append(Claim.check("model", problem, f"sha256 {hashed[:16]}..." if hashed else NO_HASH))
    if rows is not None and not isinstance(spec.population, Texts):
        claimed = str(file.claims.get("table_sha256"))
        problem = (
            f"{rows.source} has rows with sha256 {rows.sha256[:16]}..., the certificate is about {claimed[:16]}..."
        )
        detail = f"{len(rows.values):,} rows with sha256 {claimed[:16]}..."
        claims.append(Claim.check("table", problem if rows.sha256 != claimed else "", detail))
    check = _Check(path, file, spec, own is not None, loaded, full, fresh, seconds, seed, progress, report, joint)
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
    """Refuse a model that would repeat answers that it gave before; a random one repeats those in a file only.

    Before the first question: the others may use its answers.
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
    if isinstance(spec.population, CallablePopulation):
        raise CertificateError(f"{path}: its inputs were drawn by a Python function, which others cannot check")
    if isinstance(spec.population, BayesNetwork) and spec.population.path is not None:
        raise CertificateError(f"{path}: the nodes of its Bayesian network are missing")
    return spec


def _differing_keys(own: Spec, inside: Spec, data: Any) -> list[str]:
    """Return the keys in which two specs differ in meaning.

    A file's name changes no meaning, but frequencies of rows are not those of a spec without rows.
    """
    ours, theirs = meaning_of(own), meaning_of(inside)
    # A table at its defaults has no text.
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
        raise CertificateError(f"{path}: speaks of rows of a table; name it with --data (data=... in Python)")
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
    """Return the model, if it is the one that the certificate is about, or else what is wrong with it."""
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


@dataclass(frozen=True)
class _Check:
    """A certificate, the checker's own spec and model, and how much may be run again.

    `compared` says whether the spec was compared with one of the checker's own. The other options are those of
    `recheck`.
    """

    path: Path
    file: Certificate[Raw]
    spec: Spec
    compared: bool
    model: Model | None
    full: bool
    fresh: bool
    seconds: float
    seed: int | None
    progress: Callable[[int, int], None] | None
    report: Callable[[Cost], None] | None
    joint: int | None = None

    @property
    def decision(self) -> str:
        """FAIR, UNFAIR or UNDECIDED, as the certificate says."""
        return str(self.file.claims.get("decision"))

    def by_rounds(self, case: Case, claims: list[Claim], result: Recheck) -> Recheck:
        """Replay the bets from the counts, and run the rounds again."""
        evidence, said = evidence_of(self.path, self.file, RunEvidence), self.file.claims
        if isinstance(self.spec.population, Texts):
            claims.append(self._texts_claim(case.data_sha256))
        # From the claimed hash: there is no model here if the one that was given is another.
        seed = seed_of(self.spec, str(said.get("model_sha256")), case.data_sha256)
        if self.joint is not None and seed.origin == "derived":
            seed = Seed(self.joint, "derived")
        claims.append(_seed_claim(seed, evidence, hashed=bool(said.get("model_sha256"))))
        rule = ReplayedRule.of(case)
        replay, layout = _replay(evidence, rule, list(case.comparison.rows))
        layout = layout or contradiction(evidence, case.comparison, self.spec.model.labels)
        claims.append(Claim.check("layout", layout, f"{len(evidence.batches)} batches, each possible and in its place"))
        hashed = bool(said.get("model_sha256"))
        result = replace(result, seed_origin=seed.origin if hashed or seed.origin == "chosen" else "spec")
        if layout:
            return result
        if rule.paper:
            problem = "rule = paper carries no valid guarantee, so there is nothing that could hold"
            claims.append(Claim("verdict", False, problem))
            claims.append(Claim("intervals", False, "rule = paper gives no valid intervals"))
        else:
            expected = expected_claims(
                replay, case, evidence.labels, str(said.get("model_sha256")), seed, str(said.get("stopped"))
            )
            expected["table_sha256"] = case.data_sha256
            question, verdict, intervals = self._compare(expected, "the e-values computed again give")
            faults = replay.faults
            more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
            detail = "leaders, groups and batch sizes follow from earlier counts alone"
            choices = Claim.check("choices", faults[0] + more if faults else "", detail)
            claims += [question, choices, verdict, intervals]
        if self.model is None:
            return result
        if result.random:
            return replace(result, fresh=self._fresh_run(self.model, claims, rule, case))
        return self._run_again(self.model, claims, evidence, rule, case, result)

    def _fresh_run(self, model: Model, claims: list[Claim], rule: ReplayedRule, case: Case) -> Fresh:
        """Verify again with a seed of the checker's own."""
        options: dict[str, Any] = {"seed": self.seed, "seconds": self.seconds, "progress": self.progress}
        fresh = fresh_run(model, case, rule, claimed=self.decision, **options)
        claims.append(fresh.claim(self.decision))
        return fresh

    def _texts_claim(self, found: str | None) -> Claim:
        """Return the claim that corpus, words, terms and synonyms, with this hash, are those of the certificate."""
        claimed = str(self.file.claims.get("table_sha256"))
        problem = (
            "the corpus, the words, the terms or the synonyms are not those that the certificate is about "
            f"({str(found)[:16]}..., not {claimed[:16]}...)"
        )
        detail = f"corpus, words, terms and synonyms with sha256 {claimed[:16]}..."
        return Claim.check("texts", "" if found == claimed else problem, detail)

    def _run_again(
        self,
        model: Model,
        claims: list[Claim],
        evidence: RunEvidence,
        rule: ReplayedRule,
        case: Case,
        result: Recheck,
    ) -> Recheck:
        """Run the rounds again, and a fresh run if it is requested."""
        # Inputs are drawn from the seed that the counts claim: whether that is the right one is a claim of its own.
        counter = Counter(model, case, evidence.seed, coupled=not rule.paper)
        rerun = Rerun(counter, evidence.batches, full=self.full, seconds=self.seconds, seed=self.seed)
        claim, cost = rerun.check(self.report, self.progress)
        claims.append(claim)
        if evidence.look is not None:
            claims.append(rerun.look(evidence.look))
        sample = None
        if claim.holds and not cost.whole:
            # What was drawn after the decision only makes intervals narrower.
            deciding = [batch for batch in evidence.batches if rule.epsilon is not None or batch.phase == 0]
            sample = Sample.of(cost, smallest_forgery(deciding, rule, self.decision))
        fraction = rerun.evaluations / cost.evaluations if cost.evaluations and claim.holds else float(claim.holds)
        fresh = None
        if self.fresh and not rule.paper:
            fresh = self._fresh_run(model, claims, rule, case)
        return replace(result, evaluations=rerun.evaluations, fraction=fraction, sample=sample, fresh=fresh)

    def by_enumeration(self, case: Case, claims: list[Claim], result: Recheck) -> Recheck:
        """Evaluate and weigh the inputs again, and compute every number from the weights."""
        evidence, said = evidence_of(self.path, self.file, EnumerationEvidence), self.file.claims
        if self.model is None:
            return result
        try:
            inputs = in_stated_order(evidence, input_space(case), case)
        except SpecError as error:
            claims.append(Claim("layout", False, str(error)))
            return result
        layout = layout_problem(evidence, inputs, case)
        detail = f"{len(evidence.segments):,} segments, {evidence.done:,} of {inputs.points:,} points in their order"
        claims.append(Claim.check("layout", layout, detail))
        if layout:
            return result
        model_sha256 = str(said.get("model_sha256"))
        problem = chain_problem(evidence, case, model_sha256)
        claims.append(Claim.check("chain", problem, "every segment continues the hash of those before"))
        expected, problem = expected_enumeration_claims(evidence, inputs, case, model_sha256, str(said.get("stopped")))
        claims.append(Claim.check("weights", problem, "no part has more weight than its inputs"))
        claims += self._compare(expected, "the weights give")
        recount = Recount(self.model, case, inputs, evidence, full=self.full, seconds=self.seconds, seed=self.seed)
        claim, cost = recount.check(self.report, self.progress)
        claims.append(claim)
        sample = Sample.of(cost, None) if claim.holds and not cost.whole else None
        fraction = recount.evaluations / cost.evaluations if cost.evaluations and claim.holds else float(claim.holds)
        return replace(result, evaluations=recount.evaluations, fraction=fraction, sample=sample)

    def by_rows(self, rows: TableRows, claims: list[Claim], result: Recheck) -> Recheck:
        """Evaluate every row again, and compute every number from the counts."""
        evidence = evidence_of(self.path, self.file, RowEvidence)
        if isinstance(self.spec.population, Texts):
            claims.append(self._texts_claim(rows.sha256))
        if self.model is None and rows.recorded is None:
            return result
        try:
            count = count_rows(rows, self.spec, self.model, self.progress)
        except (ModelError, CertificateError) as error:
            claims.append(Claim("re-run", False, str(error)))
            return result
        if result.random:
            return self._rows_answered_again(rows, count, evidence, claims, result)
        outcomes = list(count.comparison.rows)
        again = RowEvidence(len(rows.values), outcomes, count.trials, count.successes, count.labels)
        problem = "" if evidence == again else "the rows give other counts than the certificate says"
        detail = f"everything: {count.evaluations:,} evaluations, every count the same"
        claims.append(Claim.check("re-run", problem, detail))
        phrase = None
        if isinstance(self.spec.population, Texts):
            phrase = str(case_of(self.spec, self.model, rows).population)
        expected = expected_row_claims(count, self.spec, rows, str(self.file.claims.get("model_sha256")), phrase)
        claims += self._compare(expected, "every row counted again gives")
        return replace(result, evaluations=count.evaluations, fraction=1.0)

    def _rows_answered_again(
        self, rows: TableRows, again: RowCount, evidence: RowEvidence, claims: list[Claim], result: Recheck
    ) -> Recheck:
        """Check the arithmetic of the certificate's counts, and compare its verdict with that of the new answers."""
        possible = evidence.trials == again.trials and len(evidence.successes) == len(again.successes)
        possible = possible and all(
            len(counts) == len(evidence.trials)
            and all(0 <= c <= n for c, n in zip(counts, evidence.trials, strict=True))
            for counts in evidence.successes
        )
        claims.append(
            Claim.check("layout", "" if possible else "counts that these rows cannot give", "possible counts")
        )
        if not possible:
            return result
        claimed = dataclasses.replace(
            again, trials=evidence.trials, successes=evidence.successes, labels=evidence.labels
        )
        own = expected_row_claims(again, self.spec, rows, "", None)
        claims += self._compare(expected_row_claims(claimed, self.spec, rows, "", None), "its counts give")
        fresh = Fresh.of_rows(own, self.decision, again.evaluations)
        claims.append(fresh.claim(self.decision))
        return replace(result, evaluations=again.evaluations, fresh=fresh)

    def _compare(self, expected: dict[str, Any], how: str) -> list[Claim]:
        """Compare what the certificate says with what the counts give: the question, the verdict and the intervals."""
        said = self.file.claims
        for later in ("tipping", "decision_rounds", "decision_evaluations", "shift"):
            # Certificates of before there were these claims say nothing about them; no question had a shift then.
            if later not in said and not (later == "shift" and expected["shift"]):
                del expected[later]
        wrong = differences(said, expected)
        of_question = [place for place in wrong if place.startswith(QUESTION)]
        of_verdict = [place for place in wrong if place.startswith(VERDICT)]
        others = [place for place in wrong if place not in of_question + of_verdict]
        origin = ", as in the given spec" if self.compared else " (the certificate's own; compare with yours by --spec)"
        question = f"the claims speak of another {', '.join(of_question)} than the spec inside" if of_question else ""
        verdict = f"not what the counts give, which is {expected['verdict']}: {', '.join(of_verdict)}"
        intervals = f"not what the counts give: {', '.join(others[:5])}" if others else ""
        return [
            Claim.check("question", question, f"{self.spec.property}{origin}"),
            Claim.check("verdict", verdict if of_verdict else "", f"{said.get('verdict')}: {how} the same answer"),
            Claim.check("intervals", intervals, "every number computed again"),
        ]


def _is_file(model: Any) -> bool:
    """Return whether a model is given by the path of a file."""
    return isinstance(model, str | Path) and not is_url(model) and not str(model).startswith(PYTHON)


def _replay(evidence: RunEvidence, rule: ReplayedRule, outcomes: list[int]) -> tuple[Replay, str]:
    """Go through all batches; the second part says why the layout is impossible, or is empty."""
    replay = Replay(rule)
    if evidence.stream != STREAM or evidence.coupled == rule.paper:
        return replay, "the random stream, or the coupling of groups, is not that of this rule"
    if evidence.outcomes != outcomes:
        return replay, f"labels {evidence.outcomes} were counted, the question is about {outcomes}"
    chunk = 0
    for number, batch in enumerate(evidence.batches):
        if batch.chunk != chunk:
            return replay, f"batch {number} starts at chunk {batch.chunk}, after chunk {chunk - 1}"
        why = impossible(batch, rule)
        if why:
            return replay, f"batch {number} has {why}"
        chunk += batch.chunks
        replay.take(number, batch, last=number == len(evidence.batches) - 1)
        if len(replay.faults) >= MOST_FAULTS:
            break
    return replay, ""


def _seed_claim(seed: Seed, evidence: RunEvidence, *, hashed: bool) -> Claim:
    """Return the claim that the rounds were drawn with the seed that the spec states, or that is derived from it."""
    problem = ""
    if evidence.seed != seed.value and seed.origin == "chosen":
        problem = f"{evidence.seed} was drawn with, the spec inside says {seed.value}"
    elif evidence.seed != seed.value:
        problem = (
            f"{evidence.seed} was drawn with, and network, spec and data give {seed.value}; a seed that was chosen "
            "must be stated in the spec inside"
        )
    phrase = seed_phrase(seed.value, seed.origin, hashed=hashed)
    return Claim.check("seed", problem, phrase.removeprefix("seed "))

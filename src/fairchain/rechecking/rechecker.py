"""An independent check of a certificate: which of its claims hold.

Nothing in the file is believed that can be computed again. The counts are compared with a re-run of the network, all
of it where that is affordable, else a random sample that the forger of a certificate cannot foresee.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from fairchain.certificate_format import STREAM, Certificate, RowEvidence, RunEvidence, digest
from fairchain.errors import CertificateError, ModelError, SpecError
from fairchain.models import Limits, Model, load_model
from fairchain.prepare import Case, case_of, read_question, read_rows
from fairchain.rechecking.contents import Claim, Raw, evidence_of, read_certificate
from fairchain.rechecking.expected import differences, expected_claims
from fairchain.rechecking.expected_rows import count_rows, expected_row_claims
from fairchain.rechecking.files import Given, UsedFile, used_files
from fairchain.rechecking.forgery import smallest_forgery
from fairchain.rechecking.fresh import Fresh, fresh_run
from fairchain.rechecking.labels import contradiction
from fairchain.rechecking.replay import Replay, ReplayedRule, impossible
from fairchain.rechecking.rerun import Cost, Counter, Rerun, Sample, worth_of
from fairchain.spec import Marginals, Network, Spec, Table, Texts, parse_spec
from fairchain.spec.properties import limit_of
from fairchain.spec.schema import Callable as CallablePopulation
from fairchain.spec.seeds import Seed, meaning_of, seed_of
from fairchain.statements import seed_phrase
from fairchain.tables import TableRows

# A re-run whose forecast is longer is replaced by a sample, unless everything is asked for.
SECONDS = 60.0
# A certificate with so many choices that do not follow from the past is not read to its end.
MOST_FAULTS = 10

# Which keys of the claims each line of the result speaks of; what is left over belongs to "intervals".
QUESTION = ("threshold", "delta", "epsilon", "property", "kind", "rule", "seed", "population", "rows", "table_sha256")
VERDICT = ("verdict", "decision", "constant", "statement", "scope", "sound", "stopped")

Conclusion = Literal["CONFIRMED", "CONSISTENT", "REJECTED"]


@dataclass(frozen=True)
class Recheck:
    """All claims of a certificate, and what was done to check them.

    `holds` only if every claim does; `fraction` of its evaluations were run again. `seed_origin` is "derived" or
    "chosen", None for rows, which are not drawn. `sample` says what a sample of chunks is worth, if only a sample was
    run; `fresh` is the checker's own run, if one was asked for; `files` are those that were opened. `constant` is the
    one decision that the model is claimed to give, if the certificate is about a constant model.
    """

    verdict: str
    claims: tuple[Claim, ...]
    evaluations: int = 0
    fraction: float = 0.0
    seed_origin: str | None = None
    sample: Sample | None = None
    fresh: Fresh | None = None
    files: tuple[UsedFile, ...] = ()
    constant: str | None = None

    @property
    def holds(self) -> bool:
        """Whether every claim holds."""
        return all(claim.holds for claim in self.claims)

    @property
    def conclusion(self) -> Conclusion:
        """CONFIRMED if nothing is left to believe, REJECTED if a claim fails, else CONSISTENT.

        Nothing is left to believe after a whole re-run with a seed that the issuer could not choose, or after a run of
        the checker's own that came to the same verdict.
        """
        if not self.holds:
            return "REJECTED"
        independent = self.fresh is not None and self.fresh.agrees is True
        whole = self.sample is None and self.seed_origin != "chosen"
        return "CONFIRMED" if independent or whole else "CONSISTENT"

    @property
    def remarks(self) -> tuple[str, ...]:
        """What a certificate that is only CONSISTENT leaves open, a sentence each."""
        if self.conclusion != "CONSISTENT":
            return ()
        remarks = []
        if self.seed_origin == "chosen":
            remarks.append(
                "The seed was chosen, so the network could have been built, or the seed searched, to pass with it; "
                "--fresh asks again with a seed of your own."
            )
        if self.sample is not None:
            sample = self.sample
            remarks.append(
                f"{sample.sampled:,} of {sample.chunks:,} chunks were run again: one forged chunk escapes with "
                f"probability {sample.one_escapes:.2g}{_rests_on(sample)}; --full runs everything."
            )
        return tuple(remarks)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "conclusion": self.conclusion,
            "holds": self.holds,
            "verdict": self.verdict,
            "constant": self.constant,
            "evaluations": self.evaluations,
            "fraction": self.fraction,
            "seed_origin": self.seed_origin,
            "sample": None if self.sample is None else asdict(self.sample),
            "fresh": None if self.fresh is None else self.fresh.to_dict(),
            "files": [asdict(file) for file in self.files],
            "claims": [{"name": c.name, "holds": c.holds, "detail": c.detail} for c in self.claims],
            "remarks": list(self.remarks),
        }


def _rests_on(sample: Sample) -> str:
    if sample.needed is None or sample.needed_escape is None:
        return ""
    return (
        f"; the verdict rests on at least {sample.needed:,} chunks, and forgeries in so many escape with probability "
        f"{sample.needed_escape:.2g}"
    )


@dataclass(frozen=True)
class Effort:
    """How much a checker is willing to run, and whom to tell."""

    full: bool
    fresh: bool
    seconds: float
    seed: int | None
    progress: Callable[[int, int], None] | None
    report: Callable[[Cost], None] | None


def recheck(
    certificate: str | Path,
    model: str | Path | None = None,
    *,
    table: Any = None,
    spec: Spec | str | Path | None = None,
    full: bool = False,
    fresh: bool = False,
    seconds: float = SECONDS,
    seed: int | None = None,
    limits: Limits | None = None,
    progress: Callable[[int, int], None] | None = None,
    report: Callable[[Cost], None] | None = None,
) -> Recheck:
    """Check a certificate against a network, without trusting whoever wrote it.

    Parameters
    ----------
    certificate, model
        The two files; no model for a certificate about recorded decisions, or if the spec names it.
    table
        The rows that the certificate speaks of, if it speaks of any: a file or a frame.
    spec
        The question that the certificate ought to answer, if the checker has it from elsewhere. Its own files are
        opened, and none that the certificate brings.
    full
        Run every round again, whatever it takes.
    fresh
        Ask the whole question again, with a seed of the checker's own.
    seconds
        Run every round again if that is forecast to take at most so long, else a sample of chunks; also the budget of
        a fresh run.
    seed
        For a fresh run, or for choosing the sample; by default neither can be foreseen.
    limits
        What an untrusted network may ask for.
    progress
        Called with evaluations done and wanted.
    report
        Called with the cost of the re-run before it starts.
    """
    if not seconds >= 0 or (seed is not None and not 0 <= seed < 2**63):
        raise CertificateError("seconds must be a number from 0 on, and seed a whole number from 0 to 2**63 - 1")
    path = Path(certificate)
    raw, file = read_certificate(path)
    inside = _asked(path, file)
    claims = [_file_claim(path, raw, file)]
    own = None if spec is None else read_question(spec)
    if own is not None:
        differs = _differences(own, inside, table)
        if differs:
            claims.append(Claim("question", False, f"the given spec differs in {', '.join(differs)}"))
            return Recheck(str(file.claims.get("verdict")), tuple(claims))
    recorded = isinstance(inside.population, Table) and inside.population.prediction is not None
    if recorded and model is not None:
        raise CertificateError(f"{path}: about recorded decisions, not about a model; leave --model (model=...) out")
    spec, model, table = Given(model, table, own).located(path, inside)
    if fresh and isinstance(spec.population, Table):
        raise CertificateError(f"{path}: speaks of rows, and nothing is drawn from rows; leave --fresh out")
    people = _people(path, file, spec, table)
    loaded = None
    if recorded:
        model = None
    else:
        loaded, claim = _model_claim(path, model, spec, file, limits)
        claims.append(claim)
    if people is not None:
        claims.append(_table_claim(people, file))
    checker = _Checker(path, file, spec, own is not None, loaded, people)
    effort = Effort(full, fresh, seconds, seed, progress, report)
    result = (
        checker.by_rows(claims, effort) if isinstance(spec.population, Table) else checker.by_rounds(claims, effort)
    )
    constant = file.claims.get("constant")
    used = used_files(spec, model, table)
    return replace(result, files=used, constant=None if constant is None else str(constant))


def _differences(own: Spec, inside: Spec, table: Any) -> list[str]:
    """The tables of two specs that ask different questions.

    A file's name changes no meaning, but frequencies of rows are not those of a spec without rows.
    """
    theirs = meaning_of(inside)
    differs = [key for key, text in meaning_of(own).items() if text != theirs[key]]
    if isinstance(own.population, Marginals) and isinstance(inside.population, Marginals):
        rows = own.population.path is not None or table is not None
        if rows != (inside.population.path is not None) and "population" not in differs:
            differs.append("population")
    return differs


def _asked(path: Path, file: Certificate[Raw]) -> Spec:
    try:
        spec = parse_spec(file.spec)
    except SpecError as error:
        raise CertificateError(f"{path}: the spec inside is not valid: {error}") from None
    if isinstance(spec.population, CallablePopulation):
        raise CertificateError(f"{path}: speaks of people whom a Python function drew, which nobody else can check")
    if isinstance(spec.population, Network) and spec.population.path is not None:
        raise CertificateError(f"{path}: the nodes of its Bayesian network are missing")
    return spec


def _people(path: Path, file: Certificate[Raw], spec: Spec, table: Any) -> TableRows | None:
    needs = isinstance(spec.population, Table) or (
        isinstance(spec.population, Marginals)
        and (spec.population.path is not None or file.claims.get("table_sha256") is not None)
    )
    if not needs and table is not None and not isinstance(spec.population, Texts):
        raise CertificateError(f"{path}: its inputs do not come from a table; leave --data (table=...) out")
    if not needs:
        return None
    if table is None:
        raise CertificateError(f"{path}: speaks of rows of a table; name it with --data (table=... in Python)")
    return read_rows(spec, table)


@dataclass(frozen=True)
class _Checker:
    """A certificate and everything that a checker has; `compared` if the question is that of the checker's own spec."""

    path: Path
    file: Certificate[Raw]
    spec: Spec
    compared: bool
    model: Model | None
    people: TableRows | None

    @property
    def verdict(self) -> str:
        """What the certificate says."""
        return str(self.file.claims.get("verdict"))

    @property
    def decision(self) -> str:
        """The answer to the question alone, as the certificate says it."""
        return str(self.file.claims.get("decision"))

    def by_rounds(self, claims: list[Claim], effort: Effort) -> Recheck:
        """Replay the bets from the counts, and run the rounds again."""
        evidence = evidence_of(self.path, self.file, RunEvidence)
        case = case_of(self.spec, self.model, self.people)
        data_sha256 = case.data_sha256
        if isinstance(self.spec.population, Texts):
            claims.append(_texts_claim(data_sha256, self.file))
        # From the claimed hash: there is no model here if the one that was given is another.
        seed = seed_of(self.spec, str(self.file.claims.get("model_sha256")), data_sha256)
        claims.append(_seed_claim(seed, evidence))
        question = _question(case)
        replay, layout = _replay(evidence, question, list(case.comparison.rows))
        detail = f"{len(evidence.batches)} batches, each possible and in its place"
        if not layout:
            layout = contradiction(evidence, case.comparison, self.spec.model.labels)
        claims.append(Claim("layout", not layout, layout or detail))
        result = Recheck(self.verdict, (), seed_origin=seed.origin)
        if not layout:
            claims += self._claims_from_counts(replay, case, evidence.labels, seed, data_sha256)
            if self.model is not None:
                result = self._run_again(self.model, claims, evidence, replay, case, effort, result)
        return replace(result, claims=tuple(claims))

    def _run_again(
        self,
        model: Model,
        claims: list[Claim],
        evidence: RunEvidence,
        replay: Replay,
        case: Case,
        effort: Effort,
        result: Recheck,
    ) -> Recheck:
        """The re-run, and the fresh run if one is wanted."""
        question = replay.question
        # Inputs are drawn from the seed that the counts claim: whether that is the right one is a claim of its own.
        counter = Counter(model, case, evidence.seed, coupled=not question.paper)
        rerun = Rerun(counter, evidence.batches, full=effort.full, seconds=effort.seconds, seed=effort.seed)
        claim, cost = rerun.check(effort.report, effort.progress)
        claims.append(claim)
        if evidence.look is not None:
            claims.append(rerun.look(evidence.look))
        sample = None
        if claim.holds and not cost.whole:
            sample = worth_of(cost, smallest_forgery(evidence.batches, question, self.decision))
        fraction = rerun.evaluations / cost.evaluations if cost.evaluations and claim.holds else float(claim.holds)
        result = replace(result, evaluations=rerun.evaluations, fraction=fraction, sample=sample)
        if not effort.fresh or question.paper:
            return result
        fresh = fresh_run(
            model,
            case,
            question,
            claimed=self.decision,
            seed=effort.seed,
            seconds=effort.seconds,
            progress=effort.progress,
        )
        claims.append(fresh.claim(self.decision))
        return replace(result, fresh=fresh)

    def _claims_from_counts(
        self, replay: Replay, case: Case, labels: Sequence[int], seed: Seed, data_sha256: str | None
    ) -> list[Claim]:
        """The question, the choices, the verdict and the intervals: what the counts, if true, allow to be said."""
        if replay.question.paper:
            return [
                Claim("verdict", False, "rule = paper carries no valid guarantee, so there is nothing that could hold"),
                Claim("intervals", False, "rule = paper gives no valid intervals"),
            ]
        said = self.file.claims
        expected = expected_claims(replay, case, labels, str(said.get("model_sha256")), seed, str(said.get("stopped")))
        expected["table_sha256"] = data_sha256
        wrong = differences(said, expected)
        question, verdict, intervals = self._sorted(wrong, expected, "the e-values computed again give")
        return [question, _choices_claim(replay), verdict, intervals]

    def by_rows(self, claims: list[Claim], effort: Effort) -> Recheck:
        """Ask about every row again, count in our own way, and compute every number from that."""
        evidence = evidence_of(self.path, self.file, RowEvidence)
        said = self.file.claims
        assert self.people is not None
        if self.model is None and self.people.recorded is None:
            return Recheck(self.verdict, tuple(claims))
        try:
            count = count_rows(self.people, self.spec, self.model, effort.progress)
        except (ModelError, CertificateError) as error:
            return Recheck(self.verdict, (*claims, Claim("re-run", False, str(error))))
        found = [evidence.trials, evidence.successes, evidence.labels, evidence.outcomes, evidence.rows]
        same = found == [
            count.trials,
            count.successes,
            count.labels,
            list(count.comparison.rows),
            len(self.people.values),
        ]
        detail = f"everything: {count.evaluations:,} evaluations, every count the same"
        claims.append(Claim("re-run", same, detail if same else "the rows give other counts than the certificate says"))
        expected = expected_row_claims(count, self.spec, self.people, str(said.get("model_sha256")))
        claims += self._sorted(differences(said, expected), expected, "every row counted again gives")
        return Recheck(self.verdict, tuple(claims), count.evaluations, 1.0)

    def _sorted(self, wrong: list[str], expected: dict[str, Any], how: str) -> list[Claim]:
        """Differences between what is said and what should be said, as claims about question, verdict, intervals."""
        of_question = [place for place in wrong if place.startswith(QUESTION)]
        of_verdict = [place for place in wrong if place.startswith(VERDICT)]
        others = [place for place in wrong if place not in of_question + of_verdict]
        verdict = f"{self.file.claims.get('verdict')}: {how} the same answer"
        if of_verdict:
            verdict = f"not what the counts give, which is {expected['verdict']}: {', '.join(of_verdict)}"
        intervals = f"not what the counts give: {', '.join(others[:5])}" if others else "every number computed again"
        return [
            _question_claim(self.spec, self.compared, of_question),
            Claim("verdict", not of_verdict, verdict),
            Claim("intervals", not others, intervals),
        ]


def _question(case: Case) -> ReplayedRule:
    guarantee, comparison = case.spec.guarantee, case.comparison
    return ReplayedRule(
        groups=len(comparison.counted),
        outcomes=len(comparison.rows),
        threshold=float(limit_of(case.spec)),
        delta=guarantee.delta,
        epsilon=guarantee.epsilon,
        paper=guarantee.rule == "paper",
        compared=comparison.compared,
        relative=comparison.measure == "ratio",
    )


def _replay(evidence: RunEvidence, question: ReplayedRule, outcomes: list[int]) -> tuple[Replay, str]:
    """Go through all batches; the second part says why the layout is impossible, or is empty."""
    replay = Replay(question)
    if evidence.stream != STREAM or evidence.coupled == question.paper:
        return replay, "the random stream, or the coupling of groups, is not that of this rule"
    if evidence.outcomes != outcomes:
        return replay, f"labels {evidence.outcomes} were counted, the question is about {outcomes}"
    chunk = 0
    for number, batch in enumerate(evidence.batches):
        if batch.chunk != chunk:
            return replay, f"batch {number} starts at chunk {batch.chunk}, after chunk {chunk - 1}"
        why = impossible(batch, question)
        if why:
            return replay, f"batch {number} has {why}"
        chunk += -(-batch.rounds // batch.chunk_rounds)
        replay.take(number, batch, last=number == len(evidence.batches) - 1)
        if len(replay.faults) >= MOST_FAULTS:
            break
    return replay, ""


def _file_claim(path: Path, raw: dict[str, Any], file: Certificate[Raw]) -> Claim:
    try:
        same = digest(raw) == file.digest
    except RecursionError:
        raise CertificateError(f"{path}: not a fairchain certificate: nested too deeply") from None
    return Claim("file", same, "digest matches" if same else "the digest does not match: the file was changed")


def _seed_claim(seed: Seed, evidence: RunEvidence) -> Claim:
    """The rounds were drawn with the seed that the spec states, or that follows from what is asked."""
    if evidence.seed == seed.value:
        return Claim("seed", True, seed_phrase(seed.value, seed.origin).removeprefix("seed "))
    if seed.origin == "chosen":
        return Claim("seed", False, f"{evidence.seed} was drawn with, the spec inside says {seed.value}")
    return Claim(
        "seed",
        False,
        f"{evidence.seed} was drawn with, and network, spec and data give {seed.value}; a seed that was chosen must be "
        "stated in the spec inside",
    )


def _model_claim(
    path: Path, model: str | Path | None, spec: Spec, file: Certificate[Raw], limits: Limits | None
) -> tuple[Model | None, Claim]:
    if model is None:
        raise ModelError(f"{path}: speaks of a network; name its file with --model")
    model = Path(model)
    if not model.exists():
        raise ModelError(f"{model}: no such file; --model must name the network that the certificate speaks of")
    claimed = str(file.claims.get("model_sha256"))
    try:
        loaded = load_model(model, spec, limits)
    except ModelError as error:
        return None, Claim("model", False, str(error))
    if loaded.sha256 != claimed:
        return None, Claim(
            "model", False, f"{model} has sha256 {loaded.sha256[:16]}..., the certificate is about {claimed[:16]}..."
        )
    return loaded, Claim("model", True, f"sha256 {claimed[:16]}...")


def _table_claim(people: TableRows, file: Certificate[Raw]) -> Claim:
    claimed = str(file.claims.get("table_sha256"))
    if people.sha256 != claimed:
        found = f"{people.source} has rows with sha256 {people.sha256[:16]}..."
        return Claim("table", False, f"{found}, the certificate is about {claimed[:16]}...")
    return Claim("table", True, f"{len(people.values):,} rows with sha256 {claimed[:16]}...")


def _texts_claim(found: str | None, file: Certificate[Raw]) -> Claim:
    claimed = file.claims.get("table_sha256")
    if found != claimed:
        differ = "the corpus, the words, the terms or the synonyms are not those that the certificate is about"
        return Claim("texts", False, f"{differ} ({str(found)[:16]}..., not {str(claimed)[:16]}...)")
    return Claim("texts", True, f"corpus, words, terms and synonyms with sha256 {str(claimed)[:16]}...")


def _question_claim(spec: Spec, compared: bool, wrong: list[str]) -> Claim:
    """The claims speak of the spec inside, and that is the question somebody wanted answered."""
    if wrong:
        return Claim("question", False, f"the claims speak of another {', '.join(wrong)} than the spec inside")
    if not compared:
        return Claim("question", True, f"{spec.property} (the certificate's own; compare with yours by --spec)")
    return Claim("question", True, f"{spec.property}, as in the given spec")


def _choices_claim(replay: Replay) -> Claim:
    """Every choice was made from the past alone."""
    if replay.faults:
        more = f" (and {len(replay.faults) - 1} more)" if len(replay.faults) > 1 else ""
        return Claim("choices", False, replay.faults[0] + more)
    return Claim("choices", True, "leaders, groups and batch sizes follow from earlier counts alone")

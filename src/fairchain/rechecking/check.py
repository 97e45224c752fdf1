"""An independent check of a certificate: which of its claims hold.

Nothing in the file is believed that can be computed again. The counts are compared with a re-run of the network, all
of it or a random sample, that the forger of a certificate cannot foresee.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from fairchain.certificate_format import STREAM, digest
from fairchain.errors import CertificateError, ModelError, SpecError
from fairchain.model import Limits, Model, load_model
from fairchain.population.build import sha256_of
from fairchain.population.inline import with_nodes
from fairchain.rechecking.files import with_files
from fairchain.rechecking.numbers import differences, expected_claims
from fairchain.rechecking.record import CertificateFile, Claim, Evidence, RowEvidence, evidence_of, read_certificate
from fairchain.rechecking.replay import Question, Replay, impossible
from fairchain.rechecking.rerun import Rerun
from fairchain.rechecking.rows import count_rows, expected_row_claims
from fairchain.rechecking.sources import Sources, fair_limit, sources_of
from fairchain.spec import Marginals, Network, Spec, Table, Texts, load_spec, parse_spec
from fairchain.spec.schema import Callable as CallablePopulation
from fairchain.tables import People
from fairchain.wording import table_name

# What a recheck re-runs without being asked for more: a second or two for a small network.
EVALUATIONS = 2_000_000

# Which keys of the claims each line of the result speaks of; what is left over belongs to "intervals".
QUESTION = ("threshold", "delta", "epsilon", "property", "kind", "rule", "seed", "population", "rows", "table_sha256")
VERDICT = ("verdict", "statement", "scope", "sound", "stopped")


@dataclass(frozen=True)
class Recheck:
    """All claims of a certificate. `holds` only if every one does; `fraction` of its evaluations were run again."""

    verdict: str
    claims: tuple[Claim, ...]
    evaluations: int
    fraction: float

    @property
    def holds(self) -> bool:
        """Whether every claim holds."""
        return all(claim.holds for claim in self.claims)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        return {
            "holds": self.holds,
            "verdict": self.verdict,
            "evaluations": self.evaluations,
            "fraction": self.fraction,
            "claims": [{"name": c.name, "holds": c.holds, "detail": c.detail} for c in self.claims],
        }


def recheck(
    certificate: str | Path,
    model: str | Path | None = None,
    *,
    table: Any = None,
    spec: Spec | str | Path | None = None,
    full: bool = False,
    evaluations: int = EVALUATIONS,
    seed: int | None = None,
    limits: Limits | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Recheck:
    """Check a certificate against a network, without trusting whoever wrote it.

    Parameters
    ----------
    certificate, model
        The two files; no model for a certificate about recorded decisions.
    table
        The rows that the certificate speaks of, if it speaks of any: a file or a frame.
    spec
        The question that the certificate ought to answer, if the checker has it from elsewhere.
    full
        Re-run every round, not a sample.
    evaluations
        About how many evaluations a sample may take.
    seed
        For choosing the sample; by default the choice cannot be foreseen.
    limits
        What an untrusted network may ask for.
    progress
        Called with evaluations done and wanted.
    """
    path = Path(certificate)
    raw, file = read_certificate(path)
    asked = with_files(_asked(path, file), path, model, table)
    people = _people(path, file, asked, table)
    loaded, claims = None, [_file_claim(raw, file)]
    if not (isinstance(asked.population, Table) and asked.population.prediction is not None):
        loaded, claim = _model_claim(path, model, asked, file, limits)
        claims.append(claim)
    if people is not None:
        claims.append(_table_claim(people, file))
    checker = _Checker(path, file, asked, spec, loaded, people)
    if isinstance(asked.population, Table):
        return checker.by_rows(claims, progress)
    return checker.by_rounds(claims, math.inf if full else evaluations, seed, progress)


def _asked(path: Path, file: CertificateFile) -> Spec:
    try:
        spec = parse_spec(file.spec)
    except SpecError as error:
        raise CertificateError(f"{path}: the spec inside is not valid: {error}") from None
    if isinstance(spec.population, CallablePopulation):
        raise CertificateError(f"{path}: speaks of people whom a Python function drew, which nobody else can check")
    if isinstance(spec.population, Network) and spec.population.path is not None:
        raise CertificateError(f"{path}: the nodes of its Bayesian network are missing")
    return spec


def _people(path: Path, file: CertificateFile, asked: Spec, table: Any) -> People | None:
    needs = isinstance(asked.population, Table) or (
        isinstance(asked.population, Marginals)
        and (asked.population.path is not None or file.claims.get("table_sha256") is not None)
    )
    if not needs:
        return None
    if table is None:
        raise CertificateError(f"{path}: speaks of rows of a table; name it with --data (table=... in Python)")
    from fairchain.tables import people_of, read_table

    people = people_of(read_table(table), asked)
    if isinstance(asked.population, Marginals):
        return replace(people, source=table_name(asked.population.path))
    return people


@dataclass(frozen=True)
class _Checker:
    """A certificate and everything that a checker has."""

    path: Path
    file: CertificateFile
    asked: Spec
    wanted: Spec | str | Path | None
    model: Model | None
    people: People | None

    def by_rounds(
        self, claims: list[Claim], most: float, seed: int | None, progress: Callable[[int, int], None] | None
    ) -> Recheck:
        """Replay the bets from the counts, and run a sample of the rounds again."""
        evidence = evidence_of(self.path, self.file, Evidence)
        sources = sources_of(self.asked, self.people, self.model.dtype if self.model is not None else np.float32)
        if isinstance(self.asked.population, Texts):
            claims.append(_texts_claim(sha256_of(sources.population), self.file))
        question = _question(sources)
        replay, layout = _replay(evidence, question, list(sources.comparison.rows))
        detail = f"{len(evidence.batches)} batches, each possible and in its place"
        claims.append(Claim("layout", not layout, layout or detail))
        done, fraction = 0, 0.0
        if not layout:
            claims += self._claims_from_counts(evidence, replay, sources)
            if self.model is not None:
                run = Rerun(self.model, sources, coupled=not question.paper)
                claim, done, fraction = run.check(evidence.batches, most, seed, progress)
                claims.append(claim)
        return Recheck(str(self.file.claims.get("verdict")), tuple(claims), done, fraction)

    def _claims_from_counts(self, evidence: Evidence, replay: Replay, sources: Sources) -> list[Claim]:
        """The question, the choices, the verdict and the intervals: what the counts, if true, allow to be said."""
        if replay.question.paper:
            return [
                Claim("verdict", False, "rule = paper carries no valid guarantee, so there is nothing that could hold"),
                Claim("intervals", False, "rule = paper gives no valid intervals"),
            ]
        said = self.file.claims
        expected = expected_claims(replay, sources, str(said.get("model_sha256")), str(said.get("stopped")))
        expected["table_sha256"] = sha256_of(sources.population) if self.people is None else self.people.sha256
        wrong = differences(said, expected)
        if evidence.seed != self.asked.guarantee.seed:
            wrong.append("seed")
        question, verdict, intervals = self._sorted(wrong, expected, "the e-values computed again give")
        return [question, _choices_claim(replay), verdict, intervals]

    def by_rows(self, claims: list[Claim], progress: Callable[[int, int], None] | None) -> Recheck:
        """Ask about every row again, count in our own way, and compute every number from that."""
        evidence = evidence_of(self.path, self.file, RowEvidence)
        said = self.file.claims
        assert self.people is not None
        if self.model is None and self.people.recorded is None:
            return Recheck(str(said.get("verdict")), tuple(claims), 0, 0.0)
        try:
            count = count_rows(self.people, self.asked, self.model, progress)
        except (ModelError, CertificateError) as error:
            return Recheck(str(said.get("verdict")), (*claims, Claim("re-run", False, str(error))), 0, 0.0)
        found = [evidence.asked, evidence.got, evidence.outcomes, evidence.rows]
        same = found == [count.asked, count.got, list(count.comparison.rows), len(self.people.values)]
        detail = f"everything: {count.evaluations:,} evaluations, every count the same"
        claims.append(Claim("re-run", same, detail if same else "the rows give other counts than the certificate says"))
        expected = expected_row_claims(count, self.asked, self.people, str(said.get("model_sha256")))
        claims += self._sorted(differences(said, expected), expected, "every row counted again gives")
        return Recheck(str(said.get("verdict")), tuple(claims), count.evaluations, 1.0)

    def _sorted(self, wrong: list[str], expected: dict[str, Any], how: str) -> list[Claim]:
        """Differences between what is said and what should be said, as claims about question, verdict, intervals."""
        of_question = [place for place in wrong if place.startswith(QUESTION)]
        of_verdict = [place for place in wrong if place.startswith(VERDICT)]
        others = [place for place in wrong if place not in of_question + of_verdict]
        verdict = f"{self.file.claims.get('verdict')}: {how} the same answer"
        if of_verdict:
            verdict = f"{', '.join(of_verdict)} should read otherwise; the counts give {expected['verdict']}"
        intervals = f"not what the counts give: {', '.join(others[:5])}" if others else "every number computed again"
        return [
            _question_claim(self.asked, self.wanted, of_question),
            Claim("verdict", not of_verdict, verdict),
            Claim("intervals", not others, intervals),
        ]


def _question(sources: Sources) -> Question:
    guarantee, comparison = sources.spec.guarantee, sources.comparison
    return Question(
        groups=len(comparison.counted),
        outcomes=len(comparison.rows),
        threshold=float(fair_limit(sources.spec)),
        delta=guarantee.delta,
        epsilon=guarantee.epsilon,
        paper=guarantee.rule == "paper",
        compared=comparison.compared,
        relative=comparison.measure == "ratio",
    )


def _replay(evidence: Evidence, question: Question, outcomes: list[int]) -> tuple[Replay, str]:
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
    return replay, ""


def _file_claim(raw: dict[str, Any], file: CertificateFile) -> Claim:
    same = digest(raw) == file.digest
    return Claim("file", same, "digest matches" if same else "the digest does not match: the file was changed")


def _model_claim(
    path: Path, model: str | Path | None, asked: Spec, file: CertificateFile, limits: Limits | None
) -> tuple[Model | None, Claim]:
    if model is None:
        raise ModelError(f"{path}: speaks of a network; name its file with --model")
    model = Path(model)
    if not model.exists():
        raise ModelError(f"{model}: no such file; --model must name the network that the certificate speaks of")
    claimed = str(file.claims.get("model_sha256"))
    try:
        loaded = load_model(model, asked, limits)
    except ModelError as error:
        return None, Claim("model", False, str(error))
    if loaded.sha256 != claimed:
        return None, Claim(
            "model", False, f"{model} has sha256 {loaded.sha256[:16]}..., the certificate is about {claimed[:16]}..."
        )
    return loaded, Claim("model", True, f"sha256 {claimed[:16]}...")


def _table_claim(people: People, file: CertificateFile) -> Claim:
    claimed = str(file.claims.get("table_sha256"))
    if people.sha256 != claimed:
        found = f"{people.source} has rows with sha256 {people.sha256[:16]}..."
        return Claim("table", False, f"{found}, the certificate is about {claimed[:16]}...")
    return Claim("table", True, f"{len(people.values):,} rows with sha256 {claimed[:16]}...")


def _texts_claim(found: str | None, file: CertificateFile) -> Claim:
    claimed = file.claims.get("table_sha256")
    if found != claimed:
        differ = "the corpus, the words, the terms or the synonyms are not those that the certificate is about"
        return Claim("texts", False, f"{differ} ({str(found)[:16]}..., not {str(claimed)[:16]}...)")
    return Claim("texts", True, f"corpus, words, terms and synonyms with sha256 {str(claimed)[:16]}...")


def _question_claim(asked: Spec, wanted: Spec | str | Path | None, wrong: list[str]) -> Claim:
    """The claims speak of the spec inside, and that is the question somebody wanted answered."""
    if wrong:
        return Claim("question", False, f"the claims speak of another {', '.join(wrong)} than the spec inside")
    if wanted is None:
        return Claim("question", True, f"{asked.property} (the certificate's own; compare with yours by --spec)")
    own = with_nodes(wanted if isinstance(wanted, Spec) else load_spec(wanted))
    differs = [key for key in _plain(own) if _plain(own)[key] != _plain(asked)[key]]
    if differs:
        return Claim("question", False, f"the given spec differs in {', '.join(differs)}")
    return Claim("question", True, f"{asked.property}, as in the given spec")


def _plain(spec: Spec) -> dict[str, Any]:
    """A spec to compare: without where the model lies, the seed, and the budget, which change no meaning."""
    data: dict[str, Any] = msgspec.to_builtins(spec)
    data["model"].pop("path")
    data["population"].pop("name", None)
    for part in (data["population"], *data["feature"]):
        # What stands in these files is compared by its hash.
        for key in ("path", "vectors", "vocabulary", "wordnet"):
            part.pop(key, None)
    data["guarantee"].pop("seed")
    data["guarantee"].pop("budget")
    return data


def _choices_claim(replay: Replay) -> Claim:
    """Every choice was made from the past alone."""
    if replay.faults:
        more = f" (and {len(replay.faults) - 1} more)" if len(replay.faults) > 1 else ""
        return Claim("choices", False, replay.faults[0] + more)
    return Claim("choices", True, "leaders, groups and batch sizes follow from earlier counts alone")

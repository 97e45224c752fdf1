"""Check of a certificate's claims about one question: its evidence is replayed, and the model runs again.

Rounds, enumerated inputs and rows have different kinds of evidence; the claims are compared with the results of the
evidence.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from fairchain.certificate_format import STREAM, Certificate, EnumerationEvidence, RowEvidence, RunEvidence
from fairchain.errors import CertificateError, ModelError, SpecError
from fairchain.input_space import input_space
from fairchain.models import Model
from fairchain.prepare import Case, case_of
from fairchain.rechecking import recount
from fairchain.rechecking.contents import Claim, Raw, evidence_of
from fairchain.rechecking.expected import differences, expected_claims
from fairchain.rechecking.expected_rows import RowCount, count_rows, expected_row_claims
from fairchain.rechecking.fresh import Fresh, fresh_run
from fairchain.rechecking.replay import Replay, ReplayedRule, contradiction, impossible, labels_problem
from fairchain.rechecking.rerun import Counter, RecheckOptions, Rerun, Sample, smallest_forgery
from fairchain.rechecking.result import Recheck
from fairchain.spec import Spec, Texts
from fairchain.spec.properties import shared_pairs
from fairchain.spec.seeds import Seed, seed_of
from fairchain.statements import seed_phrase
from fairchain.tables import TableRows

# After this many choices that do not follow from earlier counts, a certificate is not read further.
MOST_FAULTS = 10

# The keys of the claims that each line of the result covers; the remaining keys belong to "intervals".
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


@dataclass(frozen=True)
class QuestionCheck:
    """A certificate, the checker's own spec and model, and the options of `recheck`.

    `compared` is whether the spec was compared with the checker's own, and `joint` the seed of the family.
    """

    path: Path
    file: Certificate[Raw]
    spec: Spec
    compared: bool
    model: Model | None
    options: RecheckOptions
    joint: int | None = None

    @property
    def decision(self) -> str:
        """The certificate's claim: FAIR, UNFAIR or UNDECIDED."""
        return str(self.file.claims.get("decision"))

    def by_rounds(self, case: Case, claims: list[Claim], result: Recheck) -> Recheck:
        """Replay the bets from the counts, and run the rounds again."""
        evidence, said = evidence_of(self.path, self.file, RunEvidence), self.file.claims
        if isinstance(self.spec.population, Texts):
            claims.append(self._texts_claim(case.data_sha256))
        # From the claimed hash: if another model was given, none is loaded here.
        seed = seed_of(self.spec, str(said.get("model_sha256")), case.data_sha256)
        if self.joint is not None and seed.origin == "derived":
            seed = Seed(self.joint, "derived")
        hashed = bool(said.get("model_sha256"))
        claims.append(_seed_claim(seed, evidence, hashed=hashed))
        rule = ReplayedRule.of(case, self.file.version)
        replay, layout = _replay(evidence, rule, list(case.comparison.rows))
        layout = layout or contradiction(evidence, case.comparison, self.spec.model.labels)
        detail = f"{len(evidence.batches)} batches with possible sizes, in the right order"
        claims.append(Claim.check("layout", layout, detail))
        origin = seed.origin if hashed or seed.origin == "chosen" else "spec"
        result = replace(result, seed_origin=origin, cut=rule.cut_chunks and replay.cut is not None)
        if layout:
            return result
        if rule.paper:
            claims.append(Claim("verdict", False, "rule = paper has no valid guarantee, so no claim can hold"))
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
        if not result.random:
            # Drawn with the seed that the certificate claims; whether it is the right one is a separate claim.
            counter = Counter(self.model, case, evidence.seed, coupled=not rule.paper)
            rerun = Rerun(counter, evidence.batches, self.options)
            claim, cost, fraction = rerun.check()
            claims.append(claim)
            if evidence.look is not None:
                claims.append(rerun.look(evidence.look, cut_chunks=rule.cut_chunks))
            sample = None
            if claim.holds and not cost.whole:
                # Rounds after the decision only make intervals narrower.
                deciding = [batch for batch in evidence.batches if rule.epsilon is not None or batch.phase == 0]
                sample = Sample.of(cost, smallest_forgery(deciding, rule, self.decision))
            result = replace(result, evaluations=rerun.evaluations, fraction=fraction, sample=sample)
        if result.random or (self.options.fresh and not rule.paper):
            # Verify again with the checker's own seed.
            fresh = fresh_run(self.model, case, rule, said, self.options)
            claims.append(fresh.claim(self.decision))
            result = replace(result, fresh=fresh)
        return result

    def _texts_claim(self, found: str | None) -> Claim:
        """Return the claim that corpus, words, terms and synonyms, with this hash, are those of the certificate."""
        claimed = str(self.file.claims.get("table_sha256"))
        problem = (
            "the corpus, the words, the terms or the synonyms are not those that the certificate is about "
            f"({str(found)[:16]}..., not {claimed[:16]}...)"
        )
        detail = f"corpus, words, terms and synonyms with sha256 {claimed[:16]}..."
        return Claim.check("texts", "" if found == claimed else problem, detail)

    def by_enumeration(self, case: Case, claims: list[Claim], result: Recheck) -> Recheck:
        """Evaluate and weigh the inputs again, and compute every number from the weights."""
        evidence, said = evidence_of(self.path, self.file, EnumerationEvidence), self.file.claims
        if self.model is None:
            return result
        try:
            inputs = recount.in_stated_order(evidence, input_space(case), case)
        except SpecError as error:
            claims.append(Claim("layout", False, str(error)))
            return result
        layout = recount.layout_problem(evidence, inputs, case)
        detail = f"{len(evidence.segments):,} segments, {evidence.done:,} of {inputs.points:,} points in their order"
        claims.append(Claim.check("layout", layout, detail))
        if layout:
            return result
        model_sha256 = str(said.get("model_sha256"))
        problem = recount.chain_problem(evidence, case, model_sha256)
        claims.append(Claim.check("chain", problem, "the hash of every segment includes the previous hash"))
        expected, problem = recount.expected_enumeration_claims(
            evidence, inputs, case, model_sha256, str(said.get("stopped"))
        )
        claims.append(Claim.check("weights", problem, "no part has more weight than its inputs"))
        claims += self._compare(expected, "the weights give")
        segments = recount.Recount(self.model, case, inputs, evidence, self.options)
        claim, cost, fraction = segments.check()
        claims.append(claim)
        sample = Sample.of(cost, None) if claim.holds and not cost.whole else None
        return replace(result, evaluations=segments.evaluations, fraction=fraction, sample=sample)

    def by_rows(self, rows: TableRows, claims: list[Claim], result: Recheck) -> Recheck:
        """Evaluate every row again, and compute every number from the counts."""
        evidence = evidence_of(self.path, self.file, RowEvidence)
        if isinstance(self.spec.population, Texts):
            claims.append(self._texts_claim(rows.sha256))
        if self.model is None and rows.recorded is None:
            return result
        try:
            count = count_rows(rows, self.spec, self.model, self.options.progress)
        except (ModelError, CertificateError) as error:
            claims.append(Claim("re-run", False, str(error)))
            return result
        if result.random:
            # The arithmetic of the certificate's counts, and its verdict beside that of the new answers.
            problem = _impossible_rows(rows, count, evidence, self.spec)
            claims.append(Claim.check("layout", problem, "possible counts"))
            if problem:
                return result
            trials, successes, only = evidence.trials, evidence.successes, tuple(evidence.only)
            claimed = dataclasses.replace(count, trials=trials, successes=successes, labels=evidence.labels, only=only)
            own, expected = (
                expected_row_claims(each, self.spec, rows, "", None, version=self.file.version)
                for each in (count, claimed)
            )
            claims += self._compare(expected, "its counts give")
            fresh = Fresh.of(own, self.file.claims, seed=0, constant=own["constant"], random=True)
            claims.append(fresh.claim(self.decision))
            return replace(result, evaluations=count.evaluations, fresh=fresh)
        outcomes = list(count.comparison.rows)
        # Older certificates have no counts of pairs, and claim nothing about them.
        pairs = list(count.only) if evidence.only else []
        again = RowEvidence(len(rows.values), outcomes, count.trials, count.successes, count.labels, pairs)
        problem = "" if evidence == again else "the rows give other counts than the certificate states"
        detail = f"everything: {count.evaluations:,} evaluations repeated, with the same counts"
        claims.append(Claim.check("re-run", problem, detail))
        phrase = None
        if isinstance(self.spec.population, Texts):
            phrase = str(case_of(self.spec, self.model, rows).population)
        model_sha256 = str(self.file.claims.get("model_sha256"))
        expected = expected_row_claims(count, self.spec, rows, model_sha256, phrase, version=self.file.version)
        claims += self._compare(expected, "every row counted again gives")
        return replace(result, evaluations=count.evaluations, fraction=1.0)

    def _compare(self, expected: dict[str, Any], how: str) -> list[Claim]:
        """Compare the claims with the values that the counts give: the question, the verdict and the intervals."""
        said = self.file.claims
        for later in ("tipping", "decision_rounds", "decision_evaluations", "shift"):
            # Older certificates do not have these claims; at that time no question had a shift.
            if later not in said and not (later == "shift" and expected["shift"]):
                del expected[later]
        tipping = said.get("tipping")
        if expected.get("tipping") and isinstance(tipping, dict) and tipping.get("all_groups_alike", 1.0) is None:
            # Certificates from before the factor was computed without rounds do not claim it either.
            expected["tipping"] = {**expected["tipping"], "all_groups_alike": None}
        wrong = differences(said, expected)
        of_question = [place for place in wrong if place.startswith(QUESTION)]
        of_verdict = [place for place in wrong if place.startswith(VERDICT)]
        others = [place for place in wrong if place not in of_question + of_verdict]
        origin = ", as in the given spec" if self.compared else " (from the certificate; compare by --spec)"
        question = f"the claims are about another {', '.join(of_question)} than the spec inside" if of_question else ""
        verdict = f"differs from the value that the counts give, {expected['verdict']}: {', '.join(of_verdict)}"
        intervals = f"differs from the counts: {', '.join(others[:5])}" if others else ""
        return [
            Claim.check("question", question, f"{self.spec.property}{origin}"),
            Claim.check("verdict", verdict if of_verdict else "", f"{said.get('verdict')}: {how} the same answer"),
            Claim.check("intervals", intervals, "every number computed again"),
        ]


def _impossible_rows(rows: TableRows, again: RowCount, evidence: RowEvidence, spec: Spec) -> str:
    """Return why no answers about these rows give this evidence, or an empty text."""
    outcomes = list(again.comparison.rows)
    fits = (evidence.rows, evidence.outcomes, evidence.trials) == (len(rows.values), outcomes, again.trials)
    fits = fits and [len(counts) for counts in evidence.successes] == [len(again.trials)] * len(again.successes)
    fits = fits and len(evidence.only) in (0, len(again.only))
    if not fits or not all(
        0 <= count <= trials
        for counts in evidence.successes
        for count, trials in zip(counts, evidence.trials, strict=True)
    ):
        return "counts that these rows cannot give"
    alone = dict(zip(shared_pairs(spec, again.comparison), evidence.only, strict=True)) if evidence.only else {}
    for (outcome, i, j), count in alone.items():
        if len(again.parts[i]) + len(again.parts[j]) > 2:
            continue
        first, second = (evidence.successes[outcome][again.parts[each][0]] for each in (i, j))
        # The difference of the counts of two groups is the number of texts with the outcome in the first only, minus
        # the second only.
        if not 0 <= count <= first or count - alone[outcome, j, i] != first - second:
            return "counts of texts with the outcome in only one group contradict the counts of the groups"
    counts = np.array(evidence.successes, np.int64)
    return labels_problem(evidence.labels, counts, np.array(evidence.trials), outcomes, len(spec.model.labels))


def _replay(evidence: RunEvidence, rule: ReplayedRule, outcomes: list[int]) -> tuple[Replay, str]:
    """Go through all batches; the second value is the reason why the layout is impossible, or empty."""
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
        problem = f"the run used seed {evidence.seed}, but the spec inside states {seed.value}"
    elif evidence.seed != seed.value:
        problem = (
            f"the run used seed {evidence.seed}, but network, spec and data give {seed.value}; a chosen seed must "
            "be stated in the spec inside"
        )
    phrase = seed_phrase(seed.value, seed.origin, hashed=hashed)
    return Claim.check("seed", problem, phrase.removeprefix("seed "))

"""An independent check of a certificate: which of its claims hold.

Nothing in the file is believed that can be computed again. The counts are compared with a re-run of the network, all
of it or a random sample, that the forger of a certificate cannot foresee.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fairchain.certificate_format import STREAM, digest
from fairchain.errors import CertificateError, ModelError, SpecError
from fairchain.model import Limits, OnnxModel
from fairchain.rechecking.numbers import differences, expected_claims
from fairchain.rechecking.record import CertificateFile, Claim, read_certificate
from fairchain.rechecking.replay import Question, Replay, impossible
from fairchain.rechecking.rerun import Rerun
from fairchain.spec import Spec, groups_of, load_spec, parse_spec

# What a recheck re-runs without being asked for more: a second or two for a small network.
EVALUATIONS = 2_000_000

# Which keys of the claims each line of the result speaks of; what is left over belongs to "intervals".
QUESTION = ("threshold", "delta", "epsilon", "property", "rule", "seed", "population")
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
    model: str | Path,
    *,
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
        The two files.
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
    raw, file = read_certificate(Path(certificate))
    question, asked = _question(Path(certificate), file)
    loaded, model_claim = _model_claim(Path(model), asked, file, limits)
    outcomes = _outcomes(asked)
    replay, layout = _replay(file, question, outcomes)
    claims = [_file_claim(raw, file), model_claim, Claim("layout", not layout, layout or _layout_detail(file))]
    done, fraction = 0, 0.0
    if not layout:
        claims += _claims_from_counts(file, replay, asked, spec)
        if loaded is not None:
            run = Rerun(loaded, asked, outcomes, coupled=not question.paper)
            most = math.inf if full else evaluations
            claim, done, fraction = run.check(file.evidence.batches, most, seed, progress)
            claims.append(claim)
    return Recheck(str(file.claims.get("verdict")), tuple(claims), done, fraction)


def _question(path: Path, file: CertificateFile) -> tuple[Question, Spec]:
    try:
        spec = parse_spec(file.spec)
    except SpecError as error:
        raise CertificateError(f"{path}: the spec inside is not valid: {error}") from None
    guarantee = spec.guarantee
    return (
        Question(
            groups=len(groups_of(spec)),
            outcomes=len(_outcomes(spec)),
            threshold=spec.property.threshold,
            delta=guarantee.delta,
            epsilon=guarantee.epsilon,
            paper=guarantee.rule == "paper",
            labels=len(spec.model.labels),
        ),
        spec,
    )


def _outcomes(spec: Spec) -> list[int]:
    """The labels whose counts answer the question: never those that the file says it counted."""
    labels = spec.model.labels
    if spec.property.outcome is not None:
        return [labels.index(spec.property.outcome)]
    return [1] if len(labels) == 2 else list(range(len(labels)))


def _replay(file: CertificateFile, question: Question, outcomes: list[int]) -> tuple[Replay, str]:
    """Go through all batches; the second part says why the layout is impossible, or is empty."""
    replay = Replay(question)
    evidence = file.evidence
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


def _layout_detail(file: CertificateFile) -> str:
    return f"{len(file.evidence.batches)} batches, each possible and in its place"


def _file_claim(raw: dict[str, Any], file: CertificateFile) -> Claim:
    same = digest(raw) == file.digest
    return Claim("file", same, "digest matches" if same else "the digest does not match: the file was changed")


def _model_claim(
    path: Path, asked: Spec, file: CertificateFile, limits: Limits | None
) -> tuple[OnnxModel | None, Claim]:
    if not path.exists():
        raise ModelError(f"{path}: no such file; --model must name the network that the certificate speaks of")
    claimed = str(file.claims.get("model_sha256"))
    try:
        model = OnnxModel(path, asked, limits)
    except ModelError as error:
        return None, Claim("model", False, str(error))
    if model.sha256 != claimed:
        return None, Claim(
            "model", False, f"{path} has sha256 {model.sha256[:16]}..., the certificate is about {claimed[:16]}..."
        )
    return model, Claim("model", True, f"sha256 {claimed[:16]}...")


def _claims_from_counts(
    file: CertificateFile, replay: Replay, asked: Spec, wanted: Spec | str | Path | None
) -> list[Claim]:
    """The question, the choices, the verdict and the intervals: what the counts, if true, allow to be said."""
    if replay.question.paper:
        return [
            Claim("verdict", False, "rule = paper carries no valid guarantee, so there is nothing that could hold"),
            Claim("intervals", False, "rule = paper gives no valid intervals"),
        ]
    evaluations = sum(batch.rounds * len(batch.groups) for batch in file.evidence.batches)
    said = file.claims
    expected = expected_claims(replay, asked, str(said.get("model_sha256")), evaluations, str(said.get("stopped")))
    wrong = differences(said, expected)
    if file.evidence.seed != asked.guarantee.seed:
        wrong.append("seed")
    of_question = [place for place in wrong if place.startswith(QUESTION)]
    of_verdict = [place for place in wrong if place.startswith(VERDICT)]
    others = [place for place in wrong if place not in of_question + of_verdict]
    question = _question_claim(asked, wanted, of_question)
    verdict = f"{said.get('verdict')}: the e-values computed again give the same answer"
    if of_verdict:
        verdict = f"{', '.join(of_verdict)} should read otherwise; the counts give {expected['verdict']}"
    intervals = f"not what the counts give: {', '.join(others[:5])}" if others else "every number computed again"
    return [
        question,
        _choices_claim(replay),
        Claim("verdict", not of_verdict, verdict),
        Claim("intervals", not others, intervals),
    ]


def _question_claim(asked: Spec, wanted: Spec | str | Path | None, wrong: list[str]) -> Claim:
    """The claims speak of the spec inside, and that is the question somebody wanted answered."""
    if wrong:
        return Claim("question", False, f"the claims speak of another {', '.join(wrong)} than the spec inside")
    if wanted is None:
        return Claim("question", True, f"{asked.property} (the certificate's own; compare with yours by --spec)")
    wanted = wanted if isinstance(wanted, Spec) else load_spec(wanted)
    differs = [key for key in _plain(wanted) if _plain(wanted)[key] != _plain(asked)[key]]
    if differs:
        return Claim("question", False, f"the given spec differs in {', '.join(differs)}")
    return Claim("question", True, f"{asked.property}, as in the given spec")


def _plain(spec: Spec) -> dict[str, Any]:
    """A spec to compare: without where the model lies, the seed, and the budget, which change no meaning."""
    data: dict[str, Any] = msgspec.to_builtins(spec)
    data["model"].pop("path")
    data["guarantee"].pop("seed")
    data["guarantee"].pop("budget")
    return data


def _choices_claim(replay: Replay) -> Claim:
    """Every choice was made from the past alone."""
    if replay.faults:
        more = f" (and {len(replay.faults) - 1} more)" if len(replay.faults) > 1 else ""
        return Claim("choices", False, replay.faults[0] + more)
    return Claim("choices", True, "leaders, groups and batch sizes follow from earlier counts alone")

"""An independent check of a certificate: which of its claims hold.

Nothing in the file is believed that can be computed again. The counts are compared with a re-run of the network,
all of it or a random sample of the batches, that the forger of a certificate cannot foresee.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from fairchain.certificate_format import STREAM, digest
from fairchain.errors import CertificateError, ModelError, SpecError
from fairchain.model import Limits, OnnxModel
from fairchain.rechecking.numbers import choices_claim, interval_claim, verdict_claim
from fairchain.rechecking.record import CertificateFile, Claim, read_certificate
from fairchain.rechecking.replay import Question, Replay, impossible
from fairchain.rechecking.rerun import rerun_claim
from fairchain.spec import Spec, groups_of, load_spec, parse_spec

# What a recheck re-runs without being asked for more: a second or two for a small network.
EVALUATIONS = 2_000_000


@dataclass(frozen=True)
class Recheck:
    """All claims of a certificate. `holds` only if every one does."""

    verdict: str
    claims: tuple[Claim, ...]
    evaluations: int

    @property
    def holds(self) -> bool:
        """Whether every claim holds."""
        return all(claim.holds for claim in self.claims)

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON values."""
        claims = [{"name": c.name, "holds": c.holds, "detail": c.detail} for c in self.claims]
        return {
            "holds": self.holds,
            "verdict": self.verdict,
            "evaluations": self.evaluations,
            "claims": claims,
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
        Re-run every batch, not a sample.
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
    replay, layout = _replay(file, question)
    claims = [
        _file_claim(raw, file),
        _question_claim(file, asked, spec),
        Claim(
            "layout",
            not layout,
            layout or f"{len(file.evidence.batches)} batches, each possible and in its place",
        ),
    ]
    loaded, model_claim = _model_claim(Path(model), asked, file, limits)
    claims.append(model_claim)
    if not layout:
        claims += [
            choices_claim(replay),
            verdict_claim(file, replay, asked),
            interval_claim(file, replay, asked),
        ]
    done = 0
    if loaded is not None and not layout:
        done, claim = rerun_claim(loaded, asked, file, full, evaluations, seed, progress)
        claims.append(claim)
    return Recheck(str(file.claims.get("verdict")), tuple(claims), done)


def _question(path: Path, file: CertificateFile) -> tuple[Question, Spec]:
    try:
        spec = parse_spec(file.spec)
    except SpecError as error:
        raise CertificateError(f"{path}: the spec inside is not valid: {error}") from None
    guarantee = spec.guarantee
    labels = len(spec.model.labels)
    outcomes = labels if spec.property.outcome is None and labels > 2 else 1
    paper = guarantee.rule == "paper"
    groups = len(groups_of(spec))
    asked = Question(groups, outcomes, spec.property.threshold, guarantee.delta, guarantee.epsilon, paper, labels)
    return asked, spec


def _replay(file: CertificateFile, question: Question) -> tuple[Replay, str]:
    """Go through all batches; the second part says why the layout is impossible, or is empty."""
    replay = Replay(question)
    evidence = file.evidence
    if evidence.stream != STREAM or evidence.coupled == question.paper:
        return replay, "the random stream, or the coupling of groups, is not that of this rule"
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


def _question_claim(file: CertificateFile, asked: Spec, wanted: Spec | str | Path | None) -> Claim:
    """The claims speak of the spec inside, and that is the question somebody wanted answered."""
    claims, guarantee = file.claims, asked.guarantee
    spoken = {
        "threshold": asked.property.threshold,
        "delta": guarantee.delta,
        "epsilon": guarantee.epsilon,
        "rule": guarantee.rule,
        "seed": guarantee.seed,
        "property": str(asked.property),
    }
    wrong = [key for key, value in spoken.items() if claims.get(key) != value]
    if file.evidence.seed != guarantee.seed:
        wrong.append("evidence.seed")
    if wrong:
        return Claim("question", False, f"the claims speak of another {', '.join(wrong)} than the spec inside")
    if wanted is not None:
        wanted = wanted if isinstance(wanted, Spec) else load_spec(wanted)
        differs = [key for key in _plain(wanted) if _plain(wanted)[key] != _plain(asked)[key]]
        if differs:
            return Claim("question", False, f"the given spec differs in {', '.join(differs)}")
    return Claim("question", True, str(asked.property))


def _plain(spec: Spec) -> dict[str, Any]:
    """A spec to compare: without where the model lies, the seed, and the budget, which change no meaning."""
    data: dict[str, Any] = msgspec.to_builtins(spec)
    data["model"].pop("path")
    data["guarantee"].pop("seed")
    data["guarantee"].pop("budget")
    return data


def _model_claim(
    path: Path, asked: Spec, file: CertificateFile, limits: Limits | None
) -> tuple[OnnxModel | None, Claim]:
    claimed = str(file.claims.get("model_sha256"))
    try:
        model = OnnxModel(path, asked, limits)
    except ModelError as error:
        if not path.exists():
            raise
        return None, Claim("model", False, str(error))
    if model.sha256 != claimed:
        return None, Claim(
            "model",
            False,
            f"{path} has sha256 {model.sha256[:16]}..., the certificate is about {claimed[:16]}...",
        )
    return model, Claim("model", True, f"sha256 {claimed[:16]}...")

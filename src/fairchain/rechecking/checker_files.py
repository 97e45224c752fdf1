"""The files that a certificate names, looked up in the checker's folders, never next to the certificate.

A certificate names files without their folders. If the checker gives a spec, that spec determines where they are.
Otherwise the checker names network and data, and the other files of a question about texts are in the folder of one of
these. A file next to the certificate would be the issuer's choice.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fairchain.errors import CertificateError
from fairchain.records import Record
from fairchain.spec import BayesNetwork, Marginals, Spec, Table, Texts
from fairchain.spec.documents import files_of

WORDNET = Path("/usr/share/wordnet")
FILE_MISSING_BESIDE = (
    "{certificate}: names {bare}, which is not in the folder of the network or of the data that you gave; put yours "
    "there, or give your own spec with --spec (spec=... in Python)"
)
TEXTS_OF_A_FILE = "{certificate}: is about texts of a file; give the file with --data (data=... in Python)"
TEXTS_OF_ANOTHER_FILE = "{corpus}: the certificate is about texts of {path}; give that file"
TEXTS_OF_A_DATA_SET = (
    "{certificate}: is about texts of the data set {dataset}, which `fairchain data get` fetches; leave --data "
    "(data=...) out"
)


class UsedFile(Record, frozen=True):
    """A file that a recheck opened: its role, its path, and the hash of its bytes."""

    role: str
    path: str
    sha256: str


def locate_files(
    certificate: Path, inside: Spec, *, model: str | Path | None, data: Any, own: Spec | None
) -> tuple[Spec, str | Path | None, Any]:
    """Return the spec with paths that can be opened, the network's file, and the table.

    `inside` is the certificate's spec. If the checker gives its `own` spec, that one is answered, with the seed, the
    engine, the budget and the refinement of the certificate; sentences keep the certificate's names of tables and of
    the population.
    """
    if own is None:
        return _beside(certificate, inside, model, data), model, data
    issued = inside.guarantee
    guarantee = replace(
        own.guarantee, seed=issued.seed, engine=issued.engine, budget=issued.budget, refine=issued.refine
    )
    if isinstance(own.population, BayesNetwork) and isinstance(inside.population, BayesNetwork):
        own = replace(own, population=replace(own.population, name=inside.population.name))
    model = model if model is not None else own.model.path
    if isinstance(own.population, Table | Marginals):
        data = data if data is not None else own.population.path
        own = replace(own, population=replace(own.population, path=getattr(inside.population, "path", None)))
    elif isinstance(own.population, Texts) and own.population.path is not None:
        data = data if data is not None else own.population.path
        _check_corpus(certificate, inside, data)
        own = replace(own, population=replace(own.population, path=str(data)))
    return replace(own, guarantee=guarantee), model, data


def _beside(certificate: Path, spec: Spec, model: str | Path | None, data: Any) -> Spec:
    """Return the certificate's spec, with the files of its texts in the folder of the given network or corpus."""
    population = spec.population
    if not isinstance(population, Texts):
        return spec
    _check_corpus(certificate, spec, data)
    folders = [Path(path).parent for path in (model, data) if isinstance(path, str | Path)]
    changes = {} if population.path is None else {"path": str(data)}
    if population.wordnet is not None:
        changes["wordnet"] = _found(certificate, population.wordnet, [*folders, WORDNET.parent])
    described = []
    for feature in spec.described:
        files = {key: _found(certificate, name, folders) for key, name in files_of(feature).items()}
        described.append(replace(feature, **files))
    return replace(spec, population=replace(population, **changes), described=tuple(described))


def used_files(spec: Spec, model: str | Path | None, data: Any) -> tuple[UsedFile, ...]:
    """Return every file that the check of this question opens, with the hash of its bytes."""
    named: list[tuple[str, Any]] = [("model", model), ("data", data if isinstance(data, str | Path) else None)]
    if isinstance(spec.population, Texts):
        named.append(("wordnet", spec.population.wordnet))
        for feature in spec.described:
            named += [(key, name) for key, name in files_of(feature).items()]
    return tuple(UsedFile(role, str(path), _sha256(Path(path))) for role, path in named if path is not None)


def _check_corpus(certificate: Path, spec: Spec, corpus: Any) -> None:
    population = spec.population
    assert isinstance(population, Texts)
    if population.path is not None and not isinstance(corpus, str | Path):
        raise CertificateError(TEXTS_OF_A_FILE.format(certificate=certificate))
    if population.path is not None and Path(str(corpus)).name != Path(population.path).name:
        raise CertificateError(TEXTS_OF_ANOTHER_FILE.format(corpus=corpus, path=population.path))
    if population.path is None and corpus is not None:
        raise CertificateError(TEXTS_OF_A_DATA_SET.format(certificate=certificate, dataset=population.dataset))


def _found(certificate: Path, name: str, folders: list[Path]) -> str:
    # A certificate is untrusted input: it may name a file, but not a path to another folder.
    bare = Path(name).name
    for folder in folders:
        if (folder / bare).exists():
            return str(folder / bare)
    raise CertificateError(FILE_MISSING_BESIDE.format(certificate=certificate, bare=bare))


def _sha256(path: Path) -> str:
    """Return the hash of a file, or of the files in a folder by their names; empty if it cannot be read."""
    digest = hashlib.sha256()
    try:
        for each in sorted(path.iterdir()) if path.is_dir() else [path]:
            if path.is_dir():
                digest.update(each.name.encode() + b"\0")
            if each.is_file():
                with each.open("rb") as file:
                    hashlib.file_digest(file, lambda: digest)
    except OSError:
        return ""
    return digest.hexdigest()

"""The files that a certificate about texts names, found again where a checker has them.

A certificate names files without their folders. Whether they are the right ones is seen by their hash.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from fairchain.errors import CertificateError
from fairchain.spec import Spec
from fairchain.spec.files import files_of
from fairchain.spec.schema import Texts

WORDNET = Path("/usr/share/wordnet")


def with_files(spec: Spec, certificate: Path, model: str | Path | None, corpus: Any) -> Spec:
    """The spec of a certificate with files that can be opened: beside the certificate, the network or the corpus.

    Raises
    ------
    CertificateError
        If the corpus is not given, or one of the files lies nowhere of these.
    """
    population = spec.population
    if not isinstance(population, Texts):
        return spec
    if population.path is not None and not isinstance(corpus, str | Path):
        raise CertificateError(f"{certificate}: speaks of texts of a file; name it with --data (table=... in Python)")
    if population.path is not None and Path(str(corpus)).name != Path(population.path).name:
        raise CertificateError(f"{corpus}: the certificate speaks of texts of {population.path}; name that file")
    if population.path is None and corpus is not None:
        raise CertificateError(
            f"{certificate}: speaks of texts of the data set {population.dataset}, which `fairchain data get` fetches; "
            "leave --data (table=...) out"
        )
    given = [path for path in (model, corpus) if isinstance(path, str | Path)]
    folders = [certificate.parent, *(Path(path).parent for path in given)]
    changes = {} if population.path is None else {"path": str(corpus)}
    if population.wordnet is not None:
        changes["wordnet"] = _found(certificate, population.wordnet, [*folders, WORDNET.parent])
    described = []
    for feature in spec.described:
        files = {key: _found(certificate, name, folders) for key, name in files_of(feature).items()}
        described.append(replace(feature, **files))
    return replace(spec, population=replace(population, **changes), described=tuple(described))


def _found(certificate: Path, name: str, folders: list[Path]) -> str:
    # A certificate is untrusted input: what it names is a file's name, and no way to any other folder.
    bare = Path(name).name
    for folder in folders:
        if (folder / bare).exists():
            return str(folder / bare)
    raise CertificateError(f"{certificate}: speaks of {bare}, which is not there; put it beside the certificate")

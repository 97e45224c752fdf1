"""Pages are written in short sentences and in the field's words (CONTRIBUTING.md, "Words")."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")])
# A sentence must never have more words than the first number; a page has few sentences with more than the second.
LONGEST, LONG, FEW = 40, 30, 5
DIALECT = re.compile(
    r"\b(nobody|somebody|everybody|throws? dice|is no \w+ that|what is said|mend(s|ed|ing)?|front door)\b",
    re.IGNORECASE,
)
# What is no sentence: code, comments, formulas, directives, headings, lines of tables, settings of measurements.
LEFT_OUT = re.compile(
    r"^(`{3,}|:{3,}).*?^\1$|<!--.*?-->|\$\$.*?\$\$|^ {4}[^\n]*$|^#[^\n]*$|^ *\|[-: |]+\|$"
    r"|^- \*\*Settings\*\*[^\n]*$",
    re.MULTILINE | re.DOTALL,
)
ITEM = re.compile(r"^ *([-*]|\d+\.) ")
END = re.compile(r"(?<=[.?!])[*_)\"]*\s+(?=\S)")


def sentences(page: str) -> list[str]:
    """The sentences of paragraphs, items and cells; a list after a colon is left out."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", LEFT_OUT.sub("\n", page))
    text = re.sub(r"(`+).*?\1", "CODE", text, flags=re.DOTALL)
    blocks = [""]
    for line in text.splitlines():
        if line.lstrip().startswith("|"):
            blocks += [*re.split(r"(?<!\\)\|", line), ""]
        elif not line.strip():
            blocks.append("")
        elif ITEM.match(line):
            blocks.append(ITEM.sub("", line))
        else:
            blocks[-1] += " " + line.strip()
    found = [sentence for block in blocks for sentence in END.split(block.strip())]
    return [re.sub(r":( [^,;]+[,;]){2}.*", ":", each) for each in found]


def test_a_sentence_ends_where_a_reader_sees_its_end() -> None:
    page = "# A title. Here.\n\nOne sentence\nof `a. b` ([a link](x.md)). Two: a, b, c, d.\n\n- Three.\n\n| Four | Five |\n"
    assert [each for each in sentences(page) if each] == [
        "One sentence of CODE (a link).",
        "Two:",
        "Three.",
        "Four",
        "Five",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_sentences_are_short(page: Path) -> None:
    words = {each: len(each.split()) for each in sentences(page.read_text(encoding="utf-8"))}
    assert [each for each, count in words.items() if count > LONGEST] == []
    assert len([each for each, count in words.items() if count > LONG]) <= FEW


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_words_are_those_of_the_field(page: Path) -> None:
    assert [each for each in sentences(page.read_text(encoding="utf-8")) if DIALECT.search(each)] == []

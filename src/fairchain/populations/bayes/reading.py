"""Reading a Bayesian network: stated in the spec, or from a file in BIF, JSON or TOML.

Reading executes nothing, and a file is limited before it is parsed. Of BIF (network, variable and probability blocks)
discrete variables are read. Comments, quoted names, `default` rows and tables with or without commas are understood;
`property` lines are skipped. A file is untrusted: what it declares is counted before memory is allocated for it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from fairchain.errors import SpecError
from fairchain.populations.bayes.nodes import (
    MOST_CELLS,
    MOST_NODES,
    combinations,
    key_of,
    keys_of,
    near,
    row_problem,
    some,
)
from fairchain.spec.schema import BayesNetwork, Node

# Reading TOML takes ten times as long as reading JSON or BIF.
MOST_BYTES = {".bif": 50_000_000, ".json": 50_000_000, ".toml": 5_000_000}
STATED = "population.nodes"


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    nodes: Annotated[tuple[Node, ...], Meta(min_length=1)]


def source_of(network: BayesNetwork) -> str:
    """What messages call a network: its file, or the key of the spec."""
    return network.path or network.name or STATED


def read_nodes(network: BayesNetwork) -> tuple[Node, ...]:
    """The nodes of a network as stated, or those of its `.bif`, `.json` or `.toml` file.

    Raises
    ------
    SpecError
        One message with the file and the line or key, what was found and what to write.
    """
    if (network.path is None) == (not network.nodes):
        found = "both path and nodes" if network.nodes else "neither path nor nodes"
        raise SpecError(f'population: has {found}; name a file, path = "people.bif", or state [[population.nodes]]')
    if network.path is None:
        return network.nodes
    path = Path(network.path)
    try:
        return _parse(path.suffix.lower(), path)
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None


def _parse(suffix: str, path: Path) -> tuple[Node, ...]:
    if suffix not in MOST_BYTES:
        raise SpecError(f'a Bayesian network ends in .bif, .json or .toml, found "{suffix}"; rename or convert it')
    content = _read(path, MOST_BYTES[suffix])
    try:
        if suffix == ".json":
            return _convert(msgspec.json.decode(content))
        text = content.decode("utf-8-sig")
        return parse_bif(text) if suffix == ".bif" else _convert(tomllib.loads(text))
    except UnicodeDecodeError:
        raise SpecError("not UTF-8 text; save it as UTF-8") from None
    except SpecError:
        raise
    except (ValueError, msgspec.MsgspecError) as error:  # of either format, and a number too long for Python
        raise SpecError(f"not valid {suffix[1:].upper()}: {error}") from None
    except RecursionError:
        raise SpecError("nested too deeply for a network") from None


def _read(path: Path, most: int) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise SpecError("not a file; give the path of a .bif, .json or .toml file")
        with path.open("rb") as file:
            content = file.read(most + 1)
    except FileNotFoundError:
        raise SpecError("no such file; check path in [population], which is relative to the spec") from None
    except OSError as error:
        raise SpecError(f"cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise SpecError(f"cannot be read ({error})") from None
    if len(content) > most:
        raise SpecError(f"larger than {most} bytes, which is more than a {path.suffix} network may have")
    return content


def _convert(data: Any) -> tuple[Node, ...]:
    try:
        return msgspec.convert(data, _File).nodes
    except msgspec.ValidationError as error:
        raise SpecError(_explain(str(error), data)) from None
    except UnicodeEncodeError:
        raise SpecError("some text in it cannot be written as UTF-8; remove the lone surrogates") from None


def _explain(problem: str, data: Any) -> str:
    """Turn `what - at `$.nodes[3].mean`` into a message that calls the node by its name."""
    what, _, at = problem.partition(" - at `$")
    path = at.rstrip("`").lstrip(".")
    what = what[:1].lower() + what[1:].replace("`", "")
    number = re.match(r"nodes\[(\d+)\](.*)", path)
    if number is None:
        return f'{path or "nodes"}: {what}; write {{"nodes": [...]}}, in TOML [[nodes]], with a name for each'
    node = data["nodes"][int(number[1])]
    name = node.get("name") if isinstance(node, dict) else None
    called = f'"{name}"' if isinstance(name, str) else f"number {int(number[1]) + 1}"
    return f"node {called}{number[2]}: {what}; a node has name, parents, values, probabilities, mean, std, slopes"


# The length of a name is bounded, as a pattern that repeats a group without end takes memory without end.
_TOKEN = re.compile(
    r'(?P<blank>\s+|//[^\n]*|/\*.*?\*/)|"(?P<quoted>[^"\n]{0,300})"|(?P<mark>[{}()\[\];,|])'
    r'|(?P<word>(?:(?!//|/\*)[^\s{}()\[\];,|"]){1,300})',
    re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,4})?")
_PLAIN_NUMBERS = re.compile(r"[-+.0-9eE,\s]*;")

Row = tuple[float, ...]


def parse_bif(text: str) -> tuple[Node, ...]:
    """The nodes of a network, in the order in which the variables are declared.

    Raises
    ------
    SpecError
        One message with the line, what was found there and what to write; it does not name the file.
    """
    cursor = _Cursor(text)
    file = _Declared({}, {})
    while cursor.token.kind != "end":
        start = cursor.token
        block = cursor.name("network, variable or probability")
        if block == "network":
            _network(cursor)
        elif block == "variable":
            _variable(cursor, file)
        elif block == "probability":
            _probability(cursor, file)
        else:
            raise cursor.error(f"found {_found(start)}; a block begins with network, variable or probability", start)
    if not file.values:
        raise cursor.error("found no variable; write a variable and a probability block for each node")
    for name in file.values:
        if name not in file.nodes:
            raise cursor.error(f'variable "{name}" has no probabilities; add probability ( {name} ) {{ table ...; }}')
    return tuple(file.nodes[name] for name in file.values)


@dataclass(frozen=True)
class _Token:
    kind: Literal["word", "quoted", "mark", "end"]
    text: str
    start: int


@dataclass(frozen=True)
class _Declared:
    """What was declared so far: the values of each variable, and its node once its probabilities are known."""

    values: dict[str, tuple[str, ...]]
    nodes: dict[str, Node]


class _Cursor:
    """Walks through the tokens of a text and knows the line for messages."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._next = 0
        self.cells = 0
        self.token = self._read()

    def _read(self) -> _Token:
        while self._next < len(self._text):
            match = _TOKEN.match(self._text, self._next)
            if match is None:
                raise self.error(
                    "a quotation mark or comment that does not end; close it", _Token("end", "", self._next)
                )
            start, self._next = self._next, match.end()
            if match.lastgroup == "quoted":
                return _Token("quoted", match["quoted"], start)
            if match.lastgroup == "mark":
                return _Token("mark", match["mark"], start)
            if match.lastgroup == "word":
                return _Token("word", match["word"], start)
        return _Token("end", "", len(self._text))

    def advance(self) -> _Token:
        """Go on, and return what was passed."""
        passed, self.token = self.token, self._read()
        return passed

    def at(self, mark: str) -> bool:
        """Whether this mark comes next."""
        return self.token.kind == "mark" and self.token.text == mark

    def take(self, *marks: str) -> bool:
        """Pass one of these marks if it comes next, and say whether it did."""
        taken = self.token.kind == "mark" and self.token.text in marks
        if taken:
            self.advance()
        return taken

    def expect(self, mark: str, where: str) -> None:
        """Pass a mark that must come next."""
        if not self.take(mark):
            raise self.error(f'found {_found(self.token)} in {where}; write "{mark}" here')

    def name(self, what: str) -> str:
        """Pass a name, quoted or not."""
        if self.token.kind not in ("word", "quoted") or not self.token.text:
            raise self.error(f"found {_found(self.token)}; write {what} here")
        if not self.token.text.isprintable():
            raise self.error(f"the name {_found(self.token)} has characters that cannot be printed; rename it")
        return self.advance().text

    def names(self, end: str, what: str) -> list[str]:
        """Pass names, separated by commas, bars or blanks, and the mark that ends them."""
        names: list[str] = []
        while not self.take(end):
            if len(names) > MOST_NODES:
                raise self.error(f"more than {MOST_NODES} names in one list; is this the right file?")
            names.append(self.name(f'{what} or "{end}"'))
            while self.take(",", "|"):
                pass
        return names

    def numbers(self, most: int) -> Row:
        """Pass at most so many numbers, separated by commas or blanks, and the semicolon that ends them."""
        plain = self._plain_numbers(most)
        if plain is not None:
            return plain
        numbers: list[float] = []
        while not self.take(";"):
            if len(numbers) == most:
                raise self.error(f"more than {most} probabilities before the semicolon; write one for each value")
            if self.token.kind != "word" or not _NUMBER.fullmatch(self.token.text):
                raise self.error(f'found {_found(self.token)}; write a probability or ";" here')
            numbers.append(float(self.advance().text))
            while self.take(","):
                pass
        return tuple(numbers)

    def _plain_numbers(self, most: int) -> Row | None:
        """The same in one go, several times as fast; None if anything else than numbers follows."""
        run = _PLAIN_NUMBERS.match(self._text, self.token.start)
        if run is None or run.end() - run.start() > 100 * (most + 1):
            return None
        words = run[0][:-1].replace(",", " ").split()
        if len(words) > most or not all(map(_NUMBER.fullmatch, words)):
            return None
        self._next = run.end()
        self.token = self._read()
        return tuple(map(float, words))

    def skip_property(self) -> None:
        """Pass everything up to a semicolon."""
        start = self.token
        while not self.take(";"):
            if self.token.kind == "end":
                raise self.error("a property that does not end; write a semicolon after it", start)
            self.advance()

    def error(self, problem: str, token: _Token | None = None) -> SpecError:
        """The error to raise, with the line of a token or of the place reached."""
        start = (token or self.token).start
        return SpecError(f"line {self._text.count(chr(10), 0, start) + 1}: {problem}")


def _network(cursor: _Cursor) -> None:
    if not cursor.at("{"):
        cursor.name("the network's name")
    cursor.expect("{", "network")
    while not cursor.take("}"):
        _property_only(cursor, "network")


def _variable(cursor: _Cursor, file: _Declared) -> None:
    start = cursor.token
    name = cursor.name("the variable's name")
    if name in file.values:
        raise cursor.error(f'variable "{name}" occurs twice; every name must be different', start)
    if len(file.values) == MOST_NODES:
        raise cursor.error(f"more than {MOST_NODES} variables, which is more than can be used", start)
    cursor.expect("{", f'variable "{name}"')
    values: tuple[str, ...] = ()
    while not cursor.take("}"):
        if cursor.token.text == "type" and not values:
            values = _type(cursor, name)
        else:
            _property_only(cursor, f'variable "{name}"')
    if not values:
        raise cursor.error(f'variable "{name}" has no values; write type discrete [ 2 ] {{ no, yes }};', start)
    file.values[name] = values


def _type(cursor: _Cursor, name: str) -> tuple[str, ...]:
    """`type discrete [ 2 ] { no, yes };`."""
    cursor.advance()
    kind = cursor.token
    if cursor.name("discrete") != "discrete":
        raise cursor.error(
            f'variable "{name}" has type {_found(kind)}; only discrete is read from BIF, '
            "numbers can be stated in TOML or JSON with mean and std",
            kind,
        )
    cursor.expect("[", f'the type of "{name}"')
    count = cursor.token
    stated = cursor.name("how many values there are")
    cursor.expect("]", f'the type of "{name}"')
    cursor.expect("{", f'the type of "{name}"')
    values = cursor.names("}", "a value")
    cursor.take(";")
    if stated != str(len(values)):
        raise cursor.error(
            f'variable "{name}" states {_found(count)} values and lists {len(values)} ({some(values)}); '
            "make the two agree",
            count,
        )
    if not values:
        raise cursor.error(f'variable "{name}" has no values; list at least one', count)
    if len(set(values)) != len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise cursor.error(f'variable "{name}" has the value "{twice}" twice; every value must be different', count)
    return tuple(values)


def _probability(cursor: _Cursor, file: _Declared) -> None:
    start = cursor.token
    cursor.expect("(", "probability")
    names = cursor.names(")", "a variable")
    if not names:
        raise cursor.error("probability of nothing; write probability ( child | parent, parent )", start)
    for name in names:
        if name not in file.values:
            raise cursor.error(f'there is no variable "{name}" above; {near(name, list(file.values))}', start)
    child, parents = names[0], tuple(names[1:])
    if child in file.nodes:
        raise cursor.error(f'the probabilities of "{child}" occur twice; remove one block', start)
    if len(set(parents)) != len(parents):
        raise cursor.error(f'"{child}" has a parent twice; name each parent once', start)
    block = _Block(cursor, start, child, file.values[child], [file.values[parent] for parent in parents])
    rows = block.read()
    probabilities = rows if parents else rows[""]
    file.nodes[child] = Node(name=child, parents=parents, values=file.values[child], probabilities=probabilities)


class _Block:
    """The inside of one probability block."""

    def __init__(
        self,
        cursor: _Cursor,
        start: _Token,
        child: str,
        values: tuple[str, ...],
        parents: Sequence[tuple[str, ...]],
    ) -> None:
        self._cursor, self._start, self._child = cursor, start, child
        self._values, self._parents = values, parents
        self._count = combinations(parents)
        cursor.cells += self._count * len(values)
        if cursor.cells > MOST_CELLS:
            raise cursor.error(
                f'with the probabilities of "{child}" the tables have {cursor.cells} numbers, '
                f"more than {MOST_CELLS}; use fewer parents or values",
                start,
            )
        self._known = [set(each) for each in parents]
        self._rows: dict[str, Row] = {}

    def read(self) -> dict[str, Row]:
        """The row of each combination of the parents, by its key."""
        cursor = self._cursor
        cursor.expect("{", f'probability of "{self._child}"')
        default: Row | None = None
        while not cursor.take("}"):
            start = cursor.token
            if cursor.take("("):
                self._add_row(start)
            elif start.text == "table":
                cursor.advance()
                self._add_table(start)
            elif start.text == "default" and default is None:
                cursor.advance()
                default = self._checked(cursor.numbers(len(self._values)), "default", start)
            else:
                _property_only(cursor, f'probability of "{self._child}"')
        if default is not None:
            self._rows = {key: self._rows.get(key, default) for key in keys_of(self._parents)}
        elif len(self._rows) < self._count:
            missing = next((key for key in keys_of(self._parents) if key not in self._rows), "...")
            what = f"({missing}) 0.1, ...;" if self._parents else "table 0.1, ...;"
            raise cursor.error(f'the probabilities of "{self._child}" lack a row; add {what}', self._start)
        return self._rows

    def _add_row(self, start: _Token) -> None:
        combination = self._cursor.names(")", "a value")
        if len(combination) != len(self._parents):
            raise self._cursor.error(
                f'a row of "{self._child}" names {len(combination)} values for {len(self._parents)} parents; '
                "name one value of each parent",
                start,
            )
        for value, known, values in zip(combination, self._known, self._parents, strict=True):
            if value not in known:
                raise self._cursor.error(
                    f'a row of "{self._child}" names "{value}", which is no value of that parent; '
                    f"{near(value, values)}",
                    start,
                )
        self._keep(key_of(combination), self._cursor.numbers(len(self._values)), start)

    def _add_table(self, start: _Token) -> None:
        """All numbers at once: the child's value changes slowest and the last parent's fastest."""
        size, count = len(self._values), self._count
        numbers = self._cursor.numbers(size * count)
        if len(numbers) != size * count:
            raise self._cursor.error(
                f'the table of "{self._child}" has {len(numbers)} numbers and needs {size * count}, one for each of '
                f"{size} values and {count} combinations of the parents",
                start,
            )
        rows = [numbers[place::count] for place in range(count)]
        if any(row_problem(row, self._values) for row in rows):
            others = [numbers[place : place + size] for place in range(0, size * count, size)]
            if not any(row_problem(row, self._values) for row in others):
                raise self._cursor.error(
                    f'the table of "{self._child}" sums to 1 only if the child\'s value changes fastest; in BIF '
                    "it changes slowest, so write one row for each combination instead: (a, b) 0.1, 0.9;",
                    start,
                )
        for key, row in zip(keys_of(self._parents), rows, strict=True):
            self._keep(key, row, start)

    def _keep(self, key: str, row: Row, start: _Token) -> None:
        if key in self._rows:
            raise self._cursor.error(
                f'the row ({key}) of "{self._child}" occurs twice, or its values contain ", " and cannot be told '
                "apart; keep one, or rename the values",
                start,
            )
        self._rows[key] = self._checked(row, f"({key})" if key else "table", start)

    def _checked(self, row: Row, what: str, start: _Token) -> Row:
        problem = row_problem(row, self._values)
        if problem:
            raise self._cursor.error(f'{what} of "{self._child}": {problem}', start)
        return row


def _property_only(cursor: _Cursor, where: str) -> None:
    if cursor.token.text != "property" or cursor.token.kind != "word":
        raise cursor.error(f"found {_found(cursor.token)} in {where}, which is not understood there; remove it")
    cursor.skip_property()


def _found(token: _Token, most: int = 40) -> str:
    """Return the text of a token in a form that cannot break the message into lines."""
    if token.kind == "end":
        return "the end of the file"
    text = token.text if len(token.text) <= most else token.text[: most - 3] + "..."
    return f'"{text}"' if text.isprintable() else ascii(text)

"""Reading a Bayesian network: stated in the spec, or from a file in BIF, JSON or TOML.

Reading executes nothing, and the size of a file is limited before it is parsed. From BIF (network, variable and
probability blocks) discrete variables are read. Comments, quoted names, `default` rows and tables with or without
commas are supported; `property` lines are skipped. A file is untrusted: its declarations are counted before memory is
allocated for them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from fairchain.errors import SpecError
from fairchain.messages import doubled, in_a_line, near, shown, unknown
from fairchain.populations.bayes.nodes import MOST_NODES, MOST_TABLE_CELLS, keys_of, row_problem, some_names
from fairchain.spec import BayesNetwork, Node
from fairchain.spec.documents import decode_text, parse_document, read_bytes

# Reading TOML takes ten times as long as reading JSON or BIF.
MOST_NETWORK_BYTES = {".bif": 50_000_000, ".json": 50_000_000, ".toml": 5_000_000}
STATED_NODES = "population.nodes"
CHECK_PATH = "check path in [population], which is relative to the spec"


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    nodes: Annotated[tuple[Node, ...], Meta(min_length=1)]


def source_of(network: BayesNetwork) -> str:
    """Return the name of a network in messages: its file, or the key of the spec."""
    return network.path or network.name or STATED_NODES


def read_nodes(network: BayesNetwork) -> tuple[Node, ...]:
    """Return the nodes of a network as stated, or those of its `.bif`, `.json` or `.toml` file.

    Raises a SpecError with the file and the line or key, what was found and what to write.
    """
    if network.path is None:
        return network.nodes
    path = Path(network.path)
    suffix = path.suffix.lower()
    try:
        if suffix not in MOST_NETWORK_BYTES:
            raise SpecError(f'a Bayesian network ends in .bif, .json or .toml, found "{suffix}"; rename or convert it')
        content = read_bytes(path, MOST_NETWORK_BYTES[suffix], CHECK_PATH)
        if suffix == ".bif":
            return parse_bif(decode_text(content))
        return _convert(parse_document(content, suffix))
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None


def _convert(data: Any) -> tuple[Node, ...]:
    try:
        return msgspec.convert(data, _File).nodes
    except msgspec.ValidationError as error:
        raise SpecError(in_a_line(_explain(str(error), data))) from None
    except UnicodeEncodeError:
        raise SpecError("some text in it cannot be written as UTF-8; remove the lone surrogates") from None


def _explain(problem: str, data: Any) -> str:
    """Turn `what - at `$.nodes[3].mean`` into a message that names the node."""
    what, _, at = problem.partition(" - at `$")
    path = at.rstrip("`").lstrip(".")
    what = what[:1].lower() + what[1:].replace("`", "")
    number = re.match(r"nodes\[(\d+)\](.*)", path)
    if number is None:
        return f'{path or "nodes"}: {what}; write {{"nodes": [...]}}, in TOML [[nodes]], with a name for each'
    node = data["nodes"][int(number[1])]
    name = node.get("name") if isinstance(node, dict) else None
    called = f'"{name}"' if isinstance(name, str) else f"number {int(number[1]) + 1}"
    keys = "name, parents, values, probabilities, mean, std, slopes, switches, value"
    return f"node {called}{number[2]}: {what}; a node has {keys}"


# The length of a name is bounded, because an unbounded repetition in a pattern needs unbounded memory.
_TOKEN = re.compile(
    r'(?P<blank>\s+|//[^\n]*|/\*.*?\*/)|"(?P<quoted>[^"\n]{0,300})"|(?P<mark>[{}()\[\];,|])'
    r'|(?P<word>(?:(?!//|/\*)[^\s{}()\[\];,|"]){1,300})',
    re.DOTALL,
)
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,4})?")
_PLAIN_NUMBERS = re.compile(r"[-+.0-9eE,\s]*;")

Probabilities = tuple[float, ...]


class _Token(NamedTuple):
    """A word, quoted name or mark of the text, or its end; `str()` shows it in one line of a message."""

    kind: str
    text: str
    start: int

    def __str__(self) -> str:
        return "the end of the file" if self.kind == "end" else shown(self.text)


def parse_bif(text: str) -> tuple[Node, ...]:
    """Return the nodes of a network, in the order in which the variables are declared.

    Raises a SpecError with the line, what was found there and what to write; it does not name the file.
    """
    return _BifParser(text).nodes()


class _BifParser:
    """Parser of the tokens of a text; it stores the declarations, and knows the line for messages."""

    def __init__(self, text: str) -> None:
        self._text, self._next, self._cells = text, 0, 0
        # The values of each variable, and its node once its probabilities are known.
        self._values: dict[str, tuple[str, ...]] = {}
        self._nodes: dict[str, Node] = {}
        self._token = self._read()

    def nodes(self) -> tuple[Node, ...]:
        """Read all blocks, and return the nodes in the order of the variables."""
        while self._token.kind != "end":
            start = self._token
            block = self._name("network, variable or probability")
            if block == "network":
                if not self._at("{"):
                    self._name("the network's name")
                self._expect("{", "network")
                while not self._take("}"):
                    self._skip_property("network")
            elif block == "variable":
                self._variable()
            elif block == "probability":
                self._probability()
            else:
                raise self._error(f"found {start}; a block begins with network, variable or probability", start)
        if not self._values:
            raise self._error("found no variable; write a variable and a probability block for each node")
        for name in self._values:
            if name not in self._nodes:
                example = f"add probability ( {name} ) {{ table ...; }}"
                raise self._error(f'variable "{name}" has no probabilities; {example}')
        return tuple(self._nodes[name] for name in self._values)

    def _variable(self) -> None:
        start = self._token
        name = self._name("the variable's name")
        where = f'variable "{name}"'
        if name in self._values:
            raise self._error(f"{where} occurs twice; every name must be different", start)
        if len(self._values) == MOST_NODES:
            raise self._error(f"more than {MOST_NODES} variables, which is more than can be used", start)
        self._expect("{", where)
        values: tuple[str, ...] = ()
        while not self._take("}"):
            if self._token.text == "type" and not values:
                values = self._type(where)
            else:
                self._skip_property(where)
        if not values:
            raise self._error(f"{where} has no values; write type discrete [ 2 ] {{ no, yes }};", start)
        self._values[name] = values

    def _type(self, where: str) -> tuple[str, ...]:
        """Read `type discrete [ 2 ] { no, yes };`."""
        self._advance()
        kind, inside = self._token, where.replace("variable", "the type of", 1)
        if self._name("discrete") != "discrete":
            remedy = "only discrete is read from BIF, numbers can be stated in TOML or JSON with mean and std"
            raise self._error(f"{where} has type {kind}; {remedy}", kind)
        self._expect("[", inside)
        count = self._token
        stated = self._name("how many values there are")
        self._expect("]", inside)
        self._expect("{", inside)
        values = self._names("}", "a value")
        self._take(";")
        if stated != str(len(values)):
            found = f"states {count} values and lists {len(values)} ({some_names(values)})"
            raise self._error(f"{where} {found}; make the two agree", count)
        if (twice := doubled(values)) is not None:
            raise self._error(f'{where} has the value "{twice}" twice; every value must be different', count)
        return tuple(values)

    def _probability(self) -> None:
        start = self._token
        self._expect("(", "probability")
        names = self._names(")", "a variable")
        if not names:
            raise self._error("probability of nothing; write probability ( child | parent, parent )", start)
        for name in names:
            if name not in self._values:
                raise self._error(unknown("variable", name, list(self._values)), start)
        child, *parents = names
        if child in self._nodes:
            raise self._error(f'the probabilities of "{child}" occur twice; remove one block', start)
        if doubled(parents) is not None:
            raise self._error(f'"{child}" has a parent twice; name each parent once', start)
        rows = self._rows(start, child, [self._values[parent] for parent in parents])
        self._nodes[child] = Node(
            name=child, parents=tuple(parents), values=self._values[child], probabilities=rows if parents else rows[""]
        )

    def _rows(self, start: _Token, child: str, parents: Sequence[tuple[str, ...]]) -> dict[str, Probabilities]:
        """Read a block of probabilities: the row of each combination of the parents' values, by its key."""
        values, count = self._values[child], math.prod(map(len, parents))
        self._cells += count * len(values)
        if self._cells > MOST_TABLE_CELLS:
            raise self._error(
                f'with the probabilities of "{child}" the tables have {self._cells} numbers, '
                f"more than {MOST_TABLE_CELLS}; use fewer parents or values",
                start,
            )
        known = [dict.fromkeys(each) for each in parents]
        rows: dict[str, Probabilities] = {}
        default: Probabilities | None = None
        self._expect("{", f'probability of "{child}"')
        while not self._take("}"):
            token, found = self._token, dict[str, Probabilities]()
            if self._take("("):
                key = self._combination(token, child, known)
                found[key] = self._numbers(len(values))
            elif token.text == "table":
                self._advance()
                found = dict(zip(keys_of(parents), self._table(token, child, count), strict=True))
            elif token.text == "default" and default is None:
                self._advance()
                default = self._numbers(len(values))
                self._check_row(token, child, "default", default)
            else:
                self._skip_property(f'probability of "{child}"')
            for key, row in found.items():
                if key in rows:
                    raise self._error(
                        f'the row ({key}) of "{child}" occurs twice, or its values contain ", " and are ambiguous; '
                        "keep one, or rename the values",
                        token,
                    )
                self._check_row(token, child, f"({key})" if key else "table", row)
                rows[key] = row
        if default is not None:
            return {key: rows.get(key, default) for key in keys_of(parents)}
        if len(rows) < count:
            missing = next((key for key in keys_of(parents) if key not in rows), "...")
            what = f"({missing}) 0.1, ...;" if parents else "table 0.1, ...;"
            raise self._error(f'the probabilities of "{child}" lack a row; add {what}', start)
        return rows

    def _combination(self, start: _Token, child: str, parents: Sequence[Mapping[str, None]]) -> str:
        """Read `north, Male)`, and return it as a key."""
        names = self._names(")", "a value")
        if len(names) != len(parents):
            found = f"names {len(names)} values for {len(parents)} parents"
            raise self._error(f'a row of "{child}" {found}; name one value of each parent', start)
        for name, values in zip(names, parents, strict=True):
            if name not in values:
                found = f'names "{name}", which is not a value of that parent'
                raise self._error(f'a row of "{child}" {found}; {near(name, list(values))}', start)
        return ", ".join(names)

    def _table(self, start: _Token, child: str, count: int) -> list[Probabilities]:
        """Read all rows at once: the child's value changes slowest and the last parent's fastest."""
        values = self._values[child]
        size = len(values)
        numbers = self._numbers(size * count)
        if len(numbers) != size * count:
            raise self._error(
                f'the table of "{child}" has {len(numbers)} numbers and needs {size * count}, one for each of '
                f"{size} values and {count} combinations of the parents",
                start,
            )
        rows = [numbers[place::count] for place in range(count)]
        if any(row_problem(row, values) for row in rows):
            others = [numbers[place : place + size] for place in range(0, size * count, size)]
            if not any(row_problem(row, values) for row in others):
                raise self._error(
                    f'the table of "{child}" sums to 1 only if the child\'s value changes fastest; in BIF '
                    "it changes slowest, so write one row for each combination instead: (a, b) 0.1, 0.9;",
                    start,
                )
        return rows

    def _check_row(self, start: _Token, child: str, what: str, row: Probabilities) -> None:
        if problem := row_problem(row, self._values[child]):
            raise self._error(f'{what} of "{child}": {problem}', start)

    def _numbers(self, most: int) -> Probabilities:
        """Read at most this many numbers, separated by commas or blanks, and the semicolon that ends them."""
        # All at once, several times as fast, if only numbers follow.
        run = _PLAIN_NUMBERS.match(self._text, self._token.start)
        if run is not None and run.end() - run.start() <= 100 * (most + 1):
            words = run[0][:-1].replace(",", " ").split()
            if len(words) <= most and all(map(_NUMBER.fullmatch, words)):
                self._next = run.end()
                self._advance()
                return tuple(map(float, words))
        numbers: list[float] = []
        while not self._take(";"):
            if len(numbers) == most:
                raise self._error(f"more than {most} probabilities before the semicolon; write one for each value")
            if self._token.kind != "word" or not _NUMBER.fullmatch(self._token.text):
                raise self._error(f'found {self._token}; write a probability or ";" here')
            numbers.append(float(self._advance().text))
            while self._take(","):
                pass
        return tuple(numbers)

    def _names(self, end: str, what: str) -> list[str]:
        """Read names, separated by commas, bars or blanks, and the mark that ends them."""
        names: list[str] = []
        while not self._take(end):
            if len(names) > MOST_NODES:
                raise self._error(f"more than {MOST_NODES} names in one list; is this the right file?")
            names.append(self._name(f'{what} or "{end}"'))
            while self._take(",") or self._take("|"):
                pass
        return names

    def _name(self, what: str) -> str:
        """Read a name, quoted or not."""
        if self._token.kind not in ("word", "quoted") or not self._token.text:
            raise self._error(f"found {self._token}; write {what} here")
        if not self._token.text.isprintable():
            raise self._error(f"the name {self._token} has characters that cannot be printed; rename it")
        return self._advance().text

    def _skip_property(self, where: str) -> None:
        """Skip a property up to its semicolon; anything else is an error here."""
        start = self._token
        if (start.kind, start.text) != ("word", "property"):
            raise self._error(f"found {start} in {where}, which is not supported there; remove it")
        while not self._take(";"):
            if self._token.kind == "end":
                raise self._error("a property that does not end; write a semicolon after it", start)
            self._advance()

    def _expect(self, mark: str, where: str) -> None:
        """Read a mark that must come next."""
        if not self._take(mark):
            raise self._error(f'found {self._token} in {where}; write "{mark}" here')

    def _take(self, mark: str) -> bool:
        """Read a mark if it comes next, and return whether it did."""
        if taken := self._at(mark):
            self._advance()
        return taken

    def _at(self, mark: str) -> bool:
        return self._token.kind == "mark" and self._token.text == mark

    def _advance(self) -> _Token:
        """Advance to the next token, and return the current one."""
        passed, self._token = self._token, self._read()
        return passed

    def _read(self) -> _Token:
        while self._next < len(self._text):
            match, start = _TOKEN.match(self._text, self._next), self._next
            if match is None:
                unclosed = _Token("end", "", start)
                raise self._error("a quotation mark or comment that does not end; close it", unclosed)
            self._next = match.end()
            if match.lastgroup != "blank":
                kind = str(match.lastgroup)
                return _Token(kind, match[kind], start)
        return _Token("end", "", len(self._text))

    def _error(self, problem: str, token: _Token | None = None) -> SpecError:
        """Return an error with the line of a token or of the current position."""
        start = (token or self._token).start
        return SpecError(f"line {self._text.count(chr(10), 0, start) + 1}: {problem}")

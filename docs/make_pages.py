"""Writes docs/commands.md and docs/python.md from the program itself: its help texts, signatures and docstrings.

`python docs/make_pages.py` writes the pages; a test checks that they are up to date.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

import click

import fairchain
from fairchain.cli.app import app

HERE = Path(__file__).parent
WRITTEN = "`python docs/make_pages.py` generates this page from the program."
SECTIONS = ("Parameters", "Attributes", "Returns", "Raises", "Notes", "Examples")


def commands() -> str:
    """Every command with its arguments and options."""
    parts = [
        "# Commands",
        "This page describes every command and its options. `fairchain COMMAND --help` prints the same description. "
        "The [glossary](glossary.md) defines the terms, and the [reference](reference.md#exit-codes) lists all exit "
        f"codes. {WRITTEN}",
    ]
    for name, command in sorted(_commands(app)):
        usage = " ".join([name, *command.collect_usage_pieces(click.Context(command))])
        parts += [f"## {name}", _paragraphs(inspect.cleandoc(command.help or "")), f"```sh\n{usage}\n```"]
        options = [_option(each) for each in command.params if isinstance(each, click.Option) and not each.hidden]
        if options:
            parts.append("\n".join(["| option | |", "| --- | --- |", *options]))
        if command.epilog:
            examples = command.epilog.removeprefix("Example: ").split("; ")
            parts.append("For example: " + ", ".join(f"`{each}`" for each in examples))
    return "\n\n".join(parts) + "\n"


def _commands(group: click.Group, before: str = "fairchain") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _commands(command, f"{before} {name}")
        else:
            yield f"{before} {name}", command


def _option(option: click.Option) -> str:
    record = option.get_help_record(click.Context(click.Command("fairchain")))
    assert record is not None
    named, text = (" ".join(each.split()).replace("|", "\\|") for each in record)
    return f"| `{named}` | {text} |"


def python() -> str:
    """Every public name: functions first, then what they return and take, then errors."""
    public = {name: getattr(fairchain, name) for name in fairchain.__all__ if not name.startswith("_")}
    errors = {name: each for name, each in public.items() if _is_error(each)}
    functions = {name: each for name, each in public.items() if inspect.isfunction(each)}
    classes = {name: each for name, each in public.items() if name not in errors and name not in functions}
    parts = [
        "# Python",
        "This page describes every function and class that you can import from `fairchain`. The "
        f"[glossary](glossary.md) defines the terms. {WRITTEN}",
        "## Functions",
    ]
    parts += [part for name, each in functions.items() for part in _function(name, each)]
    parts += ["## Classes", *(part for name, each in classes.items() for part in _class(name, each)), "## Errors"]
    rows = [f"| `{name}` | `{each.__base__.__name__}` | {_first(each)} |" for name, each in errors.items()]
    return "\n\n".join([*parts, "\n".join(["| error | is a | |", "| --- | --- | --- |", *rows])]) + "\n"


def _is_error(each: Any) -> bool:
    return inspect.isclass(each) and issubclass(each, Exception)


def _function(name: str, function: Any) -> list[str]:
    return [f"### {name}", f"```python\n{_signature(name, function)}\n```", _documented(function)]


def _class(name: str, each: Any) -> list[str]:
    members = [
        f"- `{key}{_brackets(value)}`: {_first(value)}"
        for key, value in vars(each).items()
        if not key.startswith("_") and inspect.getdoc(value) and _is_member(value)
    ]
    title = "*Properties and methods*"
    if issubclass(each, Enum):
        title, members = "*Members*", [f"- `{value.name}`" for value in each]
    return [f"### {name}", _documented(each), *_fields(each), *([title, "\n".join(members)] if members else [])]


def _fields(each: Any) -> list[str]:
    """Of a class that is made of fields and does not describe each of them: what they are."""
    fields = [field for field in dataclasses.fields(each) if field.init] if dataclasses.is_dataclass(each) else []
    if not fields or "Parameters\n---" in (inspect.getdoc(each) or ""):
        return []
    return ["*Fields*", "\n".join(f"- `{field.name}: {field.type}`" for field in fields)]


def _is_member(value: Any) -> bool:
    return inspect.isfunction(value) or isinstance(value, property | cached_property | classmethod | staticmethod)


def _brackets(value: Any) -> str:
    return "" if isinstance(value, property | cached_property) else "()"


def _signature(name: str, function: Any) -> str:
    """One parameter on each line; annotations as they are written."""
    lines = []
    before = inspect.Parameter.POSITIONAL_ONLY
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY is not before:
            lines.append("    *,")
        before = parameter.kind
        lines.append(f"    {_parameter(parameter)},")
    returned = "" if signature.return_annotation is signature.empty else f" -> {signature.return_annotation}"
    inner = "\n".join(["", *lines, ""]) if lines else ""
    return f"{name}({inner}){returned}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
    return f"{stars}{parameter.name}: {parameter.annotation}{default}"


def _first(each: Any) -> str:
    return " ".join((inspect.getdoc(each) or "").split("\n\n")[0].split())


def _documented(each: Any) -> str:
    """A docstring in numpy's form, as Markdown."""
    parts = re.split(rf"^({'|'.join(SECTIONS)})\n-+\n", inspect.getdoc(each) or "", flags=re.MULTILINE)
    found = [_paragraphs(parts[0])]
    for title, body in zip(parts[1::2], parts[2::2], strict=True):
        if title == "Examples":
            found.append(f"```pycon\n{body.strip()}\n```")
        else:
            found += [f"*{title}*", _paragraphs(body) if title == "Notes" else _entries(body)]
    return "\n\n".join(part for part in found if part)


def _entries(body: str) -> str:
    """`name` on a line of its own, and its description indented below."""
    entries: list[tuple[str, list[str]]] = []
    for line in body.strip("\n").splitlines():
        if line and not line[0].isspace():
            entries.append((line, []))
        elif entries:
            entries[-1][1].append(line)
    return "\n".join(f"- `{name}`: {' '.join(textwrap.dedent(chr(10).join(text)).split())}" for name, text in entries)


def _paragraphs(text: str) -> str:
    """Paragraphs on one line each; examples stay as they are."""
    found = []
    for paragraph in text.strip().split("\n\n"):
        lines = paragraph.splitlines()
        if lines and lines[0].startswith(">>>"):
            found.append(f"```pycon\n{paragraph}\n```")
        elif lines and lines[0].strip() == "\b":
            found.append(_kept_lines(lines[1:]))
        elif all(line.startswith("- ") or line.startswith("  ") for line in lines):
            found.append(paragraph)
        else:
            found.append(" ".join(paragraph.split()))
    return "\n\n".join(found)


def _kept_lines(lines: list[str]) -> str:
    """Lines that click does not join: exit codes below a title as a list, other lines as commands of a shell."""
    if not lines[0].endswith(":"):
        return "```sh\n" + "\n".join(lines) + "\n```"
    codes = (line.split(maxsplit=1) for line in lines[1:])
    return f"{lines[0]}\n\n" + "\n".join(f"- `{code}`: {meaning}" for code, meaning in codes)


PAGES = {"commands.md": commands, "python.md": python}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (HERE / name).write_text(page(), encoding="utf-8")

"""The options of the command line: one name has one meaning in every command, and former names are refused."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature

import click
import pytest

import fairchain
from fairchain.cli.app import app
from fairchain.cli.options import RENAMED_OPTIONS
from tests.cli.command import Cli


def _options() -> list[tuple[str, click.Option]]:
    found = []
    for name, command in app.commands.items():
        for path, each in (
            [(f"{name} {sub}", inner) for sub, inner in command.commands.items()]
            if isinstance(command, click.Group)
            else [(name, command)]
        ):
            found += [(path, option) for option in each.params if isinstance(option, click.Option)]
    return found


@pytest.mark.parametrize(
    ("command", "option"), [(command, each) for command, old in RENAMED_OPTIONS.items() for each in old]
)
def test_a_former_option_is_refused_with_its_new_name(cli: Cli, command: str, option: str) -> None:
    code, out, err = cli(*command.split()[1:], option, "x")
    assert (code, out) == (2, "")
    assert err == f"fairchain: {option} is now {RENAMED_OPTIONS[command][option]}; see {command} --help\n"


@pytest.mark.parametrize(
    ("commands", "function"),
    [
        ({"audit"}, fairchain.audit),
        ({"explain"}, fairchain.explain),
        ({"init"}, fairchain.infer_spec),
        ({"monitor"}, fairchain.Monitor),
        ({"query", "export"}, fairchain.learn_chain),
        ({"query", "export"}, fairchain.learn_family),
        ({"query"}, fairchain.check_chain),
        ({"recheck"}, fairchain.recheck),
        ({"repair"}, fairchain.repair),
        ({"verify"}, fairchain.verify),
    ],
)
def test_a_python_parameter_has_the_name_of_its_option(commands: set[str], function: Callable[..., object]) -> None:
    """Names of positional parameters are free; the rest is an option, or one of those that only Python has."""
    options = {option.opts[-1].lstrip("-").replace("-", "_") for command, option in _options() if command in commands}
    only_python = {"limits", "progress", "report", "isolate", "certify", "before", "explanation", "population"}
    # `as` is a keyword of Python, and one flag is the negation of its parameter; init has no recorded decisions.
    other_names = {"reading": "as", "repair": "no_repair", "groups": "group", "prediction": "prediction"}
    keywords = [each.name for each in signature(function).parameters.values() if each.kind is each.KEYWORD_ONLY]
    missing = {name for name in keywords if other_names.get(name, name) not in options} - only_python
    # On the command line the rows of a population that is repaired or audited come from the spec.
    in_memory = {"data"} if commands & {"audit", "repair"} else set()
    assert missing <= ({"prediction"} if "init" in commands else in_memory)


def test_every_option_says_what_it_is() -> None:
    assert [f"{command} {option.opts[0]}" for command, option in _options() if not option.help] == []


def test_an_option_has_one_short_name_and_one_type_in_every_command() -> None:
    kinds: dict[str, set[object]] = {}
    for _, option in _options():
        type_of = option.type.name.removesuffix(" range").replace("path", "text")
        kinds.setdefault(option.opts[-1], set()).add((option.opts[0], type_of, option.is_flag))
    several = {name: found for name, found in kinds.items() if len(found) > 1}
    # A budget of verify may be 1e6; elsewhere rounds are counted.
    assert set(several) <= {"--rounds"}


@pytest.mark.parametrize("group", [(), ("data",)])
def test_without_a_command_the_help_page_is_printed_line_by_line(cli: Cli, group: tuple[str, ...]) -> None:
    code, out, err = cli(*group)
    assert code == 2 or not err  # click before 8.2 prints it on standard output
    lines = (err or out).splitlines()
    assert lines[0] == " ".join(["Usage: fairchain", *group, "[OPTIONS] COMMAND [ARGS]..."])
    assert "Commands:" in lines


@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ("--treshold", "did you mean --threshold? See fairchain check --help"),
        ("--metric", "see fairchain check --help"),
    ],
)
def test_an_unknown_option_is_named_with_a_similar_one_only(cli: Cli, option: str, remedy: str) -> None:
    assert cli("check", "data.csv", option, "1") == (2, "", f"fairchain: unknown option {option}; {remedy}\n")


def test_an_option_without_its_value_names_the_help_of_its_command(cli: Cli) -> None:
    code, _, err = cli("demo", "--report")
    assert (code, err.endswith("see fairchain demo --help\n")) == (2, True)

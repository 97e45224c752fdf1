"""Names across the package: a public name has one meaning, and what is private to a module stays in it."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import fairchain
from fairchain import example
from fairchain.errors import SpecError
from fairchain.examples import RENAMED_EXAMPLE
from tests.messages import says

SOURCE = Path(fairchain.__file__).parent
# Public functions that several modules define, since they mean the same in each.
COMMANDS = {"audit", "check", "compare", "explain", "plan", "recheck", "repair", "verify"}  # a command and its function
CHECKED_TWICE = {"chunk_rounds", "count_rows", "largest_bound", "trials_within"}  # the recheck computes them by itself
OF_EACH_MODULE = {
    *("read", "to_lines"),  # each file format of a chain
    "to_network",  # each converter to ONNX
    *("answer", "main", "read_in_child", "serve"),  # each module that runs in a child process
}
# Constants of which each plot has its own value.
PLOT_MEASURES = {"WIDTH", "TOP", "BOTTOM", "LEFT"}
# Private names of other packages that have no public form.
FOREIGN = {"sys._getframe", "os._exit", "threading._shutdown", "atexit._run_exitfuncs"}


@pytest.fixture(scope="module", name="modules")
def _modules() -> dict[Path, ast.Module]:
    """Every module of the package; as a fixture, since every process that collects tests imports this file."""
    return {path: ast.parse(path.read_text()) for path in sorted(SOURCE.rglob("*.py"))}


def place(path: Path, node: ast.AST) -> str:
    return f"{path.relative_to(SOURCE)}:{getattr(node, 'lineno', 0)}"


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def test_a_public_class_name_is_used_once(modules: dict[Path, ast.Module]) -> None:
    found = defaultdict(list)
    for path, tree in modules.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not is_private(node.name):
                found[node.name].append(place(path, node))
    assert {name: places for name, places in found.items() if len(places) > 1} == {}


def test_few_modules_share_a_file_name(modules: dict[Path, ast.Module]) -> None:
    found = Counter(path.name for path in modules if path.name != "__init__.py")
    # Each stage has its result.
    assert {name for name, count in found.items() if count > 2} == {"result.py"}


def test_a_public_function_name_has_one_meaning(modules: dict[Path, ast.Module]) -> None:
    found = defaultdict(list)
    for path, tree in modules.items():
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                found[node.name].append(place(path, node))
    several = {name: places for name, places in found.items() if len(places) > 1}
    allowed = COMMANDS | CHECKED_TWICE | OF_EACH_MODULE
    assert {name: places for name, places in several.items() if name not in allowed} == {}
    assert allowed - set(several) == set()


def test_a_public_constant_has_the_same_value_wherever_it_is_defined(modules: dict[Path, ast.Module]) -> None:
    found = defaultdict(dict)
    for path, tree in modules.items():
        for name, value in constants(tree):
            found[name][value] = f"{path.relative_to(SOURCE)}"
    several = {name: places for name, places in found.items() if len(places) > 1}
    plots = {name for name, places in several.items() if all("plots/" in place for place in places.values())}
    assert several.keys() - plots == set()
    assert plots == PLOT_MEASURES


def constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each public name that a module assigns, and its value as it is written."""
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple):
                    parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value] * len(target.elts)
                    pairs = list(zip(target.elts, parts, strict=True))
                for name, value in pairs:
                    if isinstance(name, ast.Name) and not name.id.startswith("_"):
                        yield name.id, ast.unparse(value)


def test_no_module_imports_a_private_name_of_another(modules: dict[Path, ast.Module]) -> None:
    imported = [
        f"{place(path, node)} {alias.name}"
        for path, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fairchain")
        for alias in node.names
        if is_private(alias.name) and alias.name != "_version"
    ]
    assert imported == []


def test_no_module_reads_a_private_attribute_that_it_does_not_define(modules: dict[Path, ast.Module]) -> None:
    assert [each for path, tree in modules.items() for each in foreign_attributes(path, tree)] == []


def foreign_attributes(path: Path, tree: ast.Module) -> Iterator[str]:
    nodes = list(ast.walk(tree))
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    own |= {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    own |= {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id in ("self", "cls")
    }
    for node in nodes:
        if isinstance(node, ast.Attribute) and is_private(node.attr) and node.attr not in own:
            text = ast.unparse(node)
            if text.split(".")[0] not in ("self", "cls") and text not in FOREIGN:
                yield f"{place(path, node)} {text}"


def test_an_example_with_an_older_name_is_refused_with_its_new_name() -> None:
    with pytest.raises(SpecError, match=says(RENAMED_EXAMPLE, name="census-people", new="census-rows")):
        example("census-people")

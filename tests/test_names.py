"""Names across the package: a public class name has one meaning, and what is private to a module stays in it."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import fairchain
from fairchain import example
from fairchain.errors import SpecError

SOURCE = Path(fairchain.__file__).parent
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
    with pytest.raises(SpecError, match='"census-people" is now called "census-rows"'):
        example("census-people")

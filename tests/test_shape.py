"""The shape of the code. Every rule is a function, and every rule has an example that breaks it."""

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cache, cached_property
from pathlib import Path

import pytest

from penstock.app.settings_sections import RateSection
from penstock.core.limits import Limits
from tests.kit.replaced_names import replaced_names

pytestmark = pytest.mark.slow("whichever comes first parses every file there is")
ROOT = Path(__file__).parents[1]
TOOL = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
SHAPE, LAYERS = TOOL["shape"], TOOL["importlinter"]["contracts"][0]["layers"]
PACKAGE: str = SHAPE["package"]
SOURCE, TESTS = ROOT / PACKAGE, ROOT / "tests"
PROGRAMS = [ROOT / folder for folder in ("bench", "examples", "scripts")]
HOMES_OF_ERRORS = ("core/call_errors.py", "core/errors.py", "core/reply.py")
NO_TWIN = {"chaos", "conformance", "contracts", "journeys", "promises"}
"""Folders of tests that are about several files."""
JSON_READERS = {"json.load", "json.loads", "json.JSONDecoder", "msgspec.json.decode"}
READS_OWN_JSON = tuple(SHAPE["reads_own_json"])
Function = ast.FunctionDef | ast.AsyncFunctionDef
Import = ast.Import | ast.ImportFrom


@dataclass(frozen=True, kw_only=True)
class File:
    """One Python file, read and parsed."""

    path: str
    text: str

    @cached_property
    def module(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.module))

    @property
    def functions(self) -> Iterator[Function]:
        return (node for node in self.nodes if isinstance(node, Function))

    @property
    def classes(self) -> Iterator[ast.ClassDef]:
        return (node for node in self.nodes if isinstance(node, ast.ClassDef))

    @property
    def imports(self) -> Iterator[str]:
        """Every module that the file imports, and every name it takes from one."""
        for node in self.nodes:
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            if isinstance(node, ast.ImportFrom):
                yield "." * node.level + (node.module or "")
                yield from (f"{node.module}.{alias.name}" for alias in node.names)

    @property
    def package(self) -> str:
        """The package of the file; empty for a test or a program."""
        parts = Path(self.path).parts
        return parts[1] if parts[0] == PACKAGE and len(parts) > 2 else ""

    @property
    def name(self) -> str:
        return Path(self.path).stem


# ---- rules ---------------------------------------------------------------------------------------


def file_is_short(file: File) -> Iterator[str]:
    if (lines := len(file.text.splitlines())) > SHAPE["file_lines"]:
        yield f"{lines} lines"


def file_begins_with_its_purpose(file: File) -> Iterator[str]:
    first = (ast.get_docstring(file.module) or "").partition("\n")[0]
    if not first.endswith("."):
        yield "the file does not begin with a sentence"


def functions_are_short(file: File) -> Iterator[str]:
    for function in file.functions:
        lines = (function.end_lineno or 0) - function.lineno + 1
        if lines > SHAPE["function_lines"]:
            yield f"{function.name} has {lines} lines"


def parameters_are_few(file: File) -> Iterator[str]:
    for function in file.functions:
        spec = function.args
        names = [arg.arg for arg in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
        taken = [name for name in names if name not in {"self", "cls"}]
        if file.package and len(taken) > SHAPE["parameters"]:
            yield f"{function.name} takes {len(taken)} parameters"


def imports_are_at_the_top(file: File) -> Iterator[str]:
    top = set(file.module.body)
    for node in file.nodes:
        if isinstance(node, Import) and node not in top:
            yield f"line {node.lineno} imports inside"
        if isinstance(node, ast.ImportFrom) and node.level:
            yield f"line {node.lineno} imports relatively"
    if "TYPE_CHECKING" in {name.rpartition(".")[2] for name in file.imports}:
        yield "TYPE_CHECKING hides a cycle"


def package_does_not_import_its_public_facade(file: File) -> Iterator[str]:
    if file.package and PACKAGE in file.imports:
        yield f"imports from {PACKAGE} itself"


def third_party_imports_are_listed(file: File) -> Iterator[str]:
    keys = ("everywhere", file.package, f"{file.package}.{file.name}")
    listed = [name for key in keys for name in SHAPE["third_party"].get(key, [])]
    roots = {name.partition(".")[0] for name in file.imports}
    strangers = roots - {PACKAGE, *sys.stdlib_module_names, *listed}
    if file.path.startswith(f"{PACKAGE}/") and strangers:
        yield f"{file.package or 'the root'} may not import {', '.join(sorted(strangers))}"


def nothing_is_mocked(file: File) -> Iterator[str]:
    if any(re.match(r"unittest\.mock|mock\b|pytest_mock", name) for name in file.imports):
        yield "a mock: use or write a fake"
    ours = {name.rpartition(".")[2] for name in file.imports if name.startswith(f"{PACKAGE}.")}
    yield from replaced_names(file.text, file.nodes, {PACKAGE, *ours})


def nothing_is_skipped(file: File) -> Iterator[str]:
    """A skipped test hides what it would find: install what it needs."""
    for node in file.nodes:
        match node:
            case ast.Attribute(value=ast.Name(id="pytest"), attr="skip" | "xfail" | "importorskip"):
                yield f"line {node.lineno} skips"
            case ast.Attribute(
                value=ast.Attribute(value=ast.Name(id="pytest"), attr="mark"),
                attr="skip" | "skipif" | "xfail",
            ):
                yield f"line {node.lineno} skips"


def names_have_no_empty_words(file: File) -> Iterator[str]:
    folders = Path(file.path).parts[1:-1]
    for name in [*folders, file.name, *(node.name for node in file.classes)]:
        words = {word.lower() for word in re.findall(r"[A-Z]?[a-z]+", name)}
        if file.package and words & {*SHAPE["empty_words"]}:
            yield f"{name} is a word without meaning"


def errors_are_defined_in_one_file(file: File) -> Iterator[str]:
    for node in file.classes:
        bases = " ".join(ast.unparse(base) for base in node.bases)
        raised = re.search(r"(Error|Exception|Signal)\b", bases)
        if file.package and raised and not file.path.endswith(HOMES_OF_ERRORS):
            yield f"{node.name} belongs in core/errors.py"


def json_from_outside_is_read_strictly(file: File) -> Iterator[str]:
    for node in file.nodes if file.package and not file.path.endswith(READS_OWN_JSON) else []:
        if isinstance(node, ast.Attribute) and ast.unparse(node) in JSON_READERS:
            yield f"line {node.lineno}: only parse_json of core/json_values/json_text.py reads JSON"


def late_names_exist(file: File) -> Iterator[str]:
    for node in file.nodes:
        match node:
            case ast.Call(func=ast.Name(id="late"), args=[ast.Constant(value=str(path))]):
                module, _, name = path.partition(":")
                if name not in defined(module):
                    yield f"there is no {path}"
                elif file.package and height(module.split(".")[1]) > height(file.package):
                    yield f"{path} is in a higher layer than {file.package}"
            case ast.Call(func=ast.Name(id="late")) if file.package:
                yield "late takes a literal"


@cache
def defined(module: str) -> frozenset[str]:
    """The names that a module defines; empty if there is no such module."""
    place = ROOT / module.replace(".", "/")
    homes = [home for home in (place.with_suffix(".py"), place / "__init__.py") if home.exists()]
    body = [node for home in homes for node in ast.parse(home.read_text()).body]
    names: set[str] = set()
    for node in body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names.add(node.name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case _:
                pass
    return frozenset(names)


def height(package: str) -> int:
    """The level of a package; higher layers import lower ones."""
    rows = [re.split(r"[\s|()]+", row) for row in reversed(LAYERS)]
    return next(number for number, row in enumerate(rows) if package in row)


Rule = Callable[[File], Iterator[str]]
COUNTEREXAMPLES: list[tuple[Rule, str]] = [
    (file_is_short, '"""X."""\n' * 401),
    (file_begins_with_its_purpose, "x = 1\n"),
    (functions_are_short, "def f():\n" + "    x = 1\n" * 50),
    (parameters_are_few, "def f(self, a, b, c, *, d, e, f, g): ...\n"),
    (imports_are_at_the_top, "def f():\n    import json\n"),
    (imports_are_at_the_top, "try:\n    import json\nexcept ImportError:\n    json = None\n"),
    (imports_are_at_the_top, "if x:\n    import json\n"),
    (imports_are_at_the_top, "from typing import TYPE_CHECKING\n"),
    (imports_are_at_the_top, "from .envelope import Envelope\n"),
    (package_does_not_import_its_public_facade, f"from {PACKAGE} import build\n"),
    (third_party_imports_are_listed, "import sqlalchemy.orm\n"),
    (third_party_imports_are_listed, "from yaml import safe_load\n"),
    (nothing_is_mocked, "from unittest import mock\n"),
    (nothing_is_mocked, "import mock\n"),
    (nothing_is_mocked, f"monkeypatch.setattr('{PACKAGE}.core.clock.TICK', 1)\n"),
    (nothing_is_mocked, f"from {PACKAGE}.a import b\nmonkeypatch.setattr(b, 'C', 1)\n"),
    (nothing_is_mocked, f"from {PACKAGE}.a import B\nmonkeypatch.delattr(B.c, 'd')\n"),
    (nothing_is_mocked, f"from {PACKAGE}.a import B\nB.d = 1\n"),
    (nothing_is_mocked, f"monkeypatch.setitem(sys.modules, '{PACKAGE}.a', 1)\n"),
    (nothing_is_mocked, "log.read = counted  # type: ignore[method-" + "assign]\n"),
    (nothing_is_skipped, "@pytest.mark.skip\ndef test_x(): ...\n"),
    (nothing_is_skipped, "@pytest.mark.skipif(x, reason='y')\ndef test_x(): ...\n"),
    (nothing_is_skipped, "def test_x():\n    pytest.skip('no database')\n"),
    (names_have_no_empty_words, "class CallManager: ...\n"),
    (errors_are_defined_in_one_file, "class Oops(ValueError): ...\n"),
    (json_from_outside_is_read_strictly, "value = json.loads(text)\n"),
    (json_from_outside_is_read_strictly, "value = json.JSONDecoder().decode(text)\n"),
    (json_from_outside_is_read_strictly, "value = msgspec.json.decode(text)\n"),
    (late_names_exist, f'late("{PACKAGE}.core.late:early")\n'),
    (late_names_exist, f'late("{PACKAGE}.core.nowhere:late")\n'),
    (late_names_exist, f'late("{PACKAGE}.cli.main:main")\n'),
    (late_names_exist, "late(path)\n"),
]
RULES = list(dict.fromkeys(rule for rule, _ in COUNTEREXAMPLES))


# ---- tests ---------------------------------------------------------------------------------------


@cache
def files(*roots: Path) -> list[File]:
    paths = sorted(path for root in roots for path in root.rglob("*.py"))
    return [File(path=str(path.relative_to(ROOT)), text=path.read_text()) for path in paths]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_code_keeps_the_rule(rule: Rule) -> None:
    everything = files(SOURCE, TESTS, *PROGRAMS)
    wrong = [f"{file.path}: {said}" for file in everything for said in rule(file)]
    assert wrong == [], "\n".join(wrong)


@pytest.mark.parametrize(("rule", "text"), COUNTEREXAMPLES)
def test_the_rule_finds_its_counterexample(rule: Rule, text: str) -> None:
    assert list(rule(File(path=f"{PACKAGE}/core/x.py", text=text)))


def test_a_third_party_import_is_allowed_in_its_package_only() -> None:
    text = "import sqlalchemy\n"
    assert not list(third_party_imports_are_listed(File(path=f"{PACKAGE}/store/x.py", text=text)))
    assert list(third_party_imports_are_listed(File(path=f"{PACKAGE}/agents/x.py", text=text)))
    assert list(third_party_imports_are_listed(File(path=f"{PACKAGE}/__init__.py", text=text)))


def test_every_package_belongs_to_a_layer() -> None:
    packages = {package for row in LAYERS for package in re.split(r"[\s|()]+", row)} - {"__main__"}
    assert {path.parent.name for path in SOURCE.glob("*/__init__.py")} == packages
    assert {key.partition(".")[0] for key in SHAPE["third_party"]} <= {"everywhere", *packages}


def test_files_are_long_enough_on_average() -> None:
    files = [path.read_text().count("\n") for path in (ROOT / PACKAGE).rglob("*.py")]
    assert sum(files) / len(files) >= SHAPE["mean_file_lines"], len(files)


def test_a_folder_has_few_files_and_packages() -> None:
    folders = [path.parent for path in (ROOT / PACKAGE).rglob("__init__.py")]
    crowded = {
        folder.relative_to(ROOT).as_posix(): count
        for folder in folders
        if (count := len([*folder.glob("*.py"), *folder.glob("*/__init__.py")]) - 1)
        > SHAPE["siblings"]
    }
    assert crowded == {}


def test_every_test_file_has_its_source_file() -> None:
    """tests/tools/test_policy.py is about tools/policy.py."""
    homes = [path.parent.relative_to(TESTS) / path.name for path in TESTS.rglob("*/test_*.py")]
    wanted = [home for home in homes if home.parts[0] not in NO_TWIN and len(home.parts) > 1]
    missing = [
        str(home)
        for home in wanted
        if not (SOURCE / home.parent / home.name.removeprefix("test_")).exists()
    ]
    assert missing == [], "\n".join(missing)


def test_every_file_with_code_has_its_test_file() -> None:
    """Files of declarations need none; a fake is tested together with the real part."""
    missing = [file.path for file in files(SOURCE) if needs_a_test(file) and not is_tested(file)]
    assert missing == [], "\n".join(missing)


def needs_a_test(file: File) -> bool:
    """Whether a file has code; migrations are tested by opening an old database."""
    free = file.package in {"", "testing"} or "migrations" in Path(file.path).parts
    return not free and any(map(does_something, file.functions))


def is_tested(file: File) -> bool:
    """Whether the file has its test, or a contract test."""
    homes = (TESTS / Path(*Path(file.path).parts[1:-1]), TESTS / "contracts")
    return any((home / f"test_{file.name}.py").exists() for home in homes)


def does_something(function: Function) -> bool:
    """Whether the body is more than a docstring and `...`."""
    return any(not isinstance(node, ast.Expr) for node in function.body)


def test_exemptions_are_rare() -> None:
    lines = sum(len(file.text.splitlines()) for file in files(SOURCE))
    comments = [said for file in files(SOURCE) for said in comments_in(file.text)]
    exempt = [said for said in comments if re.search(r"type: ignore|noqa", said)]
    assert len(exempt) <= SHAPE["ignores_per_1000_lines"] * (lines / 1000 + 1)


def comments_in(text: str) -> list[str]:
    """Every comment of a file."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def test_pins_are_hashed_and_name_no_host() -> None:
    paths = sorted((ROOT / "requirements").glob("*.txt"))
    assert {"base", "build", "dev"} <= {path.stem for path in paths}
    for path in paths:
        text = path.read_text()
        assert "==" in text
        pins = re.split(r"\n(?=\S)", text.strip())
        assert [pin for pin in pins if "==" not in pin or "--hash=sha256:" not in pin] == []
        assert not re.search(r"https?:|--(extra-)?index|--find-links", text), path.name


def test_every_limit_is_read_somewhere() -> None:
    """A limit that no code reads bounds nothing."""
    homes = ("core/limits.py", "app/settings_sections.py", "app/settings.py")
    read = {
        node.attr
        for file in files(SOURCE)
        if not file.path.endswith(homes)
        for node in file.nodes
        if isinstance(node, ast.Attribute)
    }
    named = {each.name for each in fields(Limits)} | set(RateSection.model_fields)
    assert named - read == set()


def test_the_base_install_stays_small() -> None:
    """One HTTP client, no library of a provider, nothing for tests."""
    text = (ROOT / "requirements" / "base.txt").read_text()
    names = set(re.findall(r"^([a-z0-9-]+)==", text, flags=re.MULTILINE))
    heavy = {"httpx", "openai", "anthropic", "pydantic-ai-slim", "numpy", "requests", "greenlet"}
    assert not names & heavy
    assert len(names) <= 40


def test_the_guide_for_contributors_is_short() -> None:
    assert len((ROOT / "AGENTS.md").read_text().split()) <= 1000


def test_shared_test_code_is_in_the_kit() -> None:
    """Code for the tests of one folder is in that folder; no test imports another test file."""
    wrong = [
        f"{file.path} imports {name}"
        for file in files(TESTS)
        for name in file.imports
        if name.startswith("tests.") and name.count(".") >= 2
        if name.split(".")[1] not in {"kit", Path(file.path).parts[1]} or ".test_" in name
    ]
    assert wrong == [], "\n".join(wrong)
    loose = {path.name for path in TESTS.glob("*.py") if not path.name.startswith("test_")}
    assert loose == {"conftest.py"}

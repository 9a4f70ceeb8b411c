"""Public names are documented in full, and their examples run."""

import ast
import doctest
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any, is_typeddict

import pytest

import penstock
from penstock.chat.requests import NewCall, NewRun, SentMessage
from penstock.core.late import late
from penstock.tools.python.capabilities import KeptState, OutputKeeper, ToolFiles, ToolMemory
from scripts.written import docstrings

ROOT = Path(__file__).parents[1]
FOR_CONTRIBUTORS = {"docs/howto/change.md", "docs/sandbox.md"}
"""Pages beside those of users whose Python shows what is inside."""


def named_by_pages() -> Iterator[tuple[str, Any]]:
    """Yield every class and function that the Python of a page for users imports."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/howto").glob("*.md")]
    for page in pages:
        text = "" if str(page.relative_to(ROOT)) in FOR_CONTRIBUTORS else page.read_text()
        for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith("penstock."):
                    named = {each.name: late(f"{node.module}:{each.name}") for each in node.names}
                    yield from ((name, each) for name, each in named.items() if has_docstring(each))


def has_docstring(thing: Any) -> bool:
    """Whether it is something that can have one of its own: an alias of a type cannot."""
    return isinstance(thing, type) or inspect.isroutine(thing)


PUBLIC: dict[str, Any] = {
    **{name: each for name in penstock.HOMES if has_docstring(each := getattr(penstock, name))},
    **{each.__name__: each for each in (NewCall, NewRun, SentMessage)},
    **dict(named_by_pages()),
}
INNER = (ToolMemory, KeptState, OutputKeeper, ToolFiles)
"""What a tool reaches as `ctx.state`, `ctx.state.session`, `ctx.artifacts` and `ctx.workspace`."""
SECTIONS = ("Args", "Returns", "Yields", "Raises", "Example", "Source")
Function = Callable[..., Any]


def written(thing: Any) -> str:
    """Return the documentation of a public name.

    The docstring of an error is its default message, so an error is documented in `__init__`.
    """
    is_error = isinstance(thing, type) and issubclass(thing, BaseException)
    return inspect.getdoc(thing.__init__ if is_error else thing) or ""


def sections(text: str) -> dict[str, str]:
    """Return what a docstring in Google style says below each of its headings."""
    parts = re.split(rf"^({'|'.join(SECTIONS)}):$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], map(dedent, parts[2::2]), strict=True))


def members(cls: type[Any]) -> Iterator[tuple[str, Function]]:
    """Yield the public methods of a class and of what it inherits from our classes."""
    for base in cls.__mro__:
        for name, member in vars(base).items():
            function = getattr(member, "__func__", member)
            is_ours = base.__module__.startswith("penstock.")
            if is_ours and name[0] != "_" and inspect.isfunction(function):
                yield f"{cls.__name__}.{name}", function


CLASSES: dict[str, type[Any]] = {
    name: each for name, each in PUBLIC.items() if isinstance(each, type)
}
FUNCTIONS: dict[str, Function] = {
    **{name: each for name, each in PUBLIC.items() if name not in CLASSES},
    **dict(pair for each in (*CLASSES.values(), *INNER) for pair in members(each)),
}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_a_summary_and_an_example(name: str) -> None:
    text = written(PUBLIC[name])
    summary, _, rest = text.partition("\n")
    assert re.fullmatch(r"[A-Z`].+\.", summary)
    assert not rest or rest.startswith("\n")
    assert ">>> " in sections(text).get("Example", "")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_documents_arguments_result_and_errors(name: str) -> None:
    function = FUNCTIONS[name]
    parts = sections(inspect.getdoc(function) or "")
    taken = [each for each in inspect.signature(function).parameters if each not in {"self", "cls"}]
    entries = re.findall(r"^\*{0,2}(\w+):", parts.get("Args", ""), re.MULTILINE)
    assert entries == taken
    summary = (inspect.getdoc(function) or "").partition("\n")[0]
    says_so = re.match(r"Return |Yield |Whether ", summary) or {"Returns", "Yields"} & parts.keys()
    assert says_so or inspect.signature(function).return_annotation in {None, "None"}
    assert raised(function) <= set(re.findall(r"^(\w+):", parts.get("Raises", ""), re.MULTILINE))


def raised(function: Function) -> set[str]:
    """Return the errors that a function raises itself."""
    body = ast.parse(dedent(inspect.getsource(function)))
    nodes = [each.exc for each in ast.walk(body) if isinstance(each, ast.Raise)]
    calls = [each.func if isinstance(each, ast.Call) else each for each in nodes]
    return {each.id for each in calls if isinstance(each, ast.Name) and each.id[0].isupper()}


@pytest.mark.parametrize("name", CLASSES)
def test_every_field_of_a_public_class_is_described(name: str) -> None:
    cls = CLASSES[name]
    described = {
        *docstrings(cls),
        *re.findall(r"^(\w+):", sections(written(cls)).get("Args", ""), re.MULTILINE),
    }
    fields = [each for each in cls.__annotations__ if each[0] != "_"]
    named = () if is_typeddict(cls) else vars(cls)  # a TypedDict refuses isinstance
    values = [each for each in named if isinstance(getattr(cls, each), cls)]
    assert [each for each in [*fields, *values] if each not in described and each[0] != "_"] == []


EXAMPLES: dict[str, str] = {
    name: example
    for name, each in (PUBLIC | FUNCTIONS).items()
    if (example := sections(written(each)).get("Example"))
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_public_name_runs(name: str) -> None:
    """It sees only the names that it imports, and writes nothing outside its own folder."""
    text = EXAMPLES[name]
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    told: list[str] = []
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    runner.run(test, out=told.append)
    assert "".join(told) == ""
    assert test.examples


DEEP_IMPORT = re.compile(r">>> (?:from|import) penstock\.(?!(?:testing|evals) import)")


def test_no_example_of_a_public_name_imports_from_deeper() -> None:
    """library.md 1: `from penstock import …` and nothing deeper is needed by any example."""
    classes = [each for each in PUBLIC.values() if isinstance(each, type)]
    methods = [method for each in classes for method in vars(each).values()]
    named = [each for name, each in PUBLIC.items() if name in penstock.HOMES]
    deep = [each for each in [*named, *methods] if DEEP_IMPORT.search(inspect.getdoc(each) or "")]
    assert deep == []

"""Docstrings of every style: parameters go into the schema, the rest into the description."""

import inspect
from collections.abc import Callable
from textwrap import dedent
from typing import Any

import pytest

from penstock.tools.python.docstring import parse_docstring
from penstock.tools.python.hints import read_signature

BOTH = {"x": "One.", "y": "Two more."}


def google(x: int, y: int = 2) -> int:
    """Add.

    More about it.

    Args:
        x: One.
        y (int, optional): Two
            more.

    Returns:
        The sum.
    """
    return x + y


def numpy(x: int, y: int = 2) -> int:
    """Add.

    More about it.

    Parameters
    ----------
    x : int
        One.
    y : int, optional
        Two

        more.

    Returns
    -------
    int
        The sum.
    """
    return x + y


def sphinx(x: int, y: int = 2) -> int:
    """Add.

    More about it.

    :param x: One.
    :type x: int
    :param int y: Two
        more.
    :returns: The sum.
    :rtype: int
    """
    return x + y


REST = {
    google: "Add.\n\nMore about it.\n\nReturns:\n    The sum.",
    numpy: "Add.\n\nMore about it.\n\nReturns:\n    int\n        The sum.",
    sphinx: "Add.\n\nMore about it.\n\nReturns: The sum.",
}


@pytest.mark.parametrize("function", REST)
def test_each_style_gives_the_same_parameters_and_keeps_the_rest(
    function: Callable[..., Any],
) -> None:
    signature = read_signature(function)
    shown = signature.input_schema["properties"]
    assert {name: each["description"] for name, each in shown.items()} == BOTH
    assert signature.description == REST[function]


@pytest.mark.parametrize(
    ("text", "description", "told"),
    [
        ("", "", {}),
        ("One line.", "One line.", {}),
        ("A.\n\nArgs:\n    x: One.\n    y (int): Two\n        more.\n", "A.", BOTH),
        ("A.\n\nArgs:\n  x:\n    On the next line.", "A.", {"x": "On the next line."}),
        ("A.\n\nArgs:\n  x: One.\n\nNote:\n  z: no", "A.\n\nNote:\n  z: no", {"x": "One."}),
        ("A.\nArguments:\n  x (dict[str, tuple(int)]): One.", "A.", {"x": "One."}),
        ("A.\nArgs:\n  *args: Many.\n  **more: Names.", "A.", {"args": "Many.", "more": "Names."}),
        ("Args: are not a section here.", "Args: are not a section here.", {}),
        ("A.\n\nArgs:", "A.\n\nArgs:", {}),
        ("A.\n\nArgs:\n\nB.", "A.\n\nArgs:\n\nB.", {}),
        ("Parameters\n----------\na, b : int\n    Two.", "", {"a": "Two.", "b": "Two."}),
        ("Parameters\n----------\nx\n    One.\ny", "", {"x": "One.", "y": ""}),
        ("Parameters\n----------", "", {}),
        (
            "A.\n\nParameters\n----------\nx : int\n    One.\n\nOther Parameters\n---\ny\n    Two.",
            "A.",
            {"x": "One.", "y": "Two."},
        ),
        ("A.\n\nNotes\n-----\nMind\n  it.", "A.\n\nNotes:\n    Mind\n      it.", {}),
        (
            ":param x: One.\n:raises KeyError: If it is gone.",
            "Raises KeyError: If it is gone.",
            {"x": "One."},
        ),
        (":param str | None x: One.", "", {"x": "One."}),
        (":return: It.\n:meta private:", "Returns: It.\nMeta private:", {}),
        (":returns:", "Returns:", {}),
        ("Use :param: as you like.", "Use :param: as you like.", {}),
        (":param x:", "", {"x": ""}),
        ("A | B\n--|--\n1 | 2", "A | B\n--|--\n1 | 2", {}),
        ("----\n----", "----:", {}),
        (
            "Do it.\n\nArgs:\n    see the manual\n    x: One.",
            "Do it.\n\nsee the manual",
            {"x": "One."},
        ),
        (
            "Do it.\nArgs:\n    As:\n        code\n\n    x: One.\nThen.",
            "Do it.\nThen.",
            {"As": "code", "x": "One."},
        ),
        (
            "Do it.\nArgs:\n    It is so.\n        code\n\n    x: One.\nThen.",
            "Do it.\n\nIt is so.\n    code\n\nThen.",
            {"x": "One."},
        ),
        (
            "Do it.\n\nParameters:\n    The size of it: large.\n\nThen.",
            "Do it.\n\nParameters:\n    The size of it: large.\n\nThen.",
            {},
        ),
        (
            "Parameters\n----------\nSee the manual.\n\nx : int\n    One.",
            "See the manual.",
            {"x": "One."},
        ),
        (
            "Parameters\n----------\nThe size of it.",
            "Parameters:\n    The size of it.",
            {},
        ),
        (
            "Parameters\n----------\nx : int\n    One.\n\nThe rest is prose.\n:param y: Two.",
            "The rest is prose.",
            {"x": "One.", "y": "Two."},
        ),
        (
            "Raises\n------\n\nOSError\n  One.\n\nKeyError\n  Two.\n\nThe rest\nis prose.",
            "Raises:\n\n    OSError\n      One.\n\n    KeyError\n      Two.\n\nThe rest\nis prose.",
            {},
        ),
    ],
)
def test_a_docstring_is_split_into_description_and_parameters(
    text: str, description: str, told: dict[str, str]
) -> None:
    assert parse_docstring(text) == (description, told)


@pytest.mark.parametrize(
    "text", ["\n" * 50, "Args:\n" * 50, "---\n" * 50, ":param\n" * 50, ":a:" * 99]
)
def test_odd_texts_are_read_to_their_end(text: str) -> None:
    assert isinstance(parse_docstring(dedent(text)), tuple)


def test_a_long_docstring_is_read_in_time() -> None:
    """A blank line looks ahead: thousands of them must not take thousands of times as long."""
    text = "A.\n\nArgs:\n" + "    x: One.\n\n" * 5_000
    assert parse_docstring(inspect.cleandoc(text))[1] == {"x": "One."}

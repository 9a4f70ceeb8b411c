"""The names of types in messages."""

from typing import Any

import pytest

from penstock.tools.python.signature import type_name


@pytest.mark.parametrize(
    ("hint", "name"),
    [
        (int, "int"),
        (None, "None"),
        (type(None), "None"),
        (list[int], "list"),
        (int | str, "int | str"),
    ],
)
def test_a_type_is_named_as_its_author_writes_it(hint: Any, name: str) -> None:
    assert type_name(hint) == name

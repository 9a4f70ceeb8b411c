"""The plain form of a text, the mapping back, and the searched forms of a secret."""

import base64
import html
import json
from collections.abc import Callable
from itertools import pairwise
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.resources.plain_form import MAX_PARTS, PlainForm, is_plain, parts, spellings
from tests.kit.json_values import FEW

PLAIN = [
    ("as it is", "as it is"),
    ("%63%41", "cA"),
    ("%2563", "c"),
    ("%C3%A4 %E4 %u00e4", "ä ä ä"),
    ("%uD834%uDD1E", "𝄞"),
    ("100%41b% %4", "100Ab% %4"),
    ("a&amp;&#98;&#x63;&lt;", "a&bc<"),
    ('{\\"a\\": \\"b\\"}', '{"a": "b"}'),
    ('\\\\\\"deep\\\\\\"', '"deep"'),
    ("one\\ntwo\\r\\nthree\nfour\r\n  five", "onetwothreefourfive"),
    ("\\u003c\\x41\\u00e4", "<Au00e4"),
    ("C:\\\\new", "C:ew"),
    ("", ""),
    ("\n", ""),
]


@pytest.mark.parametrize(("text", "plain"), PLAIN)
def test_the_plain_form_has_no_escapes_or_line_breaks(text: str, plain: str) -> None:
    assert PlainForm(text).text == plain
    assert is_plain(text) == (text == plain)


@given(st.text("ab%41C3A&;#x\\nu00\n\r \u2028ä", max_size=40) | st.text(max_size=40))
@FEW
def test_every_character_of_the_plain_form_has_a_place_in_the_text(text: str) -> None:
    """Positions ascend and do not overlap; each has the character or its escape."""
    form = PlainForm(text)
    place = form.origins()
    places = [place(at, at + 1) for at in range(len(form.text))]
    assert all(start < end <= len(text) for start, end in places)
    assert all(one[1] <= two[0] for one, two in pairwise(places))
    for character, (start, end) in zip(form.text, places, strict=True):
        assert end - start > 1 or text[start] == character


@pytest.mark.parametrize(
    "encode",
    [
        lambda each: json.dumps(json.dumps(json.dumps({"a": each}))),
        lambda each: quote(json.dumps([each]), safe=""),
        lambda each: html.escape(json.dumps([each])),
        lambda each: "".join(f"&#{ord(letter)};" for letter in each),
        lambda each: "".join(f"%{byte:02x}" for byte in each.encode()),
        lambda each: base64.b64encode(each.encode()).decode(),
        lambda each: each.encode().hex().upper(),
    ],
    ids=range(7),
)
def test_a_spelling_of_a_secret_is_found_in_the_plain_form(
    encode: Callable[[str], str],
) -> None:
    odd = 'pä"ss\\w&rd\nnext'
    plain = PlainForm(encode(odd)).text
    assert any(each in plain for each in spellings(odd) if len(each) > 8)


LINES = [f"{n:02}" * 32 for n in range(20)]
PEM = "\n".join(["-----BEGIN KEY-----", *LINES, "-----END KEY-----", ""])
ACCOUNT = json.dumps({"type": "service_account", "key": PEM, "url": "https://a.example/token/of"})


def test_the_lines_of_a_key_are_looked_for_by_themselves() -> None:
    assert list(parts(PEM)) == LINES
    assert list(parts(ACCOUNT)) == LINES


@pytest.mark.parametrize("value", ["one line is the whole secret", "short\nlines\nalone", "[[1]]"])
def test_a_secret_without_parts(value: str) -> None:
    assert list(parts(value)) == []


def test_the_number_of_parts_is_limited() -> None:
    assert len(list(parts("\n".join(f"{n:020}" for n in range(1000))))) == MAX_PARTS
    assert len(list(parts("[" * 100_000))) == 0

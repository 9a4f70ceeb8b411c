"""A text for a pattern: it matches, or there is none."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.models.pattern_text import MAX_CHARS, matches, text_for


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^[A-Z]{3}-[0-9]{4}$", "EXA-1234"),
        ("^(pass|fail)$", "pass"),
        ("^(|later)$", "later"),
        ("^[a-f0-9]{8}$", "12345678"),
        (r"^\+[0-9 ]{7,}$", "+1234567"),
        ("^.{1,5}$", "examp"),
        ("^[a-z]+(, [a-z]+)*$", "example"),
        (r"^docs/.*\.md$", "docs/example.md"),
        (r"^(\w)\1$", "ee"),
        (r"^(?<year>\d{4})-(?:\d{2})$", "1234-12"),
        (r"^(?i:yes)\b$", "yes"),
        ("^(?!no).*$", "example"),
        ("^a{2,3}?b*?c+$", "aac"),
        (r"^[\]\[]{2}$", "[["),
        ("^[^]a]+$", "EXAMPLE"),
        (r"^\x41\u0042\t$", "AB\t"),
        (r"^\$\{[a-z]+\}$", "${example}"),
        ("^[α-ω]$", "α"),  # noqa: RUF001
        (r"^\p{Lu}\d$", "E1"),
        ("^x{0}$", ""),
        ("", ""),
    ],
)
def test_a_text_matches_and_looks_plausible(pattern: str, text: str) -> None:
    assert text_for(pattern) == text
    assert matches(pattern, text)


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[",
        ")",
        r"a\1",
        "a(?=b)c",
        "^(?=.*[A-Z])(?=.*[0-9])..$",
        f"^a{{{MAX_CHARS + 1}}}$",
        "^(.{1000}){1000}$",
        "(" * 5000 + ")" * 5000,
        "(a{9999}){9999}" * 99,
        "^[[:nothing:]]$",
        "\\",
    ],
)
def test_of_other_patterns_there_is_none(pattern: str) -> None:
    assert text_for(pattern) is None


PARTS = st.recursive(
    st.sampled_from(["a", "[a-z]", r"\d", ".", r"\.", "[^,]", r"[\w-]", "é", r"\s", "-"]),
    lambda parts: st.one_of(
        st.tuples(parts, st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
        st.lists(parts, min_size=1, max_size=3).map("".join),
        st.lists(parts, min_size=2, max_size=3).map(lambda each: f"({'|'.join(each)})"),
    ),
    max_leaves=6,
)


@given(PARTS)
def test_every_pattern_of_plain_parts_has_a_text(part: str) -> None:
    text = text_for(f"^{part}$")
    assert text is not None
    assert re.fullmatch(part, text, re.DOTALL) is not None


@given(st.text("()[]{}|^$\\*+?.,0-9adwsSpPxuk<>=!:é", max_size=30))
def test_no_pattern_is_an_error(pattern: str) -> None:
    text = text_for(pattern)
    assert text is None or matches(pattern, text)

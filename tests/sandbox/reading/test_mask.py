"""A source without what is no code, at the same places."""

import pytest

from penstock.sandbox.reading.mask import blank, closing, masked


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("a // b\nc", "a     \nc"),
        ("a /* {\n */ b", "a     \n    b"),
        ("f('{') + \"}\"", "f(' ') + \" \""),
        (r"'a\'b' + c", "'    ' + c"),
        ("'a\nb", "' \nb"),
        ("`a${b}c` + d", "`   b  ` + d"),
        ("`a${ {b: `}${c}`} }` + {d}", "`    {b: `   c `}  ` + {d}"),
        (r"`\`$` + a", "`   ` + a"),
        ("`a${", "`   "),
        ("`a\n b", "` \n  "),
        ("/*", "  "),
        ("", ""),
    ],
)
def test_code_stays_and_nothing_moves(text: str, mask: str) -> None:
    assert masked(text) == mask


@pytest.mark.parametrize(
    ("mask", "end"),
    [("{a{b}}c", 6), ("<(a: b) => c>d", 13), ("<a<b>>c", 6), ("(()", None), ("{", None)],
)
def test_a_bracket_is_closed_by_its_own(mask: str, end: int | None) -> None:
    assert closing(mask, 0) == end


def test_line_ends_are_no_blanks() -> None:
    assert blank("a\r\nb\tc") == " \r\n   "

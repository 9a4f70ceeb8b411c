"""`bash.deny`: whole commands and their parts, by pattern or by what is in them."""

import pytest

from penstock.builtins.shell.deny import check_denied, fits
from penstock.builtins.shell.parts import parts
from penstock.core.call_errors import NotPermitted
from tests.kit.folders import G


@pytest.mark.parametrize(
    ("command", "pattern", "matched"),
    [
        ("rm -rf build", "rm -rf *", "rm -rf build"),
        ("ls && rm -rf x", "rm -rf *", "rm -rf x"),
        ("A=1 rm   -rf x", "rm -rf *", "rm -rf x"),
        ("git push origin", "git push*", "git push origin"),
        ("git push", "git push*", "git push"),
        ("echo curly", "curl", "echo curly"),
        ("ls; echo $(curl x)", "curl", "curl x"),
    ],
)
def test_what_is_denied_is_said(command: str, pattern: str, matched: str) -> None:
    """G9, G10, G11."""
    with pytest.raises(NotPermitted) as error:
        check_denied(G.deny, command, parts(command))
    said = f'command refused by bash.deny pattern "{pattern}" (matched "{matched}").'
    assert str(error.value) == said


@pytest.mark.parametrize("command", ["echo rm -rf x", "git pull", "rm -r x", "ls 'a; rm -rf'"])
def test_what_no_pattern_fits_is_let_through(command: str) -> None:
    """G10."""
    check_denied(G.deny, command, parts(command))


def test_a_pattern_may_be_about_the_whole_line() -> None:
    with pytest.raises(NotPermitted, match=r'matched "a \| sh"'):
        check_denied(("* | sh",), "a  |  sh", parts("a | sh"))
    check_denied(("",), "a", parts("a"))


@pytest.mark.parametrize(
    ("pattern", "text", "is_it"),
    [
        ("a*", "a", True),
        ("*a*", "bab", True),
        ("a*a", "a", False),
        ("a*b*c", "a/b\nc", True),
        ("a*b*c", "acb", False),
        ("a?", "ab", False),
        ("*" * 50 + "b", "a" * 5000, False),
    ],
)
def test_a_star_is_any_text(pattern: str, text: str, *, is_it: bool) -> None:
    assert fits(pattern, text) is is_it

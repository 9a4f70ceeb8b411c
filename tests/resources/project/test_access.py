"""What an agent may read and write: its patterns, and what is protected from it."""

import pytest

from penstock.resources.project.access import OPEN, Access

G = Access(agent="g", read=("src/**", "docs/*.md"), write=("src/gen/**",))
NOT_READABLE = 'is not readable for agent "g". access.read: src/**, docs/*.md.'
NOT_WRITABLE = 'is not writable for agent "g". access.write: src/gen/**.'


@pytest.mark.parametrize(
    ("access", "path", "why"),
    [
        (G, "src/a/b.py", ""),
        (G, "docs/sub/x.md", NOT_READABLE),
        (G, "", NOT_READABLE),
        (OPEN, "README.md", ""),
        (OPEN, ".git/config", ""),
        (OPEN, "agents/x.md", ""),
        (OPEN, ".env", "is protected."),
        (OPEN, ".env.local", "is protected."),
        (OPEN, ".environment", ""),
        (OPEN, ".penstock/db", "is protected."),
        (OPEN, "sub/.penstock.bak/secret.key", "is protected."),
        (OPEN, ".PENSTOCK~", "is protected."),
        (OPEN, ".penstockrc", ""),
        (Access(read=("**",)), ".env", "is protected."),
        (Access(private=("var/db",)), "var/db/key", "is protected."),
        (Access(private=("var/db",)), "var/dbx", ""),
        (Access(agent="n", read=()), "x", 'is not readable for agent "n". access.read: none.'),
    ],
)
def test_what_may_be_read(access: Access, path: str, why: str) -> None:
    assert access.why_unreadable(path) == why


@pytest.mark.parametrize(
    ("access", "path", "why"),
    [
        (G, "src/gen/a.py", ""),
        (G, "src/a.py", NOT_WRITABLE),
        (G, "agents/x.md", "is protected."),
        (OPEN, "src/a.py", ""),
        (OPEN, ".git/config", "is protected."),
        (OPEN, ".penstock/db", "is protected."),
        (OPEN, ".env", "is protected."),
        (OPEN, "penstock.toml", "is protected."),
        (OPEN, "agents/x.md", "is protected."),
        (OPEN, "flows/a/b.yaml", "is protected."),
        (OPEN, "handbooks/h/SKILL.md", "is protected."),
        (OPEN, ".pi/flows/agents/x.md", "is protected."),
        (OPEN, ".pi/other", ""),
        (OPEN, "deep/x.tool.yaml", "is protected."),
        (OPEN, "x.skill.yaml", "is protected."),
        (Access(write=("agents/**",)), "agents/x.md", ""),
        (Access(write=("**",)), "agents/x.md", ""),
        (Access(write=("**",)), ".git/config", "is protected."),
        (Access(write=("**",)), ".env", "is protected."),
        (Access(write=("**",), private=("var",)), "var/x", "is protected."),
    ],
)
def test_what_may_be_written(access: Access, path: str, why: str) -> None:
    """Shows "Protected: … `agents/**` … only if a pattern of the agent's own fits"."""
    assert access.why_unwritable(path) == why


def test_where_a_search_may_find_something() -> None:
    assert [G.may_read_below(each) for each in ("", "src", "docs", "tests")] == [1, 1, 1, 0]
    assert not OPEN.may_read_below(".penstock")


def test_the_places_below_which_it_writes() -> None:
    assert OPEN.writable_places == ("",)
    assert Access(write=("src/gen/**", "docs/*.md", "/etc/**")).writable_places == (
        "src/gen",
        "docs",
    )


def test_what_it_names_itself_is_its_own() -> None:
    access = Access(write=("agents/**",))
    assert [access.writes_of_its_own(each) for each in ("agents", "flows")] == [True, False]

"""Subjects of commits have the form that AGENTS.md gives."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LATEST = 20
"""How many commits are read. Earlier ones cannot be changed any more."""
MAX_CHARACTERS = 72
NO_VERB = re.compile(r"(?!need|embed|feed|seed|bring)\w+(?:ed|ing|[^s]s)")
"""Words such as `added`, `adding` and `adds`: a summary begins with a verb in the imperative."""


def areas() -> set[str]:
    """Return the packages, and the other areas that AGENTS.md lists."""
    (listed,) = re.findall(r"^- The areas: (.*)$", (ROOT / "AGENTS.md").read_text(), re.MULTILINE)
    packages = {each.parent.name for each in (ROOT / "penstock").glob("*/__init__.py")}
    return packages | set(re.findall(r"`(\w+)`", listed))


def mistake(subject: str) -> str:
    """Return what breaks the form of a commit's subject, or nothing."""
    if subject.startswith('Revert "'):  # as git writes it
        return ""
    subject = re.sub(r" \(#\d+\)$", "", subject)  # added by a squash merge
    area, colon, summary = subject.partition(": ")
    if not colon:
        return "it must be `area: imperative summary`"
    if unknown := sorted({*area.split(", ")} - areas()):
        return f"{', '.join(unknown)}: no such area; AGENTS.md lists them"
    verb = summary.partition(" ")[0]
    wrong = {
        f"it must have at most {MAX_CHARACTERS} characters, found {len(subject)}": (
            len(subject) > MAX_CHARACTERS
        ),
        "the summary must begin with a small letter and end without a full stop": (
            not re.fullmatch(r"[a-z].*[^.]", summary)
        ),
        f"the summary must begin with an imperative (`add`), found `{verb}`": (
            bool(NO_VERB.fullmatch(verb))
        ),
    }
    return "; ".join(text for text, is_so in wrong.items() if is_so)


@pytest.mark.parametrize(
    "subject",
    [
        "store: keep entries in one table",
        "server, cli: refuse slow heads",
        "penstock: release 0.2.0",
        "ci: pass the seed",
        "docs: process pages once (#12)",
        'tests: bring back "what was cut"',
        f"core: {'x' * 66}",
        f"core: {'x' * 66} (#1234)",
        'Revert "The clock is told"',
    ],
)
def test_a_subject_in_the_form_is_accepted(subject: str) -> None:
    assert mistake(subject) == ""


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("", "must be `area: "),
        ("keep entries in one table", "must be `area: "),
        ("store:keep entries", "must be `area: "),
        ("wip", "must be `area: "),
        (": keep entries", "no such area"),
        ("shop: keep entries", "shop: no such area"),
        ("store,cli: keep entries", "store,cli: no such area"),
        ("store, shop: keep entries", "shop: no such area"),
        ("Store: keep entries", "Store: no such area"),
        ("store: Keep entries", "a small letter"),
        ("store: keep entries.", "without a full stop"),
        ("store: ", "a small letter"),
        ("store: added a table", "found `added`"),
        ("store: adding a table", "found `adding`"),
        ("store: adds a table", "found `adds`"),
        (f"core: {'x' * 67}", "at most 72 characters, found 73"),
    ],
)
def test_a_subject_in_another_form_is_refused(subject: str, message: str) -> None:
    assert message in mistake(subject)


@pytest.mark.programs
def test_the_latest_commits_have_the_form() -> None:
    """As many as the checkout has: one in a shallow clone, none in a source archive."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():  # git would look in the folders above
        return
    command = [git, "log", "--no-merges", f"-{LATEST}", "--format=%s"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    subjects = found.stdout.splitlines()
    wrong = [f"{subject}: {said}" for subject in subjects if (said := mistake(subject))]
    assert wrong == [], "\n".join(wrong)

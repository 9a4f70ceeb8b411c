"""The tool that reads topic files of handbooks."""

from pathlib import Path

import pytest

from penstock.builtins.skill_read import TOOLS, with_handbooks
from penstock.core.call import Effect
from penstock.core.envelope import Status
from penstock.manifest.handbook import FILE_BYTES, Handbooks, find_handbooks
from penstock.testing.invocation import Workbench, open_workbench

INDEX = (
    "---\nname: docs\ndescription: How it is done.\nfiles: [api.md, gone.md, big.md, bin.md]\n---"
)
TOPIC = "# API\n\n  as it is\r\n"


@pytest.fixture
def books(tmp_path: Path) -> Handbooks:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "SKILL.md").write_text(INDEX)
    (folder / "api.md").write_bytes(TOPIC.encode())
    (folder / "secret.md").write_text("not listed")
    (folder / "big.md").write_bytes(b"x" * (FILE_BYTES + 1))
    (folder / "bin.md").write_bytes(b"\xff\x00")
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "SKILL.md").write_text("No list.")
    return find_handbooks([tmp_path])


async def bench_over(books: Handbooks) -> Workbench:
    return await open_workbench(*with_handbooks(TOOLS, books))


async def test_a_topic_file_comes_as_it_is(books: Handbooks) -> None:
    """T13: "Read a topic file from a registered skill bundle"; "Raw file content as text"."""
    bench = await bench_over(books)
    envelope = await bench.call("skill_read", {"skill": "docs", "file": "api.md"})
    assert (envelope.output, TOOLS[0].spec.effect) == (TOPIC, Effect.READ)


UNLISTED = 'File "{}" is not listed in skill "docs". Listed: api.md, gone.md, big.md, bin.md.'


@pytest.mark.parametrize(
    ("skill", "file", "said"),
    [
        ("dox", "api.md", 'Skill "dox" not found. Available: bare, docs.'),
        ("docs", "secret.md", UNLISTED.format("secret.md")),
        ("docs", "../bare/SKILL.md", UNLISTED.format("../bare/SKILL.md")),
        ("docs", "gone.md", 'File "gone.md" of skill "docs" is listed but does not exist.'),
        ("docs", "big.md", 'File "big.md" of skill "docs" is not text of at most 262144 bytes.'),
        ("docs", "bin.md", 'File "bin.md" of skill "docs" is not text of at most 262144 bytes.'),
        ("bare", "x.md", 'File "x.md" is not listed in skill "bare". Listed: none.'),
    ],
)
async def test_what_cannot_be_read_is_an_error_string(
    books: Handbooks, skill: str, file: str, said: str
) -> None:
    """T14: "or an error string if the skill or file is not found"; T16: unlisted is refused."""
    bench = await bench_over(books)
    envelope = await bench.call("skill_read", {"skill": skill, "file": file})
    assert envelope.status is Status.FAILED
    assert envelope.error is not None
    assert (envelope.error.code, envelope.error.message) == ("TOOL_FAILED", said)


@pytest.mark.parametrize("input", [{}, {"skill": "docs"}, {"skill": "d", "file": "f", "x": 1}])
async def test_both_names_and_nothing_else_are_taken(
    books: Handbooks, input: dict[str, str]
) -> None:
    bench = await bench_over(books)
    envelope = await bench.call("skill_read", input)
    assert envelope.status is Status.VALIDATION_ERROR


def test_the_description_lists_the_handbooks(books: Handbooks, tmp_path: Path) -> None:
    """H6: "The tool's description lists the handbooks with description and files"."""
    (tool,) = with_handbooks(TOOLS, books)
    assert "- docs: How it is done. (api.md, gone.md, big.md, bin.md)" in tool.spec.description
    for number in range(60):
        (tmp_path / f"h{number}").mkdir()
        (tmp_path / f"h{number}" / "SKILL.md").write_text(f"---\ndescription: {'d' * 400}\n---")
    (longer,) = with_handbooks(TOOLS, find_handbooks([tmp_path]))
    assert len(longer.spec.description) < 4_000 + 400


def test_without_handbooks_it_says_so() -> None:
    assert TOOLS[0].spec.description.endswith("There are no skills.")

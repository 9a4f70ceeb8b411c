"""Skills for models: listed, activated, and their files read and taken into the workspace."""

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.builtins.skill_manifests import SKILLS
from penstock.builtins.skills import HANDBOOK_TOOLS, TOOLS, with_handbooks
from penstock.core.call import Effect, Origin
from penstock.core.envelope import Status
from penstock.core.events.events import SkillsSelected
from penstock.core.ids import LogId
from penstock.core.limits import Limits
from penstock.core.profile import Profile
from penstock.manifest.handbook import FILE_BYTES, HandbookCatalog, find_handbooks
from penstock.manifest.skill import SkillManifest
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.clock import FakeClock
from penstock.testing.invocation import Workbench, open_workbench
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.resources import ProjectFolder
from penstock.tools.skills import SkillChoice, Skills, TaskSkills
from penstock.tools.tool import Tool
from tests.kit.dying_log import DyingLog, live, see_through
from tests.kit.logs import code, settled
from tests.kit.tools import Act
from tests.kit.workbench import Desk, open_desk

MAX_CONTENT = "x" * 65_536


def skill(skill_id: str, **more: Any) -> SkillManifest:
    known: dict[str, Any] = {
        "name": skill_id.title(),
        "description": "For tests.",
        "instruction": "Do.",
        "line": 1,
    }
    file = f"{skill_id}/{skill_id}.skill.yaml"
    return SkillManifest(skill_id=skill_id, file=file, folder=skill_id, **(known | more))


@pytest.fixture
def skills(tmp_path: Path) -> Skills:
    files: dict[str, bytes] = {
        "docs/a.txt": b"Read me.",
        "docs/icon.png": b"\x89PNG",
        "docs/long.txt": MAX_CONTENT.encode(),
        "docs/longer.txt": MAX_CONTENT.encode() + b"x",
    }
    for name, content in files.items():
        place = tmp_path / name
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(content)
    own = [
        skill("docs", tools=("look",)),
        skill("plus", requires_skills=("docs",)),
        skill("guarded", requires_permissions=("p",)),
    ]
    return Skills({each.skill_id: each for each in own} | {"zip": SKILLS["zip"]}, tmp_path)


async def at_work(skills: Skills, *named: str, **more: Any) -> Desk:
    """Return a desk whose model has these skills selected for its task."""
    desk = await open_desk(*TOOLS, **more)
    state = desk.bench.ledger.held.state
    task = TaskSkills(skills, state, SkillChoice, profile=Profile(), named=named)
    desk.bench.model = replace(desk.bench.model, skills=task, selection=task.selection)
    return desk


async def test_the_visible_skills_are_listed_with_their_tools_and_files(skills: Skills) -> None:
    listed = await (await at_work(skills)).made("list_available_skills")
    assert [each["skill_id"] for each in listed["skills"]] == ["docs", "plus", "zip"]
    assert listed["skill_count"] == 3
    assert listed["skills"][0] == {
        "skill_id": "docs",
        "name": "Docs",
        "description": "For tests.",
        "resource_count": 4,
        "tools": ["look"],
    }


async def test_a_caller_without_skills_has_none() -> None:
    desk = await open_desk(*TOOLS)
    assert await desk.made("list_available_skills") == {"skill_count": 0, "skills": []}
    assert await desk.refusal("activate_skill", skill_id="zip") == "no_such_skill"


async def test_an_activated_skill_is_selected_with_its_requirements(
    skills: Skills,
) -> None:
    desk = await at_work(skills)
    made = await desk.made("activate_skill", skill_id="plus")
    text = made.pop("instructions")
    assert made == {"skill_id": "plus", "selected_skill_ids": ["plus", "docs"]}
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        *("## Skill: Plus (plus)", "## Skill: Docs (docs)")
    ]
    assert "- resource.1: a.txt (text/plain, 8 bytes)" in text
    assert desk.bench.ledger.held.state.selected == ("plus",)


@pytest.mark.parametrize(
    ("clip_at", "origin", "has_text"),
    [
        (None, Origin.MODEL, True),
        (9_000, Origin.MODEL, True),
        (500, Origin.MODEL, False),
        (None, Origin.SCRIPT, False),
    ],
)
async def test_a_model_reads_the_instructions_in_the_outcome_if_they_fit(
    skills: Skills, clip_at: int | None, origin: Origin, *, has_text: bool
) -> None:
    """A clipped outcome would have a part of them; a script has no use for them."""
    skills.renew({"s": skill("s", instruction="Mind the gap. " * 50)})
    desk = await at_work(skills)
    caller = replace(desk.bench.model, clip_at=clip_at, origin=origin)
    envelope = await desk.bench.call("activate_skill", {"skill_id": "s"}, caller=caller)
    assert ("instructions" in envelope.output) is has_text


@pytest.mark.parametrize(("named", "again"), [((), "plus"), ((), "docs"), (("docs",), "docs")])
async def test_selecting_a_skill_again_changes_nothing(
    skills: Skills, named: tuple[str, ...], again: str
) -> None:
    """Already selected: success, nothing changes."""
    desk = await at_work(skills, *named)
    if not named:
        await desk.made("activate_skill", skill_id="plus")
    assert again in (await desk.made("activate_skill", skill_id=again))["selected_skill_ids"]
    events = await desk.bench.events()
    assert sum(isinstance(each, SkillsSelected) for each in events) == (0 if named else 1)


@pytest.mark.parametrize("skill_id", ["gone", "guarded", ""])
async def test_an_invisible_skill_does_not_exist(skills: Skills, skill_id: str) -> None:
    desk = await at_work(skills)
    assert await desk.refusal("activate_skill", skill_id=skill_id) == "no_such_skill"
    assert desk.bench.ledger.held.state.selected == ()


async def test_a_misspelled_skill_is_answered_with_the_nearest(skills: Skills) -> None:
    envelope = await (await at_work(skills)).call("activate_skill", skill_id="doks")
    assert envelope.error
    assert envelope.error.message == "there is no skill 'doks'. Did you mean 'docs'?"


async def test_a_file_of_a_skill_is_read_as_text(skills: Skills) -> None:
    desk = await at_work(skills, "docs")
    assert await desk.made(
        "read_skill_resource", skill_id="docs", resource_id="resource.1", mode="text"
    ) == {
        "skill_id": "docs",
        "resource_id": "resource.1",
        "kind": "text",
        "content": "Read me.",
        "mime_type": "text/plain",
        "relative_path": "a.txt",
    }
    longest = await desk.made(
        "read_skill_resource", skill_id="docs", resource_id="resource.3", mode="text"
    )
    assert longest["content"] == MAX_CONTENT


@pytest.mark.parametrize(
    ("skill_id", "resource_id", "reason"),
    [
        ("docs", "resource.2", "not_text"),
        ("docs", "resource.4", "too_large"),
        ("docs", "resource.5", "no_such_resource"),
        ("docs", "a.txt", "no_such_resource"),
        ("plus", "resource.1", "not_selected"),
        ("gone", "resource.1", "no_such_skill"),
        ("guarded", "resource.1", "no_such_skill"),
    ],
)
async def test_an_unreadable_resource_gives_a_reason(
    skills: Skills, skill_id: str, resource_id: str, reason: str
) -> None:
    desk = await at_work(skills, "docs")
    asked = {"skill_id": skill_id, "resource_id": resource_id, "mode": "text"}
    assert await desk.refusal("read_skill_resource", **asked) == reason


@pytest.mark.parametrize(
    ("resource_id", "kind", "content"),
    [("resource.1", "text", b"Read me."), ("resource.2", "blob", b"\x89PNG")],
)
async def test_a_file_of_a_skill_is_copied_into_the_workspace(
    skills: Skills, resource_id: str, kind: str, content: bytes
) -> None:
    desk = await at_work(skills, "docs")
    asked = {"skill_id": "docs", "resource_id": resource_id, "mode": "import_to_vfs"}
    made = await desk.made("read_skill_resource", **asked, destination_path="task://x/y")
    assert (made["kind"], made["destination_path"]) == (kind, "task://x/y")
    assert await desk.get("task://x/y") == content


async def test_an_import_requires_a_destination(skills: Skills) -> None:
    desk = await at_work(skills, "docs")
    asked = {"skill_id": "docs", "resource_id": "resource.1", "mode": "import_to_vfs"}
    assert await desk.refusal("read_skill_resource", **asked) == "invalid"
    asked["destination_path"] = "/etc/passwd"
    assert await desk.refusal("read_skill_resource", **asked) == "invalid"


async def test_an_asset_is_a_file_of_the_skill_by_its_path(skills: Skills) -> None:
    desk = await at_work(skills, "docs")
    asked = {"skill_id": "docs", "asset_path": "./icon.png", "destination_path": "session://i.png"}
    made = await desk.made("import_skill_asset", **asked)
    assert (made["kind"], made["relative_path"]) == ("blob", "icon.png")
    assert await desk.get("session://i.png") == b"\x89PNG"


@pytest.mark.parametrize(
    ("skill_id", "asset_path", "reason"),
    [
        ("docs", "../x", "invalid"),
        ("docs", "a/../../x", "invalid"),
        ("docs", "/etc/passwd", "invalid"),
        ("docs", ".", "invalid"),
        ("docs", "", "invalid"),
        ("docs", "b.md", "not_found"),
        ("plus", "a.txt", "not_selected"),
        ("gone", "a.txt", "no_such_skill"),
    ],
)
async def test_an_asset_stays_in_its_skill(
    skills: Skills, skill_id: str, asset_path: str, reason: str
) -> None:
    """Seed B25: rejects "`..` traversal for author-facing asset imports"."""
    desk = await at_work(skills, "docs")
    asked = {"skill_id": skill_id, "asset_path": asset_path, "destination_path": "task://x"}
    assert await desk.refusal("import_skill_asset", **asked) == reason


async def test_a_deleted_skill_file_is_reported_as_missing(skills: Skills, tmp_path: Path) -> None:
    desk = await at_work(skills, "docs")
    await desk.made("list_available_skills")
    (tmp_path / "docs/a.txt").unlink()
    asked = {"skill_id": "docs", "resource_id": "resource.1", "mode": "text"}
    assert await desk.refusal("read_skill_resource", **asked) == "not_found"


async def test_a_file_of_a_skill_that_is_another_name_of_a_secret_is_refused(
    skills: Skills, tmp_path: Path
) -> None:
    """A hard link to the key, among the files of a skill of an open project."""
    (tmp_path / ".penstock").mkdir()
    (tmp_path / ".penstock/secret.key").write_text("canary")
    (tmp_path / "docs/a.txt").unlink()
    (tmp_path / "docs/a.txt").hardlink_to(tmp_path / ".penstock/secret.key")
    desk = await at_work(skills, "docs", project=ProjectFolder(root=tmp_path))
    asked = {"skill_id": "docs", "resource_id": "resource.1", "mode": "text"}
    found = await desk.call("read_skill_resource", **asked)
    assert found.error is not None
    assert str(found.error.message) == '"docs/a.txt" is protected.'
    (tmp_path / "docs/a.txt").unlink()
    os.mkfifo(tmp_path / "docs/a.txt")
    assert (await desk.call("read_skill_resource", **asked)).status == "failed"


WRITES = 8


async def lives(skills: Skills, writes: int, *, before: bool) -> DyingLog:
    """Activate a skill and use its tool, dying once at a write."""
    clock = FakeClock()
    log = DyingLog(clock, writes=writes, before=before)
    story = [call("activate_skill", skill_id="plus"), call("look"), say("Done.")]
    model, place = ScriptedModel({"Go": story}), MemoryStorage(clock=clock, log=log)
    place.limits = Limits(shutdown_seconds=0)
    tools: list[Tool] = [*TOOLS, Act("look", is_offered=False)]
    while True:
        async with memory_runtime(model=model, tools=tools, skills=skills, place=place) as runtime:
            reply = await live(runtime, log, see_through(runtime, "Go", lambda question: {}))
        if reply is not None:
            assert reply.content == "Done."
            found = await settled(runtime, reply.session_id)
            assert [(each.tool_id, code(each)) for each in found] == [
                ("activate_skill", "ok"),
                ("look", "ok"),
            ]
            events = [each.event for each in await log.read(LogId(reply.session_id))]
            assert sum(isinstance(each, SkillsSelected) for each in events) == 1
            return log
        log.revive()
        clock.advance(5)


async def test_an_uninterrupted_activation_writes_a_few_times(skills: Skills) -> None:
    assert (await lives(skills, -1, before=False)).writes <= WRITES


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("writes", range(1, WRITES + 1))
async def test_a_skill_is_selected_once_whenever_the_process_dies(
    skills: Skills, writes: int, before: bool
) -> None:
    """It happens exactly once and is never INTERRUPTED."""
    assert (await lives(skills, writes, before=before)).writes


INDEX = (
    "---\nname: docs\ndescription: How it is done.\nfiles: [api.md, gone.md, big.md, bin.md]\n---"
)
TOPIC = "# API\n\n  as it is\r\n"


@pytest.fixture
def books(tmp_path: Path) -> HandbookCatalog:
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


async def bench_over(books: HandbookCatalog) -> Workbench:
    return await open_workbench(*with_handbooks(HANDBOOK_TOOLS, books))


async def test_a_topic_file_is_returned_unchanged(books: HandbookCatalog) -> None:
    """T13: "Read a topic file from a registered skill bundle"; "Raw file content as text"."""
    bench = await bench_over(books)
    envelope = await bench.call("skill_read", {"skill": "docs", "file": "api.md"})
    assert (envelope.output, HANDBOOK_TOOLS[0].spec.effect) == (TOPIC, Effect.READ)


UNLISTED = 'File "{}" is not listed in skill "docs". Listed: api.md, gone.md, big.md, bin.md.'


@pytest.mark.parametrize(
    ("skill", "file", "expected"),
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
async def test_an_unreadable_topic_is_an_error_text(
    books: HandbookCatalog, skill: str, file: str, expected: str
) -> None:
    """T14: "or an error string if the skill or file is not found"; T16: unlisted is refused."""
    bench = await bench_over(books)
    envelope = await bench.call("skill_read", {"skill": skill, "file": file})
    assert envelope.status is Status.FAILED
    assert envelope.error is not None
    assert (envelope.error.code, envelope.error.message) == ("TOOL_FAILED", expected)


@pytest.mark.parametrize("input", [{}, {"skill": "docs"}, {"skill": "d", "file": "f", "x": 1}])
async def test_only_both_names_are_accepted(books: HandbookCatalog, input: dict[str, str]) -> None:
    bench = await bench_over(books)
    envelope = await bench.call("skill_read", input)
    assert envelope.status is Status.VALIDATION_ERROR


def test_the_description_lists_the_handbooks(books: HandbookCatalog, tmp_path: Path) -> None:
    """H6: "The tool's description lists the handbooks with description and files"."""
    (tool,) = with_handbooks(HANDBOOK_TOOLS, books)
    assert "- docs: How it is done. (api.md, gone.md, big.md, bin.md)" in tool.spec.description
    for number in range(60):
        (tmp_path / f"h{number}").mkdir()
        (tmp_path / f"h{number}" / "SKILL.md").write_text(f"---\ndescription: {'d' * 400}\n---")
    (longer,) = with_handbooks(HANDBOOK_TOOLS, find_handbooks([tmp_path]))
    assert len(longer.spec.description) < 4_000 + 400


def test_without_handbooks_the_description_reports_none() -> None:
    assert HANDBOOK_TOOLS[0].spec.description.endswith("There are no skills.")

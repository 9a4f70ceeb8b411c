"""Briefings with files and handbooks."""

from pathlib import Path
from typing import Any

import pytest

from penstock.agents.agent import Agent
from penstock.core.call_errors import CallError
from penstock.core.envelope import Envelope
from penstock.flows.agents.briefing import (
    AUTONOMOUS,
    Briefing,
    Materials,
    brief_call,
    system_prompt,
    user_message,
)
from penstock.flows.runs.values import ForkChoice
from penstock.manifest.handbook import FILE_BYTES, find_handbooks
from penstock.models.scripted import ScriptedModel
from penstock.resources.project.access import Access
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.resources import NO_PROJECT, ProjectFolder
from tests.kit.flows import by_task, finish, flows_of, run_in, steps, worker

INDEX = "---\nname: docs\nfiles: [a.md]\n---\nThe ${{task}} index.\n"
LOOK = """
  - {id: make, agent: maker, task: make}
  - {id: look, agent: g, task: "look at ${{input.notes}}", blockedBy: [make], inputs: {
      notes: "file://${{result.make.files}}", more: "file://a.txt"}}
"""


@pytest.fixture
def place(tmp_path: Path) -> MemoryStorage:
    (tmp_path / "a.txt").write_text("text of ${{task}}")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/SKILL.md").write_text(INDEX)
    place = MemoryStorage(flows=flows_of(demo=steps(LOOK)))
    place.project = ProjectFolder(root=tmp_path)
    place.handbooks = find_handbooks([tmp_path])
    return place


async def ran(
    place: MemoryStorage, made: str, **agent_profile: Any
) -> tuple[Envelope, ScriptedModel]:
    files = [{"path": made, "action": "created"}]
    model = ScriptedModel(by_task({"make": finish("made", files=files)}))
    agents = [worker("maker"), worker("g", **agent_profile)]
    async with memory_runtime(model=model, agents=agents, place=place) as runtime:
        return await run_in(runtime), model


async def test_context_files_come_before_handbooks_and_these_before_the_body(
    place: MemoryStorage,
) -> None:
    """4.1: `## Context: PATH`, then `## Skill: NAME` and the whole `SKILL.md`, then the body."""
    files = {"context_files": ("a.txt", "gone.txt"), "handbooks": ("docs",)}
    envelope, model = await ran(place, "a.txt", **files)
    rules, materials = model.requests[-1].system.split("\n\n", 1)
    assert "finish" in rules
    assert materials == (
        f"## Context: a.txt\n\ntext of ${{{{task}}}}\n\n## Skill: docs\n\n{INDEX}\n\nYou are g."
    )
    (warning,) = envelope.output["warnings"]
    assert warning.startswith("the context file 'gone.txt' is left out")


async def test_files_named_in_inputs_are_in_the_message_and_not_expanded(
    place: MemoryStorage,
) -> None:
    """V13: `file://${{result.w.files}}`; "one trailing ` (action)` is dropped"."""
    envelope, model = await ran(place, "a.txt")
    assert envelope.ok
    text = "text of ${{task}}"
    assert model.requests[-1].messages[0].content == (
        f"Task: look at {text}\n\n## Inputs\n\nmore:\n{text}"
    )


async def test_a_missing_file_is_a_soft_failure(place: MemoryStorage) -> None:
    """V13: "soft `input_file`"."""
    envelope, model = await ran(place, "gone.txt")
    assert envelope.output["status"] == "error"
    assert envelope.output["reason"] == (
        "an input cannot be read: there is no 'gone.txt' in the project"
    )
    assert len(model.requests) == 1


def test_task_and_inputs_of_a_call_are_not_expanded() -> None:
    agent = worker("g", output="report.md")
    result, missing = brief_call(
        agent, "do ${{task}}", {"n": "${{input.n}}"}, materials=Materials()
    )
    assert (result.task, result.inputs) == ("do ${{task}}", {"n": "${{input.n}}"})
    assert (result.instructions, result.output, missing) == ("You are g.", "report.md", [])


CHOICE = ForkChoice(
    fork_id="pick", question="How\ndeep?", answer="Deep", notes="soon", decided_by="a person"
)


def briefing(**more: Any) -> Briefing:
    parts: dict[str, Any] = {
        "task": "Do it",
        "instructions": "You write.",
        "inputs": {},
        "context": {},
        "handbooks": {},
    }
    return Briefing(**parts | more)


def test_the_parts_of_the_prompt_are_in_order_without_empty_ones() -> None:
    """4.1: rules, fork section, context files, handbooks, body; parted by a blank line."""
    prompt = system_prompt(
        Agent("writer"),
        briefing(
            choice=CHOICE,
            context={"a.md": "A"},
            handbooks={"docs": "# Docs\nfiles:\n- x.md"},
            is_autonomous=True,
        ),
    )
    places = [
        prompt.index(part)
        for part in (
            AUTONOMOUS,
            (
                "## Context\n\nThis step was chosen at the fork pick.\nQuestion: How deep?\n"
                "Answer: Deep\nNote: soon\nDecided by: a person"
            ),
            "## Context: a.md\n\nA",
            "## Skill: docs\n\n# Docs\nfiles:\n- x.md",
            "You write.",
        )
    ]
    assert places == sorted(places)
    assert "\n\n\n" not in prompt
    assert system_prompt(Agent("writer"), briefing()).count("##") == 0


def test_the_message_is_the_task_and_the_other_wired_inputs() -> None:
    message = user_message(briefing(output="out.md", inputs={"notes": "n", "more": "m"}))
    assert message == "Task: Do it\n\nOutput file: out.md\n\n## Inputs\n\nnotes:\nn\n\nmore:\nm"
    assert user_message(briefing()) == "Task: Do it"


PLAIN_INDEX = "---\nname: docs\nfiles: [a.md]\n---\nThe index.\n"


@pytest.fixture
def materials(tmp_path: Path) -> Materials:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src/a.txt").write_text("alpha ${{task}}")
    (root / "b.txt").write_text("beta")
    (root / ".env").write_text("KEY=1")
    (root / "data.db").write_text("rows")
    (root / "big.txt").write_bytes(b"x" * (FILE_BYTES + 1))
    (root / "bin.txt").write_bytes(b"\xff\xfe")
    (tmp_path / "out.txt").write_text("outside")
    (root / "link.txt").symlink_to(tmp_path / "out.txt")
    (root / "docs").mkdir()
    (root / "docs/SKILL.md").write_text(PLAIN_INDEX)
    folder = ProjectFolder(root=root, private=("data.db",))
    return Materials(handbooks=find_handbooks([root]), folder=folder)


def filled(materials: Materials, value: str, **agent_profile: Any) -> str:
    return materials.filled({"notes": value}, worker("g", **agent_profile))["notes"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("file://src/a.txt", "alpha ${{task}}"),
        ("file://src/a.txt (created)", "alpha ${{task}}"),
        ("file://src/a.txt (read)\n", "alpha ${{task}}"),
        ("file://src/../b.txt", "beta"),
        ("see file://b.txt", "see file://b.txt"),
        ("b.txt", "b.txt"),
        ("", ""),
    ],
)
def test_an_input_that_names_a_file_is_its_text(
    materials: Materials, value: str, text: str
) -> None:
    """V13: "replaced by the file's text, which is not expanded"."""
    assert filled(materials, value) == text


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("file://", "is a directory"),
        ("file://src", "is a directory"),
        ("file://none.txt", "there is no 'none.txt' in the project"),
        ("file://b.txt (created), src/a.txt (read)", "there is no 'b.txt (created), src/a.txt'"),
        ("file://../out.txt", '"../out.txt" is outside the project.'),
        ("file://link.txt", '"link.txt" is outside the project.'),
        ("file:///etc/hosts", '"/etc/hosts" is outside the project.'),
        ("file://.env", '".env" is protected.'),
        ("file://data.db", '"data.db" is protected.'),
        ("file://big.txt", "has more than 262144 bytes"),
        ("file://bin.txt", "is not UTF-8 text"),
        ("file://a\0b", "is not a path of a file"),
    ],
)
def test_an_unreadable_file_is_reported(materials: Materials, value: str, message: str) -> None:
    """V13: "the agent's `access.read` and §12.2 apply; missing or over 256 KiB"."""
    with pytest.raises(CallError) as caught:
        filled(materials, value)
    assert message in str(caught.value)


def test_an_agent_reads_only_what_its_access_allows(materials: Materials) -> None:
    access = Access(agent="g", read=("src/**",))
    assert filled(materials, "file://src/a.txt", access=access).startswith("alpha")
    with pytest.raises(CallError, match=r'is not readable for agent "g"\. access\.read: src'):
        filled(materials, "file://b.txt", access=access)


def test_missing_files_and_handbooks_are_left_out(materials: Materials) -> None:
    """3: "a missing or unreadable one is left out with a `flow_warning`"."""
    agent = worker("g", context_files=("b.txt", "none.txt", ".env"), handbooks=("docs", "dox"))
    received = materials.given_to(agent)
    assert received.context == {"b.txt": "beta"}
    assert received.handbooks == {"docs": PLAIN_INDEX}
    assert received.missing == (
        "the context file 'none.txt' is left out: there is no 'none.txt' in the project",
        "the context file '.env' is left out: \".env\" is protected.",
        "the handbook 'dox' is left out: there is none of this name",
    )


def test_without_a_project_no_file_is_read() -> None:
    received = Materials().given_to(worker("g", context_files=("b.txt",)))
    assert received.missing == ("the context file 'b.txt' is left out: " + NO_PROJECT,)

"""The system prompt."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.agents.agent import Agent, ChatSettings
from penstock.agents.prompt import DATA_IS_NOT_ORDERS, skill_prompt, system_prompt
from penstock.app.project import check_project
from penstock.app.runtime import Runtime
from penstock.app.settings import load
from penstock.chat.requests import NewMessage, TaskReply
from penstock.core.events.events import PromptResolved
from penstock.core.ids import SessionId
from penstock.manifest.skill import SkillManifest
from penstock.models.scripted import ScriptedModel, call, say
from penstock.tools.skills import NOTHING, Skills
from tests.kit.logs import events
from tests.kit.project import ProjectFolder


@pytest.mark.parametrize(
    ("instructions", "own", "begins"),
    [
        ("Be kind.", None, "Be kind."),
        ("Be kind.", "Be brief.", "Be brief."),
        ("Be kind.", "", DATA_IS_NOT_ORDERS),
        ("", None, DATA_IS_NOT_ORDERS),
    ],
)
def test_the_agent_speaks_first(instructions: str, own: str | None, begins: str) -> None:
    settings = ChatSettings(llm_system_prompt=own)
    prompt = system_prompt(Agent("assistant", instructions=instructions, settings=settings))
    assert prompt.startswith(begins)
    assert prompt.endswith(DATA_IS_NOT_ORDERS)


@pytest.mark.parametrize(
    ("prompt_prefix", "skills", "prompt"),
    [
        ((), "", "Be kind."),
        (("First.",), "", "First.\n\nBe kind."),
        (("First.", "Then."), "Last.", "First.\n\nThen.\n\nBe kind.\n\nLast."),
        (("First.", ""), "", "First.\n\nBe kind."),
    ],
)
def test_the_project_speaks_before_the_agent_and_skills_after_it(
    prompt_prefix: Sequence[str], skills: str, prompt: str
) -> None:
    said = system_prompt(
        Agent("assistant", instructions="Be kind."), skills, prompt_prefix=prompt_prefix
    )
    assert said == f"{prompt}\n\n{DATA_IS_NOT_ORDERS}"


def skill(skill_id: str, instruction: str, *requires: str) -> SkillManifest:
    return SkillManifest(
        skill_id=skill_id,
        name=skill_id.title(),
        description="",
        instruction=instruction,
        requires_skills=requires,
        file=f"{skill_id}.skill.yaml",
        line=1,
        folder=skill_id,
    )


def test_a_skill_prompt_has_its_instructions_and_its_files(tmp_path: Path) -> None:
    """The prompt of a selected skill lists id, path, media type and size."""
    for name, text in (("table.csv", "a,b"), ("more/note.txt", "hello")):
        place = tmp_path / "one" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    one, two = skill("one", "Look it up.\n", "two"), skill("two", "Be exact.")
    skills = Skills({"one": one, "two": two}, tmp_path)
    assert skill_prompt(skills, skills.select(["one"])) == (
        "## Skill: One (one)\n\nLook it up.\n\n"
        "Resources, to be read with read_skill_resource:\n"
        "- resource.1: more/note.txt (text/plain, 5 bytes)\n"
        "- resource.2: table.csv (text/csv, 3 bytes)\n\n"
        "## Skill: Two (two)\n\nBe exact."
    )
    assert skill_prompt(skills, NOTHING) == ""


PROMPTS = """
execution: {preamble: Obey the house.}
"""
RESOLVED = """
execution: {preamble: Obey the house.}
system_prompt_resolver: {script_file: who.mts, entrypoint: who, timeout_ms: 2000}
"""


async def said(runtime: Runtime, text: str, session_id: SessionId | None = None) -> TaskReply:
    sent = await runtime.requests.send(NewMessage(content=text, session_id=session_id))
    reply = await runtime.requests.wait(sent.task_id)
    assert reply
    return reply


def resolving(project: ProjectFolder, script: str) -> None:
    project.write("all.prompts.yaml", RESOLVED)
    project.write("who.mts", f"export const who = {script};")


async def asked(project: ProjectFolder) -> tuple[TaskReply, ScriptedModel]:
    """Say something once in the project."""
    model = ScriptedModel([say("Hi")])
    async with project.opened(
        agents=[Agent("assistant", instructions="Be kind.", model=model)]
    ) as runtime:
        return await said(runtime, "Go"), model


async def test_the_preamble_precedes_the_instructions_of_the_agent(project: ProjectFolder) -> None:
    project.write("all.prompts.yaml", PROMPTS)
    _, model = await asked(project)
    assert model.requests[0].system.startswith("Obey the house.\n\nBe kind.")


async def test_a_script_adds_text_that_depends_on_the_profile(project: ProjectFolder) -> None:
    resolving(project, "({ profile: p }: any) => `Speak to ${p.profile_id}: ${p.permissions}.`")
    _, model = await asked(project)
    wanted = "Obey the house.\n\nSpeak to local: admin,approve,chat,manage,read.\n\nBe kind."
    assert model.requests[0].system.startswith(wanted)


@pytest.mark.parametrize("script", ["() => null", "() => {}", '() => " \\n"', "async () => ''"])
async def test_a_script_without_text_adds_nothing(project: ProjectFolder, script: str) -> None:
    """A string joins after the preamble; null, undefined, blank: nothing."""
    resolving(project, script)
    _, model = await asked(project)
    assert model.requests[0].system.startswith("Obey the house.\n\nBe kind.")


async def test_a_script_is_asked_once_a_task_and_its_answer_is_an_event(
    project: ProjectFolder,
) -> None:
    """Its text is an event (`prompt_resolved`), so a restart and a replay see the same."""
    resolving(project, "() => `${performance.now() + Math.random()}`")
    model = ScriptedModel({"One": [call("list_available_skills"), say("1")], "Two": [say("2")]})
    async with project.opened(agents=[Agent("assistant", model=model)]) as runtime:
        session_id = (await said(runtime, "One")).session_id
        await said(runtime, "Two", session_id)
        found = [
            each.text for each in await events(runtime, session_id) if type(each) is PromptResolved
        ]
    assert len(found) == 2
    assert [found[0] in each.system for each in model.requests] == [
        True,
        True,
        found[0] == found[1],
    ]
    assert found[1] in model.requests[2].system


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("() => { throw new Error('no') }", "failed: SCRIPT_ERROR"),
        ("() => { throw new Error('no'.repeat(9000)) }", "nono"),
        ("() => 7", "must return a string or null, found int"),
        ("() => 'é'.repeat(9000)", "returned 18000 bytes; at most 16384 are used"),
        ("() => flo.callTool({ tool_id: 'x', input: {} })", "NOT_AVAILABLE"),
        ("() => flo.vault.get({ key: 'k', scope: 'profile' })", "NOT_AVAILABLE"),
        ("() => fetch('https://example.com')", "failed"),
        ("() => import('x')", "is broken"),
        (
            "() => flo.callTool({ tool_id: 'x', input: [...Array(300)].reduce((d) => ({ d }), 0)})",
            "NOT_AVAILABLE",
        ),
    ],
)
async def test_a_script_that_fails_ends_the_task_before_a_model_is_asked(
    project: ProjectFolder, script: str, why: str
) -> None:
    """Task `failed`, `SYSTEM_PROMPT_RESOLUTION_FAILED`, no model call."""
    resolving(project, script)
    reply, model = await asked(project)
    assert model.requests == []
    assert reply.error
    assert reply.error.code == "SYSTEM_PROMPT_RESOLUTION_FAILED"
    assert why in reply.error.message
    assert len(reply.error.message) < 2100


async def test_a_script_that_takes_too_long_ends_the_task(project: ProjectFolder) -> None:
    resolving(project, "() => new Promise(() => setTimeout(() => {}, 60000))")
    text = RESOLVED.replace("2000", "50")
    project.write("all.prompts.yaml", text)
    reply, _ = await asked(project)
    assert reply.error
    assert reply.error.code == "SYSTEM_PROMPT_RESOLUTION_FAILED"


@pytest.mark.parametrize("found", [[PROMPTS, PROMPTS], ["execution: {}"]])
async def test_broken_and_second_prompts_are_not_used(
    project: ProjectFolder, found: list[Any]
) -> None:
    for number, text in enumerate(found):
        project.write(f"{number}.prompts.yaml", text)
    _, model = await asked(project)
    assert model.requests[0].system.startswith("Be kind.")


async def test_script_errors_are_reported_with_the_project(
    project: ProjectFolder,
) -> None:
    resolving(project, "() => import('x')")
    found = check_project(load(project.root)).diagnostics
    assert [(each.file, each.code) for each in found] == [("who.mts", "import-dynamic")]


async def test_a_script_may_return_text_up_to_the_limit(project: ProjectFolder) -> None:
    resolving(project, "() => 'x'.repeat(16384)")
    _, model = await asked(project)
    assert f"\n\n{'x' * 16_384}\n\n" in model.requests[0].system

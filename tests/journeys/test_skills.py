"""Skills over a whole conversation: selected by the agent, a request, a model; and cleared."""

from typing import Any

import pytest

from penstock.agents.agent import Agent, ChatSettings
from penstock.app.runtime import Runtime
from penstock.chat.requests import NewMessage
from penstock.core.ids import SessionId
from penstock.models.scripted import ScriptedModel, call, say
from tests.kit.project import ProjectFolder
from tests.kit.visibility import write_project


async def said(
    runtime: Runtime, text: str, session_id: SessionId | None = None, *skills: str
) -> SessionId:
    message = NewMessage(content=text, session_id=session_id, selected_skills=skills)
    sent = await runtime.requests.send(message)
    await runtime.requests.wait(sent.task_id)
    return sent.session_id


def tools_of(model: ScriptedModel) -> list[set[str]]:
    """Return which tools of the project's skills each request had."""
    return [
        {each.name for each in request.tools if each.name.startswith("t_")}
        for request in model.requests
    ]


OF_A = {"t_listed", "t_inline", "t_req"}


async def test_a_selection_belongs_to_the_session_and_survives_a_restart(
    project: ProjectFolder,
) -> None:
    """The selection belongs to the session, is additive, survives restarts, cleared by `/new`."""
    write_project(project)
    model = ScriptedModel(
        [call("activate_skill", skill_id="b"), *[say(str(number)) for number in range(5)]]
    )
    agents = [Agent("assistant", model=model)]
    async with project.opened(agents=agents) as runtime:
        session_id = await said(runtime, "One")
        await said(runtime, "Two", session_id, "a")
    async with project.opened(agents=agents) as runtime:
        await said(runtime, "Three", session_id)
        await said(runtime, "/new Four", session_id)
        await said(runtime, "Five")
    assert tools_of(model) == [set(), {"t_req"}, OF_A, {"t_req"}, set(), set()]
    assert "Mind skill b." in model.requests[3].system


@pytest.mark.parametrize(
    ("settings", "tools"),
    [
        ({"selected_skills": ("a",)}, OF_A),
        ({"selected_skills": ("c", "gone")}, {"t_other"}),
        ({"selected_skills": ("a",), "skills": ("c",)}, set()),
        ({"selected_skills": ("a",), "enabled_tools": ()}, OF_A),
        ({"selected_skills": ("a",), "tools_enabled": False}, set()),
        ({"selected_skills": ("a",), "tool_permissions": {"t_req": "deny"}}, OF_A - {"t_req"}),
    ],
)
async def test_an_agent_can_start_with_skills(
    project: ProjectFolder, settings: dict[str, Any], tools: set[str]
) -> None:
    write_project(project)
    model = ScriptedModel([say("Hi")])
    agent = Agent("assistant", model=model, settings=ChatSettings(**settings))
    async with project.opened(agents=[agent]) as runtime:
        await said(runtime, "Go")
    assert tools_of(model) == [tools]


async def test_a_broken_skill_and_a_broken_tool_are_not_offered(
    project: ProjectFolder,
) -> None:
    """A broken skill cannot be selected; a broken tool is offered to no model."""
    write_project(project)
    project.tool("t_req", "import x from 'lodash';", direct_call="false")
    project.write("skills/c/c.skill.yaml", "skill_id: c\nname: C\n")
    model = ScriptedModel(
        [call("list_available_skills") + call("activate_skill", skill_id="c"), say("Hi")]
    )
    async with project.opened(agents=[Agent("assistant", model=model)]) as runtime:
        await said(runtime, "Go", None, "a", "c")
    assert tools_of(model) == [OF_A - {"t_req"}] * 2
    seen = "".join(each.content for each in model.requests[1].messages)
    assert "there is no skill 'c'" in seen
    assert '"skill_id":"b"' in seen
    assert '"skill_id":"c"' not in seen

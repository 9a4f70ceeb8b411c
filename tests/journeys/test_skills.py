"""Skills over a whole conversation: selected by the agent, a request, a model; and cleared."""

from typing import Any

import pytest

from penstock.agents.agent import Agent, ChatSettings
from penstock.app.runtime import Runtime
from penstock.chat.python.message_options import MessageOptions
from penstock.chat.requests import NewMessage
from penstock.core.ids import SessionId
from penstock.core.messages import ToolMessage
from penstock.core.text import CHARACTERS_PER_TOKEN
from penstock.models.scripted import ScriptedModel, call, say
from tests.kit.project import ProjectFolder
from tests.kit.tools import Act
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
    assert "Mind skill b." in model.requests[3].messages[2].content
    assert "Mind skill b." not in model.requests[3].system
    assert "Mind skill a." in model.requests[2].system


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


def teams(kind: str, model: ScriptedModel) -> list[Agent[Any, Any]]:
    """Return agents with own tools, of which one activates the skill `b`."""
    tools: list[Any] = [Act("look"), "activate_skill"]
    if kind == "typed":
        return [Agent("clerk", model=model, tools=tools, output=int)]
    clerk: Agent[Any, Any] = Agent("clerk", model=model, tools=tools)
    if kind == "alone":
        return [clerk]
    asking = call("clerk", task="Go") if kind == "inner" else call("transfer_to_clerk")
    boss = ScriptedModel([asking, say("Done.")])
    if kind == "inner":
        return [Agent("boss", model=boss, tools=[clerk])]
    return [Agent("boss", model=boss, handoffs=[clerk]), clerk]


@pytest.mark.parametrize("kind", ["alone", "typed", "inner", "handed off"])
async def test_tools_of_a_skill_join_the_own_tools_of_an_agent(
    project: ProjectFolder, kind: str
) -> None:
    """They are there from the next turn of the same task on, and can be called only then."""
    write_project(project)
    answer = call("final_answer", value=1) if kind == "typed" else say("Done.")
    script = [call("t_req"), call("activate_skill", skill_id="b"), call("t_req"), answer]
    model = ScriptedModel(script)
    agents = teams(kind, model)
    async with project.opened(agents=agents) as runtime:
        reply = await runtime.chat("Go", agent=agents[0])
    assert reply.status == "succeeded"
    assert tools_of(model) == [set(), set(), {"t_req"}, {"t_req"}]
    results = [each for each in model.requests[-1].messages if getattr(each, "name", "") == "t_req"]
    assert [each.ok for each in results if isinstance(each, ToolMessage)] == [False, True]


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


PLAIN = "skill_id: plain\nname: Plain\ndescription: For tests.\ninstruction: Mind skill plain.\n"


async def test_a_shortened_history_moves_instructions_to_the_system_prompt(
    project: ProjectFolder,
) -> None:
    """A preview of the outcome would have a part of them; so it is after a message is replaced."""
    write_project(project)
    model = ScriptedModel(
        [call("activate_skill", skill_id="b"), *[say("long " * 400) for _ in range(6)]]
    )
    settings = ChatSettings(context_max_tokens=3_000, llm_max_tokens=100)
    async with project.opened(
        agents=[Agent("assistant", model=model, settings=settings)]
    ) as runtime:
        session_id = await said(runtime, "Go")
        for _ in range(5):
            await said(runtime, "More", session_id)
    systems = [each.system for each in model.requests]
    assert "Mind skill b." in str(model.requests[1].messages)
    assert "Mind skill b." not in systems[1]
    assert "Mind skill b." not in str(model.requests[-1].messages)
    assert "Mind skill b." in systems[-1]
    for request in model.requests[1:]:
        assert f"{request.system}{request.messages}".count("Mind skill b.") == 1


@pytest.mark.parametrize(("window", "words"), [(3_000, 300), (3_500, 900), (5_000, 600)])
async def test_a_request_has_long_instructions_once_and_fits(
    project: ProjectFolder, window: int, words: int
) -> None:
    """A cut leaves them where they are, or the system prompt has them and counts for the window."""
    text = PLAIN.replace("Mind skill plain.", "Mind this. " * 800)
    project.write("skills/plain/plain.skill.yaml", text)
    long = say("long " * words)
    activating = call("activate_skill", skill_id="plain")
    model = ScriptedModel([long, long, activating, *[long] * 6])
    settings = ChatSettings(context_max_tokens=window, llm_max_tokens=100)
    agent = Agent("clerk", model=model, settings=settings)
    options = MessageOptions()
    async with project.opened(agents=[agent]) as runtime:
        for _ in range(8):
            reply = await runtime.chat("More", agent=agent, **options)
            assert reply.status == "succeeded"
            options["session"] = reply.session
    for number, request in enumerate(model.requests):
        content = request.system + "".join(each.content for each in request.messages)
        assert content.count("Mind this.") == (800 if number > 2 else 0)
        assert len(content) / CHARACTERS_PER_TOKEN <= window

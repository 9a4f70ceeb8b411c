"""Skills that are selected inside a task, on wires whose prefix and signatures must not change."""

import json
from itertools import pairwise

import pytest

from penstock.agents.agent import Agent
from penstock.core.limits import Limits
from penstock.models.providers import ModelConfig
from penstock.models.settings import ModelSettings
from penstock.models.wires.anthropic import AnthropicModel
from penstock.models.wires.responses import ResponsesModel
from tests.kit.fake_anthropic import ADAPTIVE, BINDING, MANUAL, MODELS, fake_anthropic
from tests.kit.fakes.provider import Asked, Said, Thought, replying
from tests.kit.fakes.responses import FakeResponses
from tests.kit.project import ProjectFolder
from tests.kit.tools import Act
from tests.kit.visibility import write_project

pytestmark = pytest.mark.programs

PLAIN = "skill_id: plain\nname: Plain\ndescription: For tests.\ninstruction: Mind skill plain.\n"


@pytest.mark.parametrize(("skill", "is_stable"), [("plain", True), ("c", False)])
@pytest.mark.parametrize("mode", [BINDING, MANUAL, ADAPTIVE])
async def test_a_skill_changes_nothing_but_the_tools_before_signed_thinking(
    project: ProjectFolder, mode: str, skill: str, *, is_stable: bool
) -> None:
    """Models §2.3, rules 4 and 8. Of tools that a skill adds, all requests after it know."""
    write_project(project)
    project.write("skills/plain/plain.skill.yaml", PLAIN)
    activating = {1: ("activate_skill", json.dumps({"skill_id": skill}))}
    async with fake_anthropic(mode, calls=3, asks=activating) as fake:
        config = ModelConfig(
            name="claude",
            provider="anthropic",
            model=MODELS[mode],
            base_url=fake.url,
            api_key="sk",
        )
        model = AnthropicModel(config, Limits())
        agent = Agent("clerk", model=model, model_settings=ModelSettings(thinking="low"))
        async with project.opened(agents=[agent], tools=[Act("look")]) as runtime:
            first = await runtime.chat("Go", agent=agent)
            await runtime.chat("Go", agent=agent, session=first.session)
        await model.close()
    assert (fake.refusals, len(fake.requests)) == ([], 8)
    assert f"Mind skill {skill}." in json.dumps(fake.requests[2]["messages"])
    assert len({json.dumps(each["system"]) for each in fake.requests}) == 1
    tools = [json.dumps(each["tools"]) for each in fake.requests]
    assert [after == before for before, after in pairwise(tools)] == [
        *(True, is_stable, True, True, True, True, True)
    ]
    signed = [body.count(b'"signature"') for body in fake.bodies]
    is_kept = is_stable or mode != BINDING
    assert signed == [0, 1, *(range(2, 8) if is_kept else range(6))]


async def test_a_skill_of_text_alone_keeps_the_beginning_of_requests_to_openai(
    project: ProjectFolder,
) -> None:
    project.write("skills/plain/plain.skill.yaml", PLAIN)
    asked = Asked("activate_skill", {"skill_id": "plain"})
    said = replying(Thought(), Said("Done."))
    async with FakeResponses(replying(Thought(), asked), said, said).serving() as server:
        config = ModelConfig(
            name="m",
            provider="openai-responses",
            model="gpt-6-sol",
            base_url=f"{server.url}/v1",
            api_key="sk",
        )
        model = ResponsesModel(config, Limits())
        agent = Agent("clerk", model=model)
        async with project.opened(agents=[agent]) as runtime:
            first = await runtime.chat("Go", agent=agent)
            await runtime.chat("Go", agent=agent, session=first.session)
        await model.close()
    assert server.refusals == []
    texts = [server.prefix(body).removesuffix("]]") for body in server.requests]
    assert [after.startswith(before) for before, after in pairwise(texts)] == [True, True]
    assert texts[-1].count("Mind skill plain.") == 1

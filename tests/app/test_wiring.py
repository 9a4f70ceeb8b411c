"""The model and the tools of an agent in a runtime."""

import pytest
from msgspec.structs import replace

from penstock.agents.agent import Agent, ChatSettings
from penstock.chat.requests import NewMessage
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.runtime import memory_runtime
from penstock.tools.policy import Action, Rule
from tests.kit.tools import Act


@pytest.mark.parametrize(
    ("agent_model", "setting", "requested", "answers"),
    [
        (None, None, None, "default"),
        ("own", None, None, "own"),
        ("own", "chosen", None, "chosen"),
        ("own", "chosen", "requested", "requested"),
        (None, None, "requested", "requested"),
    ],
)
async def test_the_model_of_a_message_wins_over_settings_and_agent(
    agent_model: str | None, setting: str | None, requested: str | None, answers: str
) -> None:
    models = {name: named(name) for name in ("default", "own", "chosen", "requested")}
    agent = Agent("clerk", model=agent_model, settings=ChatSettings(llm_model=setting))
    async with memory_runtime(model=models["default"], agents=[agent]) as runtime:
        for model in models.values():
            runtime.parts.chat.models.add(model)
        sent = await runtime.requests.send(NewMessage(content="Hi", agent="clerk", model=requested))
        reply = await runtime.requests.wait(sent.task_id)
    assert reply
    assert reply.content == f"I am {answers}."


async def test_an_agent_with_its_own_tools_has_no_others() -> None:
    shared, own = Act("shared"), Act("own")
    model = ScriptedModel([call("shared") + call("own"), say("Done.")])
    agent = Agent("clerk", model=model, tools=[own])
    async with memory_runtime(tools=[shared]) as runtime:
        await runtime.chat("Go", agent=agent)
    assert (len(shared.runs), len(own.runs)) == (0, 1)


async def test_the_rules_of_the_project_hold_for_tools_of_an_agent_s_own() -> None:
    own = Act("own")
    model = ScriptedModel([call("own"), say("Done.")])
    agent = Agent("clerk", model=model, tools=[own])
    async with memory_runtime(rules=[Rule(tool="ow*", action=Action.DENY)]) as runtime:
        await runtime.chat("Go", agent=agent)
    assert own.runs == []


def named(name: str) -> ScriptedModel:
    model = ScriptedModel([say(f"I am {name}.")])
    model.card = replace(model.card, model_id=name)
    return model

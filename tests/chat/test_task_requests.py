"""Requests by ids, as the HTTP API and the commands make them."""

from contextlib import aclosing

import pytest

from penstock.agents.agent import Agent, ChatSettings
from penstock.builtins import SKILLS
from penstock.chat.requests import NewMessage
from penstock.chat.task_requests import unknown_skills
from penstock.core.call import Effect
from penstock.core.errors import ConfigError, NotFound
from penstock.core.events.codec import kind_of
from penstock.core.events.events import Record
from penstock.core.profile import LOCAL_PROFILE
from penstock.core.task import TaskStatus
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing.runtime import memory_runtime
from penstock.tools.skills import Skills
from tests.kit.tools import Act, echo


async def test_unknown_agents_and_models_are_refused_before_anything_is_written() -> None:
    async with memory_runtime(model=ScriptedModel([say("Hi")])) as runtime:
        with pytest.raises(NotFound, match="Did you mean 'assistant'"):
            await runtime.requests.send(NewMessage(content="Hi", agent="assistent"))
        with pytest.raises(ConfigError, match="model 'gpt'"):
            await runtime.requests.send(NewMessage(content="Hi", model="gpt"))


async def test_a_log_is_followed_from_its_beginning() -> None:
    async with memory_runtime(model=ScriptedModel([say("Hi")])) as runtime:
        reply = await runtime.chat("Hello")
        kinds = []
        async with aclosing(runtime.requests.follow(reply.session)) as items:
            async for item in items:
                assert isinstance(item, Record)
                kinds.append(kind_of(item.event))
                if kinds[-1] == "task_ended":
                    break
    assert kinds == [
        "session_opened",
        "message_received",
        "task_started",
        "reply_received",
        "task_ended",
    ]


async def test_a_task_is_answered_and_cancelled_by_ids() -> None:
    send = Act("send", echo, requires_approval=True, effect=Effect.WRITE)
    model = ScriptedModel([call("send", to="Ann"), call("send", to="Bob"), say("Done.")])
    async with memory_runtime(model=model, tools=[send]) as runtime:
        requests = runtime.requests
        sent = await requests.send(NewMessage(content="Go"))
        reply = await requests.wait(sent.task_id)
        assert reply
        question_id = reply.questions[0].question.question_id
        await requests.answer(question_id, {"decision": "approve"})
        await requests.wait(sent.task_id)
        await requests.cancel(sent.task_id)
        reply = await requests.wait(sent.task_id)
    assert reply
    assert reply.status is TaskStatus.CANCELLED


ALL = Skills(SKILLS)
SOME = next(iter(SKILLS))


def test_a_selectable_skill_is_accepted() -> None:
    assert unknown_skills([SOME], ALL, Agent("assistant"), LOCAL_PROFILE) == []
    assert unknown_skills([], ALL, Agent("assistant"), LOCAL_PROFILE) == []


def test_an_unknown_skill_is_reported_with_its_path_and_the_nearest() -> None:
    (problem,) = unknown_skills([SOME, f"{SOME}x"], ALL, Agent("assistant"), LOCAL_PROFILE)
    assert problem.path == "/selectedSkillIds/1"
    assert problem.message == f"no skill '{SOME}x'. Did you mean {SOME!r}?"


def test_a_skill_that_the_agent_cannot_select_is_unknown() -> None:
    agent = Agent("assistant", settings=ChatSettings(skills=()))
    assert [each.path for each in unknown_skills([SOME], ALL, agent, LOCAL_PROFILE)] == [
        "/selectedSkillIds/0"
    ]

"""The agents of conversations, and the tools that each works with."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock import Hooks
from penstock.agents.agent import Agent, AnyAgent, ChatSettings
from penstock.chat.participants import Participants, skill_choice_of
from penstock.core.call_errors import NotPermitted
from penstock.core.errors import ConfigError, NotFound
from penstock.core.events.schedule_events import ScheduleFired
from penstock.core.ids import ScheduleId
from penstock.models.scripted import ScriptedModel
from penstock.testing.runtime import memory_runtime
from penstock.tools.tool import Registry
from tests.kit.tools import Act


@asynccontextmanager
async def participants(*agents: AnyAgent) -> AsyncIterator[Participants]:
    """Open a runtime with the tool `look`, and return its participants with these agents."""
    known = {each.name: each for each in agents}

    def find(name: str) -> Agent:
        if name not in known:
            raise NotFound(f"There is no agent {name!r}.")
        return known[name]

    async with memory_runtime(tools=[Act("look")]) as runtime:
        yield Participants(find, runtime.parts.tools.invoker, lambda _, __: ScriptedModel([]))


def names(registry: Registry) -> list[str]:
    return sorted(each.spec.tool_id for each in registry)


async def test_an_agent_without_own_tools_has_those_of_the_project() -> None:
    async with participants() as known:
        assert known.invoker(Agent("clerk")) is known.invoker(Agent("other"))
        assert names(known.invoker(Agent("clerk")).registry) == ["look"]


async def test_own_tools_tools_by_id_and_hand_offs_are_one_registry() -> None:
    desk = Agent("desk")
    clerk = Agent("clerk", tools=["look", Act("own")], handoffs=[desk])
    async with participants(clerk, desk) as known:
        assert names(known.invoker(clerk).registry) == ["look", "own", "transfer_to_desk"]
        assert known.has_tool(clerk, "own")
        assert not known.has_tool(desk, "own")


async def test_an_agent_has_one_invoker_until_the_project_is_reloaded() -> None:
    clerk = Agent("clerk", tools=["look"])
    async with participants(clerk) as known:
        shared, first = known.invoker(Agent("other")), known.invoker(clerk)
        assert known.invoker(clerk) is first
        shared.renew(Registry([Act("look"), Act("new")]))
        again = known.invoker(clerk)
        assert again is not first
        assert names(again.registry) == ["look"]
        shared.renew(Registry([Act("new")]))
        with pytest.raises(ConfigError, match="agent 'clerk' has the tool 'look'"):
            known.invoker(clerk)


class Loud(Hooks[object]):
    """Reads what people write."""

    async def on_input(self, ctx: Any, message: Any) -> Any:
        return message


async def test_an_agent_is_set_up_with_its_hooks() -> None:
    clerk = Agent("clerk", hooks=[Loud()])
    async with participants(clerk) as known:
        assert known.setup(Agent("other")).hooks is None
        agent, invoker, hooks = known.setup(clerk)
        assert (agent, invoker) == (clerk, known.invoker(clerk))
        assert hooks is not None


CLERK = Agent("clerk", settings=ChatSettings(labels=("press",), selected_skills=("news",)))


def fired(**more: Any) -> ScheduleFired:
    return ScheduleFired(schedule_id=ScheduleId("s"), name="S", **more)


def test_tasks_select_what_the_agent_preselects() -> None:
    assert skill_choice_of(CLERK, fired()) == CLERK.settings.skill_choice


def test_preselected_skills_are_left_out_if_the_schedule_wants_that() -> None:
    assert skill_choice_of(CLERK, fired(skips_preselected=True)).preselected == ()


def test_an_agent_without_a_required_label_runs_nothing() -> None:
    assert skill_choice_of(CLERK, fired(required_labels=("press",))).labels == {"press"}
    with pytest.raises(NotPermitted, match="requires the labels 'vip', which agent 'clerk'"):
        skill_choice_of(CLERK, fired(required_labels=("press", "vip")))

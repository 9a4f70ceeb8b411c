"""Messages of a program: their options, agents and keys."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from pydantic import BaseModel

import penstock
from penstock.agents.agent import Agent
from penstock.app.runtime import Runtime
from penstock.core.errors import (
    ConfigError,
    IdempotencyConflict,
    NameTaken,
    NotFound,
    RuntimeMisuse,
)
from penstock.core.reply import OutputChanged, Reply
from penstock.models.model import ModelCard, ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say
from penstock.models.settings import ModelSettings
from penstock.resources.dependencies import AgentContext
from penstock.store.projections import Page
from penstock.testing.runtime import MemoryStorage, memory_runtime
from penstock.tools.hooks.hooks import Hooks
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import tool
from tests.kit.tools import Act


class Total(BaseModel):
    """The output of an agent."""

    euros: int


OWN = ModelCard(model_id="own", name="own", provider="mine")


def model() -> ScriptedModel:
    """Return a model that answers three times."""
    return ScriptedModel([say("One."), say("Two."), say("Three.")])


async def test_a_message_continues_the_conversation_of_a_reply() -> None:
    scripted = model()
    async with memory_runtime(model=scripted) as runtime:
        first = await runtime.chat("Hello")
        again = await runtime.chat("And?", session=first.session)
    assert (first.session, again.output) == (again.session, "Two.")
    assert len(scripted.requests[1].messages) == 3


async def test_settings_of_a_message_win_and_stay_when_the_task_resumes() -> None:
    """library.md 8.3: per project, agent, message; a restart uses those of the message, too."""
    scripted, place = ScriptedModel([call("mail"), say("Sent."), say("More.")]), MemoryStorage()
    own = ModelSettings(temperature=0.1, top_p=0.5, extra={"user": "ann", "tier": 1})
    clerk = Agent("clerk", tools=[Act("mail", requires_approval=True)], model_settings=own)
    wanted = ModelSettings(temperature=0.9, seed=7, extra={"tier": 2})
    async with memory_runtime(model=scripted, agents=[clerk], place=place) as runtime:
        asked = await runtime.chat("Mail", agent=clerk, model_settings=wanted)
    async with memory_runtime(model=scripted, agents=[clerk], place=place) as runtime:
        await runtime.approve(asked)
        await runtime.chat("More", agent=clerk, session=asked.session)
    shown = [(each.temperature, each.top_p, each.seed, each.extra) for each in scripted.requests]
    assert shown == [(0.9, 0.5, 7, {"user": "ann", "tier": 2})] * 2 + [(0.1, 0.5, None, own.extra)]


async def test_settings_of_a_message_are_not_those_of_the_agents_below() -> None:
    inner, outer = ScriptedModel([say("Found.")]), ScriptedModel([call("scout", task="x"), say("")])
    scout = Agent("scout", model=inner, description="Finds things.")
    clerk = Agent("clerk", model=outer, tools=[scout])
    forced = ModelSettings(tool_choice="scout")
    async with memory_runtime(agents=[clerk]) as runtime:
        await runtime.chat("Find x", agent=clerk, model_settings=forced)
    assert [each.tool_choice for each in (outer.requests[0], inner.requests[0])] == ["scout", None]


async def test_settings_of_a_message_reach_the_agent_that_takes_over() -> None:
    billing = Agent("billing", model=ScriptedModel([say("Paid.")]), description="Bills.")
    first = ScriptedModel([call("transfer_to_billing")])
    clerk = Agent("clerk", model=first, handoffs=[billing])
    wanted = ModelSettings(seed=7)
    async with memory_runtime(agents=[clerk, billing]) as runtime:
        reply = await runtime.chat("Pay", agent=clerk, model_settings=wanted)
    assert reply.output == "Paid."
    (asked,) = billing.model.requests if isinstance(billing.model, ScriptedModel) else []
    assert (first.requests[0].seed, asked.seed) == (7, 7)


async def test_a_message_names_its_model() -> None:
    scripted = model()
    clerk = Agent("clerk", model=ScriptedModel([say("Mine.")], card=OWN))
    async with memory_runtime(model=scripted, agents=[clerk]) as runtime:
        usual = await runtime.chat("Hello", agent=clerk)
        other = await runtime.chat("Hello", agent=clerk, model=scripted.card.model_id)
    assert (usual.output, other.output) == ("Mine.", "One.")


async def test_an_agent_object_is_known_by_its_name_from_then_on() -> None:
    clerk = Agent("clerk", instructions="Be brief.", model=model())
    async with memory_runtime() as runtime:
        one = await runtime.chat("Hello", agent=clerk)
        two = await runtime.chat("Hello", agent="clerk", session=one.session)
    assert (one.agent, two.agent, two.output) == ("clerk", "clerk", "Two.")


async def test_the_same_key_is_the_same_task() -> None:
    async with memory_runtime(model=model()) as runtime:
        one = await runtime.chat("Hello", key="a")
        two = await runtime.chat("Hello", key="a")
        run = await runtime.start("Hello", key="a")
        with pytest.raises(IdempotencyConflict):
            await runtime.chat("Goodbye", key="a")
        assert await run.reply() == two
    assert (one.task_id, one.output) == (two.task_id, two.output)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"agnet": "clerk"}, RuntimeMisuse, "Did you mean 'agent'"),
        ({"session_id": "conv_1"}, RuntimeMisuse, "Did you mean 'session'"),
        ({"agent": "assistent"}, NotFound, "Did you mean 'assistant'"),
        ({"model": "gpt"}, ConfigError, "model 'gpt'"),
        ({"session": "conv_nobody"}, NotFound, "conv_nobody"),
    ],
)
async def test_a_wrong_option_is_refused_before_anything_is_written(
    options: dict[str, Any], error: type[Exception], said: str
) -> None:
    async with memory_runtime(model=model()) as runtime:
        for verb in (runtime.chat, runtime.start):
            with pytest.raises(error, match=said):
                await verb("Hi", **options)
        tasks, _ = await runtime.parts.storage.projections.tasks(page=Page(limit=1))
    assert tasks == []


async def test_a_reply_reads_the_log_if_another_runtime_did_the_work() -> None:
    async with memory_runtime(model=model()) as runtime:
        reply: Reply[str] = await runtime.chat("Hello")
        again = await runtime.wait(reply)
    assert (again.messages, again) == (reply.messages, reply)


class Ticket(msgspec.Struct):
    """What a report is about."""

    title: str


class Claim(msgspec.Struct):
    """A ticket of an earlier version."""

    amount: int


async def test_a_reply_is_complete_although_another_message_came_between() -> None:
    runs = []

    @tool
    async def ask_again(ctx: ToolContext) -> str:
        """Send another message to the same conversation."""
        runs.append(await runtime.start("And?", session=ctx.session))
        return "sent"

    scripted = ScriptedModel([call("ask_again"), say("One."), say("Two.")])
    async with memory_runtime(model=scripted, tools=[ask_again]) as runtime:
        first = await runtime.chat("Hello")
        second = await runs[0].reply()
    assert [each.tool for each in first.calls] == ["ask_again"]
    assert [each.text for each in first.messages] == ["Hello", "One."]
    assert [each.text for each in second.messages] == ["And?", "Two."]


def handing_in() -> ScriptedModel:
    """Return a model that hands in a ticket, as often as it is asked."""
    return ScriptedModel(lambda _: call("final_answer", title="fire"))


async def test_a_typed_agent_gives_its_type_in_every_way_of_asking() -> None:
    triage = Agent("triage", model=handing_in(), output=Ticket)
    async with memory_runtime(agents=[triage]) as runtime:
        reply = await runtime.chat("It burns", agent=triage)
        run = await runtime.start("It burns", agent=triage)
        waited = await runtime.wait(reply)
        attached = await runtime.attach(run.task_id, agent=triage).reply()
        outputs = [each.output for each in (reply, waited, await run.reply(), attached)]
        as_json = await runtime.attach(run.task_id).reply()
        by_name = await runtime.chat("It burns", agent="triage")
    assert outputs == [Ticket(title="fire")] * 4
    assert as_json.output == {"title": "fire"}
    assert by_name.output == '{"title":"fire"}'


async def test_a_message_has_an_output_type_of_its_own() -> None:
    async with memory_runtime(model=handing_in()) as runtime:
        reply = await runtime.chat("It burns", output=Ticket)
        run = await runtime.start("It burns", output=Ticket)
        assert (await run.reply()).output == reply.output == Ticket(title="fire")
        again = await runtime.attach(run.task_id, output=Ticket).reply()
    assert again.output.title == "fire"


def in_json(request: ModelRequest) -> ScriptedReply:
    """Hand in a ticket by the format of the provider, if the request has one."""
    ticket = {"title": "fire"}
    return say(json.dumps(ticket)) if request.output else call("final_answer", **ticket)


@pytest.mark.parametrize(
    ("mode", "card", "is_native"),
    [
        ("native", replace(OWN, json_schema=True), True),
        ("native", OWN, False),
        ("tool", replace(OWN, json_schema=True), False),
    ],
)
async def test_the_output_of_a_message_comes_in_the_mode_of_its_agent(
    mode: Any, card: ModelCard, *, is_native: bool
) -> None:
    scripted = ScriptedModel(in_json, card=card)
    clerk = Agent("clerk", model=scripted, output_mode=mode)
    async with memory_runtime(agents=[clerk]) as runtime:
        reply = await runtime.chat("It burns", agent=clerk, output=Ticket)
        again = await runtime.chat("It burns", agent="clerk", output=list[Ticket] | None)
    assert reply.output == Ticket(title="fire")
    first, second, *_ = scripted.requests
    assert (first.output is not None, second.output is not None) == (is_native, is_native)
    assert again.status == "failed"  # the script hands in no list


async def test_the_corrections_of_a_message_are_those_of_its_agent() -> None:
    scripted = ScriptedModel([call("final_answer"), call("final_answer", title="late")])
    clerk = Agent("clerk", model=scripted, output_retries=0)
    async with memory_runtime(agents=[clerk]) as runtime:
        reply = await runtime.chat("It burns", agent=clerk, output=Ticket)
    assert (reply.error and reply.error.code, len(scripted.requests)) == ("INVALID_OUTPUT", 1)


@pytest.mark.parametrize("of_message", [True, False])
async def test_an_output_that_does_not_fit_its_type_any_more_raises(*, of_message: bool) -> None:
    triage = Agent("triage", model=handing_in(), output=Ticket)
    async with memory_runtime(agents=[triage], model=handing_in()) as runtime:
        if of_message:
            run = await runtime.start("It burns", output=Ticket)
        else:
            run = await runtime.start("It burns", agent=triage)
        await run.reply()
        reply = await runtime.attach(run.task_id, output=Claim).reply()
    with pytest.raises(OutputChanged) as raised:
        str(reply.output)
    recorded = raised.value.recorded_schema or {}
    assert list(recorded["properties"]) == ["title"]
    assert list(raised.value.current_schema["properties"]) == ["amount"]


async def test_a_text_is_no_typed_output() -> None:
    async with memory_runtime(model=model()) as runtime:
        run = await runtime.start("Hello")
        await run.reply()
        reply = await runtime.attach(run.task_id, output=Ticket).reply()
    with pytest.raises(OutputChanged) as raised:
        str(reply.output)
    assert raised.value.recorded_schema is None


async def test_another_agent_of_a_known_name_is_refused_outside_of_notebooks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, two = Agent("clerk", model=model()), Agent("clerk", model=model())
    async with memory_runtime(agents=[one]) as runtime:
        assert (await runtime.chat("Hello", agent=one)).output == "One."
        with pytest.raises(NameTaken, match="replace it with"):
            await runtime.chat("Hello", agent=two)
        runtime.put_agent(two)
        assert (await runtime.chat("Hello", agent=two)).output == "One."
        monkeypatch.setattr("builtins.__IPYTHON__", True, raising=False)
        assert (await runtime.chat("Hello", agent=one)).output == "Two."


@pytest.mark.parametrize("wrong", [5, None, Agent, ScriptedModel([])])
async def test_what_is_neither_an_agent_nor_a_name_is_refused_with_what_to_write(
    wrong: Any,
) -> None:
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    async with memory_runtime(model=model()) as runtime:
        asked: list[Callable[[], Awaitable[Any]]] = [
            lambda: runtime.chat("Hello", agent=wrong),
            lambda: runtime.start("Hello", agent=wrong),
            lambda: anext(aiter(runtime.map(["Hello"], agent=wrong))),
            lambda: runtime.import_history(messages, agent=wrong),
        ]
        if wrong is not None:  # there it means every agent
            asked.append(lambda: runtime.sessions(agent=wrong))
        for ask in asked:
            with pytest.raises(ConfigError, match=r"agent= takes an Agent or the name .*; found "):
                await ask()
        if wrong is not None:
            with pytest.raises(ConfigError, match="agent= takes an Agent or the name"):
                runtime.attach("task_1", agent=wrong)
        with pytest.raises(ConfigError, match=r"wanted an Agent, such as Agent\('clerk'\); found"):
            runtime.put_agent(wrong)
        assert not await runtime.sessions()


async def test_a_runtime_of_another_loop_is_refused_instead_of_hanging() -> None:
    async with memory_runtime(model=model()) as runtime:

        def elsewhere() -> None:
            asyncio.run(_ask(runtime))

        with pytest.raises(RuntimeMisuse, match="open_sync"):
            await asyncio.to_thread(elsewhere)


async def _ask(runtime: Runtime) -> None:
    await runtime.chat("Hello")


async def test_an_agent_that_a_restart_would_not_know_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, added = Agent("known", model=model()), Agent("added", model=model())
    fast = {"synchronous": "NORMAL"}
    async with penstock.open(tmp_path, agents=[known], settings=fast) as runtime:
        for agent in (known, added, added):
            await runtime.chat("Hello", agent=agent)
        monkeypatch.setattr("builtins.__IPYTHON__", True, raising=False)
        await runtime.chat("Hello", agent=Agent("of-a-cell", model=model()))
    (warning,) = [each.message for each in caplog.records if "penstock.open" in each.message]
    assert "agents=[...]" in warning
    assert "'added'" in warning


@pytest.mark.parametrize(
    ("options", "lost"),
    [({}, ""), ({"output": Total}, "output beside"), ({"hooks": [Hooks()]}, "hooks beside")],
)
async def test_of_an_agent_of_a_file_only_what_the_file_does_not_say_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, options: dict[str, Any], lost: str
) -> None:
    file = tmp_path / "agents" / "clerk.md"
    file.parent.mkdir()
    file.write_text("---\nname: clerk\ndescription: Answers.\n---\nAnswer.")
    async with penstock.open(tmp_path, settings={"synchronous": "NORMAL"}) as runtime:
        await runtime.chat("Hello", agent=Agent.from_file(file, **options))
    said = [each.message for each in caplog.records if "penstock.open" in each.message]
    assert [lost in each for each in said] == [True] * bool(lost)


async def test_metadata_of_a_message_reach_tools_and_instructions_and_survive_a_restart() -> None:
    seen: list[dict[str, str]] = []

    @tool(effect="none")
    async def look(ctx: ToolContext) -> str:
        """Note the metadata."""
        seen.append(dict(ctx.metadata))
        return str(await ctx.ask("Which?"))

    def instructions(ctx: AgentContext) -> str:
        seen.append(dict(ctx.metadata))
        return "Look."

    scripted = ScriptedModel([call("look"), say("Done.")])
    clerk = Agent("clerk", model=scripted, instructions=instructions, tools=[look])
    place = MemoryStorage()
    async with memory_runtime(agents=[clerk], place=place) as runtime:
        waiting = await runtime.chat("Go", agent=clerk, metadata={"shop": "Oslo"})
    async with memory_runtime(agents=[clerk], place=place) as runtime:
        assert (await runtime.answer(waiting, "this one")).output == "Done."
        wrong: Any = {"shop": 3}
        with pytest.raises(RuntimeMisuse, match="'shop' is not a text"):
            await runtime.chat("Go", agent=clerk, metadata=wrong)
    assert seen == [{"shop": "Oslo"}] * 3

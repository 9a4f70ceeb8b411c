"""The loop alone: it may be entered anywhere; earlier work is in the task."""

from collections.abc import Sequence
from typing import Any

import pytest

from penstock.agents.call_runner import CallRunner
from penstock.agents.handoffs import Transfer
from penstock.agents.loop import BUDGET_NOTICE, FinalReply, loop
from penstock.agents.tool_offer import AgentModel, TaskOffers, caller_for
from penstock.agents.transcript import Transcript
from penstock.agents.turn import Turns
from penstock.core.call_errors import BudgetExceeded, Interrupted, ScriptLoadError
from penstock.core.envelope import ErrorDetail
from penstock.core.errors import Cancel
from penstock.core.events.events import CancelRequested, Event, TaskStarted
from penstock.core.ids import new_id
from penstock.core.limits import Limits, World
from penstock.core.profile import LOCAL_PROFILE
from penstock.engine.budget import Allowance, Budget
from penstock.engine.bus import Bus
from penstock.models.model import ModelRequest
from penstock.models.scripted import Script, ScriptedModel, ScriptedReply, call, say
from penstock.store.blobs import open_blobs
from penstock.testing.clock import FakeClock
from penstock.tools.artifacts import Artifacts
from penstock.tools.invoker import Invoker
from penstock.tools.policy import RuleSet
from penstock.tools.resources import Resources
from penstock.tools.tool import Registry
from tests.kit.assistant import agent
from tests.kit.session_events import LOG, ONE, held_log, ledger_of, outcome, path_of, reply
from tests.kit.tools import Act


async def enter(
    events: Sequence[Event],
    replies: Script,
    *,
    allowance: Allowance | None = None,
    bus: Bus | None = None,
    **settings: Any,
) -> tuple[FinalReply | ErrorDetail, ScriptedModel]:
    """Enter the loop of a task that has had these events."""
    held = await held_log(TaskStarted())
    for event in events:
        call_id = getattr(event, "call_id", None)
        held.add(event, ONE, path_of(call_id) if call_id else None)
    world = World(FakeClock(), Limits(), new_id)
    artifacts = Artifacts(open_blobs("memory:///"), world.limits, new_id)
    resources = Resources(artifacts=artifacts)
    invoker = Invoker(Registry([Act("tool")]), RuleSet(), resources, world=world)
    someone, ledger = agent(**settings), ledger_of(held)
    if allowance is not None:
        ledger.budget = Budget(allowance, ledger.task.spent, world.clock)
    model = ScriptedModel(replies)
    caller = caller_for(someone, LOCAL_PROFILE, ("tool",))
    offers = TaskOffers(someone, invoker, caller, fixed=("tool",))
    agent_model = AgentModel(model, offers, someone, ledger)
    call_runner = CallRunner(invoker, ledger, someone.settings)
    transcript = Transcript(ledger.task.main, system="Be kind.", limit=10_000)
    turns = Turns(
        agent_model, call_runner, transcript, world=world, bus=bus or Bus(), restart=False
    )
    most = someone.settings.max_iterations
    ended = await loop(turns, ledger.task, max_iterations=most)
    assert not isinstance(ended, Transfer)
    return ended, model


DONE: list[Event] = [reply(1, "a"), outcome("a")]


@pytest.mark.parametrize(
    ("events", "replies", "text", "finish"),
    [
        ([], [say("Hi")], "Hi", "stop"),
        ([reply(1, text="Hi")], [], "Hi", "stop"),
        ([reply(1)], [say("Closed.")], "Closed.", "stop"),
        ([reply(1, text=" \n")], [say("Closed.")], "Closed.", "stop"),
        ([reply(1)], [say("\n ")], "I could not produce an answer.", "stop"),
        ([reply(1), reply(1, text="Closed.", closing=True, finish="stop")], [], "Closed.", "stop"),
        (DONE, [say("So.")], "So.", "stop"),
        ([*DONE, reply(2, text="So.")], [], "So.", "stop"),
        ([*DONE, reply(2, "b"), outcome("b")], [say("Enough.")], "Enough.", "max_iterations"),
    ],
)
async def test_it_continues_at_any_state_of_the_task(
    events: list[Event], replies: list[ScriptedReply], text: str, finish: str
) -> None:
    answer, model = await enter(events, replies, max_iterations=2)
    assert isinstance(answer, FinalReply)
    assert (answer.text, answer.finish) == (text, finish)
    assert len(model.requests) == len(replies)


LOST = Interrupted().envelope()
SPENT = BudgetExceeded().envelope()
BROKEN = ScriptLoadError("no").envelope()


def settled_as(*envelopes: Any) -> list[Event]:
    names = [chr(ord("a") + number) for number in range(len(envelopes))]
    outcomes = [outcome(name, envelope=each) for name, each in zip(names, envelopes, strict=True)]
    return [reply(1, *names), *outcomes]


@pytest.mark.parametrize(
    ("events", "finish"),
    [
        (settled_as(LOST), "stop"),
        (settled_as(SPENT), "budget_exceeded"),
        (settled_as(BROKEN, SPENT), "budget_exceeded"),
    ],
)
async def test_errors_of_calls_set_the_finish_reason(events: list[Event], finish: str) -> None:
    answer, _ = await enter(events, [say("So.")])
    assert isinstance(answer, FinalReply)
    assert answer.finish == finish


async def test_a_result_that_is_not_continuable_is_the_end() -> None:
    answer, model = await enter(settled_as(BROKEN, LOST), [say("never")])
    assert isinstance(answer, ErrorDetail)
    assert answer.code == "SCRIPT_LOAD_ERROR"
    assert model.requests == []


async def test_a_cancel_is_seen_between_two_turns() -> None:
    with pytest.raises(Cancel):
        await enter([*DONE, CancelRequested()], [say("never")])


async def test_calls_that_were_left_open_are_run_before_anything_else() -> None:
    answer, model = await enter([reply(1, "a")], [call("tool", n=1), say("Done.")])
    assert isinstance(answer, FinalReply)
    assert answer.text == "Done."
    assert [type(each).__name__ for each in model.requests[0].messages] == [
        "UserMessage",
        "AssistantMessage",
        "ToolMessage",
    ]


@pytest.mark.parametrize(
    ("tokens", "finish", "most"),
    [
        (5_000, "stop", 4_096),
        (4_000, "budget_exceeded", 512),
        (512, "budget_exceeded", None),
    ],
    ids=["room for a reply", "room for a short last word", "room for none"],
)
async def test_only_the_last_word_is_made_shorter_to_fit_into_the_budget(
    tokens: int, finish: str, most: int | None
) -> None:
    answer, model = await enter(
        DONE, [say("So.")], allowance=Allowance(tokens=tokens), llm_max_tokens=4_096
    )
    assert isinstance(answer, FinalReply)
    assert answer.finish == finish
    assert [each.max_tokens for each in model.requests] == ([] if most is None else [most])
    assert answer.text == (BUDGET_NOTICE if most is None else "So.")


async def test_a_live_reply_has_its_iteration_and_whether_it_closes() -> None:
    bus = Bus()
    seen = []

    def told(request: ModelRequest) -> ScriptedReply:
        live = bus.reply(LOG)
        assert live
        seen.append((live.iteration, live.closing, request.closing))
        return say("Closed." if live.closing else "")

    answer, _ = await enter([], told, bus=bus)
    assert isinstance(answer, FinalReply)
    assert (answer.text, answer.finish) == ("Closed.", "stop")
    assert seen == [(1, False, False), (1, True, True)]
    assert bus.reply(LOG) is None

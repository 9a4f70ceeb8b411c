"""An agent session, from its first message to its end."""

from typing import Any

import pytest
from msgspec.structs import replace

from penstock.builtins.ask_user import AskUser
from penstock.core.envelope import Status
from penstock.models.scripted import SCRIPTED, ScriptedModel, call, fail, say
from tests.kit.flows import (
    finish,
    run_flow,
    worker,
)
from tests.kit.tools import Act


async def test_an_agent_without_a_call_is_reminded_and_then_fails() -> None:
    """T22: "must call finish as its last action": two reminders, then `agent_no_finish`."""
    model = ScriptedModel([say("Hm."), say("Done!"), say("Really.")])
    envelope = await run_flow("  - {id: web, agent: scout}", model)
    assert (envelope.status, envelope.output["status"]) == (Status.FAILED, "error")
    assert envelope.output["results"]["web"]["status"] == "error"
    assert len(model.requests) == 3
    assert "Your last act must be a call of finish" in model.requests[1].messages[-1].content


GATE = """
  - {id: gate, agent: judge, task: t, branches: {a: end, b: end}}
  - {id: end, agent: scout}
"""


@pytest.mark.parametrize(
    ("replies", "status", "source"),
    [
        ([finish(status="done", branch="a")] * 3, "error", "3 calls of finish were not valid"),
        (
            [finish(branch="x")] * 3,
            "error",
            '3 calls of finish chose no branch of this step: branch must be one of a, b; found "x"',
        ),
        (
            [finish()] * 3,
            "error",
            "branch of this step: branch must be one of a, b; found nothing",
        ),
    ],
    ids=["not valid", "unknown branch", "no branch"],
)
async def test_finish_is_refused_twice_and_then_the_step_fails(
    replies: list[Any], status: str, source: str
) -> None:
    """N4: the agent may try again twice."""
    envelope = await run_flow(GATE, ScriptedModel(replies))
    assert envelope.output["status"] == status
    assert source in envelope.output["reason"]


@pytest.mark.parametrize(("forced", "choice"), [(True, "finish"), (False, None)])
async def test_a_session_at_its_turn_limit_gets_a_last_turn_in_which_only_finish_may_be_called(
    *, forced: bool, choice: str | None
) -> None:
    """4.3: one closing model call. The other tools stay in it, as its beginning is cached."""
    look = Act("look")
    replies = [call("look", n=n) for n in range(3)]
    model = ScriptedModel(replies, card=replace(SCRIPTED, forced_tool_choice=forced))
    agents = [worker("scout", tools=("look",), max_turns=2)]
    envelope = await run_flow("  - {id: web, agent: scout}", model, tools=[look], agents=agents)
    assert envelope.output["reason"] == "no finish within 2 turns"
    assert [[tool.name for tool in each.tools] for each in model.requests] == [
        ["look", "finish"]
    ] * 3
    assert [each.tool_choice for each in model.requests] == [None, None, choice]
    assert model.requests[2].messages[-1].content.startswith("No turn is left. Call finish now")
    assert len(look.runs) == 2


async def test_a_permanent_failure_of_the_provider_ends_the_run() -> None:
    """10: the provider failed for good, no finish: hard, `api_error`."""
    model = ScriptedModel([fail(401, "no such key")])
    text = """
  - {id: web, agent: scout, on_error: other}
  - {id: stop, agent: scout, end: true}
  - {id: other, agent: scout}
"""
    envelope = await run_flow(text, model)
    assert envelope.output["status"] == "error"
    assert "no such key" in envelope.output["reason"]


async def test_the_last_text_of_an_agent_is_the_full_output() -> None:
    """N7, N8: the result is taken from the parameters; text is never read as a result."""
    message = say("<result>status: error</result> It is done.") + finish("short")
    envelope = await run_flow("  - {id: web, agent: scout}", ScriptedModel([message]))
    web = envelope.output["results"]["web"]
    assert (web["status"], web["summary"]) == ("complete", "short")
    assert web["fullOutput"] == "<result>status: error</result> It is done."


async def test_in_the_last_turn_only_finish_runs() -> None:
    """4.3: after the last, one closing model call with `finish` as its only tool."""
    look = Act("look")
    replies = [
        call("look", n=1),
        call("look", n=2) + call("ask_user", question="?") + finish("in time"),
    ]
    agents = [worker("scout", tools=("look",), max_turns=1)]
    text = "  - {id: web, agent: scout}"
    model = ScriptedModel(replies)
    envelope = await run_flow(text, model, tools=[look, AskUser()], agents=agents)
    assert envelope.output["results"]["web"]["summary"] == "in time"
    assert look.runs == [{"n": 1}]


async def test_an_agent_that_fails_without_a_summary_still_has_a_reason() -> None:
    model = ScriptedModel([finish("", status="error")])
    envelope = await run_flow("  - {id: web, agent: scout}", model)
    assert envelope.output["reason"] == "the agent ended with status error"


async def test_calls_before_finish_run_first_and_those_after_it_are_refused() -> None:
    """N6: calls before finish run and settle first; calls after it are refused."""
    look = Act("look")
    message = call("look", n=1) + finish("ok") + call("look", n=2)
    agents = [worker("scout", tools=("look",))]
    envelope = await run_flow(
        "  - {id: web, agent: scout}", ScriptedModel([message]), tools=[look], agents=agents
    )
    assert envelope.ok
    assert look.runs == [{"n": 1}]


async def test_an_undeclared_tool_is_refused_and_the_agent_continues() -> None:
    """G5: the session continues."""
    look = Act("look")
    model = ScriptedModel([call("look"), finish("ok")])
    envelope = await run_flow("  - {id: web, agent: scout}", model, tools=[look])
    assert envelope.ok
    assert look.runs == []
    assert '\\"look\\" is not declared by agent' in model.requests[1].messages[-1].content

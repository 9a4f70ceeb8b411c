"""The tool that puts a named agent to work, without an agent."""

from typing import Any

import pytest

from penstock.builtins.subagent import TOOLS
from penstock.core.call import Effect
from penstock.core.envelope import Json
from penstock.engine.ledger import Ledger
from penstock.testing.invocation import open_workbench
from penstock.tools.resources import Callbacks, SubagentRequest

(SUBAGENT,) = TOOLS


def test_a_crash_enters_it_again_and_an_agent_has_an_hour() -> None:
    spec = SUBAGENT.spec
    assert (spec.effect, spec.is_frame, spec.timeout_ms) == (Effect.WRITE, True, 3_600_000)
    assert (spec.direct_call, spec.is_global, spec.is_offered) == (False, False, True)


@pytest.mark.parametrize(
    ("input", "code"),
    [
        ({"agent": "a", "task": "t"}, "NOT_CONFIGURED"),
        ({"agent": "a", "task": "t", "inputs": {"n": "x"}}, "NOT_CONFIGURED"),
        ({"agent": "a"}, "INVALID_INPUT"),
        ({"agent": "a", "task": ""}, "INVALID_INPUT"),
        ({"agent": "", "task": "t"}, "INVALID_INPUT"),
        ({"agent": "a", "task": "t", "inputs": {"n": 1}}, "INVALID_INPUT"),
        ({"agent": "a", "task": "t", "model": "x"}, "INVALID_INPUT"),
    ],
)
async def test_the_input_schema_is_checked(input: dict[str, Any], code: str) -> None:
    """T20: "agent: string; task: string; inputs?: Record<string, string>"."""
    bench = await open_workbench(*TOOLS)
    envelope = await bench.call("subagent", input)
    assert envelope.error is not None
    assert envelope.error.code == code


async def test_an_agent_receives_no_secret_of_the_task() -> None:
    """Its input is recorded, and a model reads it."""
    told: list[Any] = []

    async def run_agent(request: SubagentRequest, ledger: Ledger) -> Json:
        told.append((request.task, request.inputs))
        return {"status": "done", "summary": "done"}

    bench = await open_workbench(*TOOLS, callbacks=Callbacks(run_agent=run_agent))
    (await bench.resources.secrets.load(bench.ledger, None)).redactor.add("token", "s3cr3t-value")
    given = {"agent": "a", "task": "use s3cr3t-value", "inputs": {"n": "s3cr3t-value"}}
    await bench.call("subagent", given)
    assert told == [("use [secret:token]", {"n": "[secret:token]"})]


def test_people_see_how_it_ended() -> None:
    assert SUBAGENT.preview({"status": "blocked", "summary": "no key"}) == "blocked: no key"

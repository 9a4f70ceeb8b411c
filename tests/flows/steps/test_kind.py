"""Kinds of steps: their fields, what a kind may leave out, and what visits receive."""

from typing import Any

import pytest

from penstock.flows.definition import StepRetry
from penstock.flows.steps.kind import AGENT, END, StepKind, needed, no_findings, step_field
from penstock.models.scripted import ScriptedModel
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.flows.texts import findings_of_step, step_of
from tests.kit.flows import WORKERS, by_task, flows_of, run_flow, see_through, steps, told_in


async def _visit(*_: object) -> Any:
    return None


def test_a_kind_without_checks_of_its_own_has_no_findings() -> None:
    nothing: Any = None
    kind = StepKind(step=nothing, fields=(), visit=_visit)
    assert kind.check is no_findings
    assert list(kind.check(nothing, nothing, nothing)) == []


def test_a_kind_without_completion_does_not_change_the_attributes() -> None:
    nothing: Any = None
    values = {"agent": "scout"}
    StepKind(step=nothing, fields=(), visit=_visit).complete(nothing, values)
    assert values == {"agent": "scout"}


MISSING = """
  - {id: ref, path: "${{result.no.path}}sub.yaml", inputs: {n: "x${{result.no.n}}"}}
  - {id: ask, question: "${{config.no}}?", branches: {Go: last}}
  - {id: last, agent: scout, task: "last ${{result.ref.own.summary}}"}
"""
SUB = "inputs: {n: {type: string}}\nsteps:\n  - {id: own, agent: scout, task: own}\n"


async def test_each_unresolved_placeholder_is_reported_once_across_reentered_visits() -> None:
    """V7: missing → empty text and an event `flow_warning {stepId, reference}`."""
    place = MemoryStorage(flows=flows_of(demo=steps(MISSING), sub=SUB))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        reply = await see_through(runtime, {"value": "Go"}, task="t")
        warnings = await told_in(runtime, "flow_warning")
    assert [(each["stepId"], each["reference"]) for each in warnings] == [
        ("ref", "${{result.no.path}}"),
        ("ref", "${{result.no.n}}"),
        ("ask", "${{config.no}}"),
    ]
    assert reply.envelope is not None
    assert reply.envelope.output["results"]["last"]["summary"] == "last own done done"


SKIPPED = """
  - {id: pick, check: task.summary, present: ref, absent: last}
  - {id: ref, path: sub.yaml}
  - id: last
    agent: scout
    task: "<${{result.ref.own.summary}}${{result.ref}}${{result.own.summary}}>"
  - id: said
    agent: scout
    blockedBy: [last]
    task: "${{result.ref.own.status}} ${{result.ref.status}}"
"""


async def test_results_of_a_skipped_reference_are_empty_without_a_warning() -> None:
    """V8: a skipped step: empty text, no warning; its `.status` is `skipped`."""
    place = MemoryStorage(flows=flows_of(demo=steps(SKIPPED), sub=SUB))
    model = ScriptedModel(by_task({}))
    async with memory_runtime(model=model, agents=WORKERS, place=place) as runtime:
        reply = await see_through(runtime, {}, task="t")
    assert reply.envelope is not None
    result = reply.envelope.output
    assert result["warnings"] == []
    assert result["results"]["last"]["summary"] == "<> done"
    assert result["results"]["said"]["summary"] == "skipped skipped done"


async def test_a_placeholder_that_names_nothing_is_a_warning_in_the_result() -> None:
    envelope = await run_flow(
        "  - {id: a, agent: scout, task: 'a${{result.b.x}}c'}", ScriptedModel(by_task({}))
    )
    assert envelope.output["results"]["a"]["summary"] == "ac done"
    assert envelope.output["warnings"] == ["${{result.b.x}} names nothing"]


def test_a_field_sets_the_attribute_of_its_name_unless_it_names_another() -> None:
    assert (AGENT.key, AGENT.attribute) == ("agent", "agent")
    assert (END.key, END.attribute) == ("end", "is_last")
    assert not step_field("reads", AGENT.value, "").attribute


def test_a_kind_can_require_a_field_that_others_leave_optional() -> None:
    assert needed(AGENT).is_needed
    assert not AGENT.is_needed


@pytest.mark.parametrize(
    ("retry", "expected"),
    [
        ("true", StepRetry(3, 60)),
        ("{}", StepRetry(3, 60)),
        ("{attempts: 10}", StepRetry(10, 60)),
        ("{attempts: 1, delay: 3600}", StepRetry(1, 3600)),
    ],
)
def test_retry_settings_are_parsed(retry: str, expected: StepRetry) -> None:
    """`true` = 3 and 60."""
    assert step_of(f"id: a, agent: b, retry: {retry}").retry == expected


@pytest.mark.parametrize(
    ("retry", "expected"),
    [
        (
            "3",
            ['error wrong-type: "steps.a.retry" must be true or {attempts, delay}, found number 3'],
        ),
        (
            "false",
            [
                (
                    'error bad-value: "steps.a.retry" must be true or {attempts, delay}, '
                    "found boolean false"
                )
            ],
        ),
        (
            "{attempts: 0}",
            [
                (
                    'error bad-value: "steps.a.retry.attempts" must be a whole number '
                    "from 1 to 10, found number 0"
                )
            ],
        ),
        (
            "{delay: 3601}",
            [
                (
                    'error bad-value: "steps.a.retry.delay" must be a whole number from '
                    "0 to 3600, found number 3601"
                )
            ],
        ),
        ("{tries: 3}", ['warning unknown-field: unknown field "tries" in retry']),
        (
            "{atempts: 3}",
            ['warning unknown-field: unknown field "atempts" in retry; did you mean "attempts"?'],
        ),
    ],
)
def test_invalid_retry_settings_are_reported(retry: str, expected: list[str]) -> None:
    assert findings_of_step(f"id: a, agent: b, retry: {retry}") == [
        f"4 {each}" for each in expected
    ]

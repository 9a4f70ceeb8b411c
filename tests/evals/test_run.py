"""Runs of a dataset: scored, repeated, compared, cut and continued."""

import asyncio
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anyio.lowlevel import checkpoint
from msgspec.structs import replace
from pydantic import BaseModel

import penstock
from penstock import Agent, Document, ToolContext, tool
from penstock.core.errors import ConfigError, NotFound
from penstock.core.limits import Limits
from penstock.core.reply import Reply
from penstock.evals.case import AnyScorer, Case, Score
from penstock.evals.dataset import Dataset
from penstock.evals.report import Attempt
from penstock.evals.run import evaluate, evaluate_sync
from penstock.evals.scorers import CalledTool, Contains, Equal, Judge, MaxCost, MaxTurns, _judge
from penstock.models.scripted import (
    SCRIPTED,
    Hold,
    ScriptedModel,
    ScriptedReply,
    call,
    fail,
    say,
    spend,
    wait,
)
from penstock.testing.runtime import MemoryStorage, memory_runtime


class Ticket(BaseModel):
    """A fault that somebody reported."""

    title: str
    severity: str


CLERK = Agent("clerk", tools=())
BURNS = Case("burns", input="It burns", expected="fire")
SLOW = Case("slow", input="It is slow", expected="delay")
QUICK = {"limits": {"shutdown_seconds": 0.01}}
BOTH = Dataset("faults", [BURNS, SLOW], scorers=[Equal()])


async def test_each_case_is_asked_and_scored() -> None:
    model = ScriptedModel({"burns": say("fire"), "slow": say("no idea")})
    async with memory_runtime(model=model) as runtime:
        report = await evaluate(BOTH, agent=CLERK, runtime=runtime)
    burns, slow = report.attempts
    assert (burns.case, burns.passed, burns.content, burns.reasons) == ("burns", True, "fire", "")
    assert (slow.case, slow.passed) == ("slow", False)
    assert slow.reasons == 'Equal(): expected "delay", found "no idea"'
    assert (report.dataset, report.agent, report.pass_rate) == ("faults", "clerk", 0.5)


async def test_a_typed_output_equals_the_object_that_a_file_names() -> None:
    model = ScriptedModel([call("final_answer", title="fire", severity="high")])
    case = Case("burns", input="It burns", expected={"title": "fire", "severity": "high"})
    agent = Agent("triage", tools=(), output=Ticket)
    async with memory_runtime(model=model) as runtime:
        dataset: Dataset[Any] = Dataset("tickets", [case], scorers=[Equal()])
        report = await evaluate(dataset, agent=agent, runtime=runtime)
    assert report.pass_rate == 1
    assert report.attempts[0].output == case.expected


async def test_cases_are_repeated_and_models_are_compared() -> None:
    seen: list[Attempt] = []
    async with memory_runtime(model=ScriptedModel({"": say("fire")})) as runtime:
        report = await evaluate(
            BOTH,
            agent=CLERK,
            runtime=runtime,
            repeat=3,
            concurrency=2,
            models=["scripted"],
            on_attempt=seen.append,
        )
    assert [(each.case, each.model, each.number) for each in report.attempts] == [
        (case, "scripted", number) for case in ("burns", "slow") for number in (1, 2, 3)
    ]
    assert {each.task_id for each in seen} == {each.task_id for each in report.attempts}
    assert len({each.session_id for each in report.attempts}) == 6


async def test_a_run_of_the_same_id_asks_no_finished_case_again() -> None:
    place, hold = MemoryStorage(limits=Limits(shutdown_seconds=0)), Hold()
    model = ScriptedModel({"": say("fire")})
    waiting = ScriptedModel({"burns": say("fire"), "slow": wait(hold) + say("delay")})
    async with memory_runtime(model=waiting, place=place) as runtime:
        run = asyncio.create_task(evaluate(BOTH, agent=CLERK, runtime=runtime, run_id="r1"))
        await hold.reached()
        run.cancel()
    async with memory_runtime(model=model, place=place) as runtime:
        report = await evaluate(BOTH, agent=CLERK, runtime=runtime, run_id="r1")
    asked = [request.messages[-1].content for request in model.requests]
    assert asked == ["It is slow"]
    assert [each.case for each in report.attempts if each.passed] == ["burns"]


async def test_a_run_that_was_cut_goes_on_without_an_id(tmp_path: Path) -> None:
    hold, seen = Hold(), list[Attempt]()
    waiting = ScriptedModel({"burns": say("fire"), "slow": wait(hold) + say("delay")})
    async with penstock.open(tmp_path, model=waiting, settings=QUICK) as runtime:
        run = asyncio.create_task(evaluate(BOTH, agent=CLERK, runtime=runtime))
        await hold.reached()
        run.cancel()
    model = ScriptedModel({"": say("fire")})
    async with penstock.open(tmp_path, model=model, settings=QUICK, resume=False) as runtime:
        report = await evaluate(BOTH, agent=CLERK, runtime=runtime, on_attempt=seen.append)
        assert [request.messages[-1].content for request in model.requests] == ["It is slow"]
        assert [each.passed for each in report.attempts] == [True, False]
        later = await evaluate(BOTH, agent=CLERK, runtime=runtime)
    assert later.run_id != report.run_id
    assert len(model.requests) == 3


async def test_a_run_goes_on_only_if_it_asks_the_same(tmp_path: Path) -> None:
    def mistaken(case: Case[Any], reply: Reply[Any]) -> bool:
        raise ZeroDivisionError

    brief = Agent("clerk", tools=(), instructions="Be brief.")
    rows: dict[str, tuple[Case[Any], Agent[object, str], bool]] = {
        "the same": (BURNS, CLERK, False),
        "a mended scorer": (Case("burns", input="It burns", scorers=[Equal()]), CLERK, False),
        "a new run": (BURNS, CLERK, True),
        "another agent": (BURNS, brief, False),
        "another input": (Case("burns", input="It smokes"), CLERK, False),
        "another file": (Case("burns", input=["It burns", Document(b"a,c")]), CLERK, False),
        "other answers": (Case("burns", input="It burns", approve=True), CLERK, False),
    }
    model, asked = ScriptedModel({"": say("fire")}), list[str]()
    async with penstock.open(tmp_path, model=model, settings=QUICK) as runtime:
        for name, (case, agent, is_new) in rows.items():
            with pytest.raises(ZeroDivisionError):
                cut = Dataset(name, [BURNS], scorers=[mistaken])
                await evaluate(cut, agent=CLERK, runtime=runtime)
            before = len(model.requests)
            await evaluate(Dataset(name, [case]), agent=agent, runtime=runtime, new=is_new)
            asked += [name] * (len(model.requests) - before)
    assert asked == [name for name in rows if name not in {"the same", "a mended scorer"}]


async def test_a_case_that_changed_needs_another_run_id() -> None:
    async with memory_runtime(model=ScriptedModel({"": say("fire")})) as runtime:
        await evaluate(BOTH, agent=CLERK, runtime=runtime, run_id="r1")
        changed = Dataset("faults", [Case("burns", input="It smokes")])
        report = await evaluate(changed, agent=CLERK, runtime=runtime, run_id="r1")
    assert "IDEMPOTENCY_CONFLICT" in (report.attempts[0].error or "")


async def test_a_task_that_fails_has_not_passed_and_says_why() -> None:
    async with memory_runtime(model=ScriptedModel({"": fail(400, "no such model")})) as runtime:
        report = await evaluate(BOTH, agent=CLERK, runtime=runtime)
    assert [each.status for each in report.attempts] == ["failed", "failed"]
    assert all("no such model" in (each.error or "") for each in report.attempts)


@tool(requires_approval=True)
def refund(order: int) -> str:
    """Refund an order."""
    return f"refunded {order}"


REFUND = Agent("cashier", tools=[refund])


async def test_approvals_are_granted_only_if_the_case_says_so() -> None:
    model = ScriptedModel({"order": [call("refund", order=7), say("Done.")]})
    scorers: list[AnyScorer[Any]] = [CalledTool("refund", order=7), Contains("Done")]
    cases = [
        Case("granted", input="Refund order 7", approve=True),
        Case("asks", input="Refund order 7, please"),
    ]
    async with memory_runtime(model=model) as runtime:
        report = await evaluate(
            Dataset("refunds", cases, scorers=scorers), agent=REFUND, runtime=runtime
        )
        questions = await runtime.questions()
    granted, asks = report.attempts
    assert (granted.passed, granted.reasons) == (True, "")
    assert (asks.status, asks.passed) == ("suspended", False)
    assert "`approve: true` grants approvals" in (asks.error or "")
    assert list(questions) == []


async def test_an_answer_that_does_not_fit_is_the_error_of_its_attempt() -> None:
    """Its task is cancelled: the question would stay open."""
    model = ScriptedModel({"order": [call("refund", order=7), say("Done.")]})
    cases = [
        Case("wrong", input="Refund order 7", answers=[{"value": 3}]),
        Case("too few", input="Refund order 7!", answers=[]),
    ]
    async with memory_runtime(model=model) as runtime:
        report = await evaluate(Dataset("refunds", cases), agent=REFUND, runtime=runtime)
        assert list(await runtime.questions()) == []
    wrong, too_few = report.attempts
    assert "INVALID_ANSWER" in (wrong.error or "")
    assert "`answers` has its answers" in (too_few.error or "")


SCORES: dict[str, tuple[Any, bool, float]] = {
    "a bool": (lambda case, reply: case.name == reply.content, False, 0.0),
    "a number": (lambda case, reply: 0.75, True, 0.75),
    "a score": (lambda case, reply: Score(0.9, "rude", passed=False), False, 0.9),
}


@pytest.mark.parametrize("name", SCORES)
async def test_a_scorer_is_any_function_of_a_case_and_its_reply(name: str) -> None:
    scorer, passed, value = SCORES[name]
    async with memory_runtime(model=ScriptedModel([say("fire")])) as runtime:
        dataset = Dataset("faults", [BURNS], scorers=[scorer])
        report = await evaluate(dataset, agent=CLERK, runtime=runtime)
    (grade,) = report.attempts[0].grades
    assert (grade.passed, grade.value) == (passed, value)


UNSCORED: dict[str, tuple[dict[str, Any], bool, Any]] = {
    "what is expected is compared": ({"expected": "smoke"}, False, ["Equal()"]),
    "and passes if it is equal": ({"expected": "fire"}, True, ["Equal()"]),
    "its own scorer is enough": (
        {"expected": "smoke", "scorers": [MaxTurns(1)]},
        True,
        ["MaxTurns(turns=1)"],
    ),
    "nothing judges it": ({}, True, []),
}


@pytest.mark.parametrize("name", UNSCORED)
async def test_a_case_without_a_scorer_is_compared_with_what_it_expects(name: str) -> None:
    options, passed, scorers = UNSCORED[name]
    dataset = Dataset("faults", [Case("burns", input="It burns", **options)])
    async with memory_runtime(model=ScriptedModel([say("fire")])) as runtime:
        report = await evaluate(dataset, agent=CLERK, runtime=runtime)
    (attempt,) = report.attempts
    assert (attempt.passed, [each.scorer for each in attempt.grades]) == (passed, scorers)
    assert report.unjudged == ([] if scorers else ["burns"])


async def test_a_scorer_may_be_async() -> None:
    async def later(case: Case[Any], reply: Reply[Any]) -> bool:
        await checkpoint()
        return reply.content == case.expected

    async with memory_runtime(model=ScriptedModel([say("fire")])) as runtime:
        report = await evaluate(
            Dataset("faults", [BURNS], scorers=[later]), agent=CLERK, runtime=runtime
        )
    assert [each.scorer for each in report.attempts[0].grades] == ["later"]
    assert report.pass_rate == 1


async def test_a_scorer_that_raises_ends_the_run_and_the_next_one_goes_on() -> None:
    def broken(case: Case[Any], reply: Reply[Any]) -> bool:
        raise LookupError(case.name)

    model = ScriptedModel([say("fire")])
    async with memory_runtime(model=model) as runtime:
        with pytest.raises(LookupError, match="burns"):
            dataset = Dataset("faults", [BURNS], scorers=[broken])
            await evaluate(dataset, agent=CLERK, runtime=runtime, run_id="r1")
        mended = Dataset("faults", [BURNS], scorers=[Equal()])
        report = await evaluate(mended, agent=CLERK, runtime=runtime, run_id="r1")
    assert (report.pass_rate, len(model.requests)) == (1, 1)


async def test_cost_and_turns_are_bounded_by_the_usage_of_the_task() -> None:
    model = ScriptedModel([say("fire") + spend(10, 2, 0.25), say("delay") + spend(10, 2)])
    dataset = Dataset("faults", [BURNS, SLOW], scorers=[MaxCost(0.2), MaxTurns(1)])
    async with memory_runtime(model=model) as runtime:
        report = await evaluate(dataset, agent=CLERK, runtime=runtime, concurrency=1)
    dear, unknown = report.attempts
    assert dear.reasons == "MaxCost(usd=0.2): expected at most 0.2 USD, found 0.25"
    assert "the cost is unknown" in unknown.reasons


async def test_a_judge_gives_a_typed_verdict_and_is_not_asked_again() -> None:
    replies: Iterator[ScriptedReply] = iter(
        [
            say("fire") + spend(5, 1, 0.5),
            call("final_answer", reason="It names the cause.", passed=True) + spend(70, 9, 0.25),
        ]
    )
    model = ScriptedModel(lambda request: next(replies))
    dataset = Dataset("faults", [BURNS], scorers=[Judge("scripted", "Names the cause.")])
    async with memory_runtime(model=model) as runtime:
        reports = [
            await evaluate(dataset, agent=CLERK, runtime=runtime, run_id="r1") for _ in range(2)
        ]
    (grade,) = reports[0].attempts[0].grades
    assert (grade.passed, grade.reason) == (True, "It names the cause.")
    assert reports[1].attempts == reports[0].attempts
    assert (reports[0].usage.cost_usd, reports[0].usage.input_tokens) == (0.5, 5)
    assert (judging := reports[1].judging)
    assert (judging.cost_usd, judging.input_tokens, judging.model_calls) == (0.25, 70, 1)
    assert '"answer":"fire"' in model.requests[1].messages[-1].content.replace(" ", "")


@pytest.mark.parametrize(
    "names", [("kind", "strict"), ("v.2", "v-2"), (f"{'m' * 70}1", f"{'n' * 70}1"), ("ü", "模")]
)
async def test_judges_with_one_rubric_are_each_asked(names: tuple[str, str]) -> None:
    """Also if the rubric is longer than the key of a message may be."""
    judged = dict(zip(names, (True, False), strict=True))
    models = [
        ScriptedModel(
            [call("final_answer", reason=name, passed=passed)],
            card=replace(SCRIPTED, model_id=f"judges:{name}"),
        )
        for name, passed in judged.items()
    ]
    scorers = [Judge(f"judges:{name}", "Names the cause. " * 100) for name in judged]
    async with memory_runtime(model=ScriptedModel([say("fire")])) as runtime:
        for model in models:
            runtime.parts.chat.models.add(model)
        dataset = Dataset("faults", [BURNS], scorers=scorers)
        report = await evaluate(dataset, agent=CLERK, runtime=runtime)
    grades = report.attempts[0].grades
    assert [(each.reason, each.passed) for each in grades] == [*judged.items()]


@pytest.mark.parametrize(
    ("model", "found"), [("quick", "'quick', the offline one"), ("smal", "smal")]
)
async def test_a_judge_that_cannot_judge_is_refused_before_any_case_is_asked(
    tmp_path: Path, model: str, found: str
) -> None:
    settings = {"models": {"quick": {"provider": "offline"}}, "synchronous": "NORMAL"}
    case = Case("burns", input="It burns", scorers=[Judge(model, "Names the cause.")])
    async with penstock.open(tmp_path, settings=settings) as runtime:
        with pytest.raises(ConfigError, match=found):
            await evaluate(Dataset("faults", [case]), agent=CLERK, runtime=runtime)
        assert not await runtime.sessions()


@pytest.mark.parametrize("value", [7.0, -1, math.nan, None, "good"])
async def test_a_scorer_that_returns_no_score_ends_the_run_with_its_name(value: Any) -> None:
    def polite(case: Case[Any], reply: Reply[Any]) -> Any:
        return value

    dataset = Dataset("faults", [BURNS], scorers=[polite])
    async with memory_runtime(model=ScriptedModel([say("fire")])) as runtime:
        with pytest.raises(ConfigError, match=f"polite returned {value!r}: .* from 0 to 1 or a Sc"):
            await evaluate(dataset, agent=CLERK, runtime=runtime)


async def test_an_agent_that_lacks_its_dependencies_is_refused_before_any_case_is_asked() -> None:
    @tool(effect="read")
    def look(ctx: ToolContext[int]) -> str:
        """Look."""
        return str(ctx.deps)

    async with memory_runtime() as runtime:
        with pytest.raises(ConfigError, match="look"):
            await evaluate(BOTH, agent=Agent("clerk", tools=[look]), runtime=runtime)


def test_a_judge_is_one_agent_for_each_model() -> None:
    assert _judge("openai:gpt-5").name == "judge-openai-gpt-5"
    assert _judge("openai:gpt-5") is _judge("openai:gpt-5")


@pytest.mark.parametrize(("repeat", "concurrency"), [(0, 1), (1, 0)])
async def test_a_run_needs_a_repetition_and_a_slot(repeat: int, concurrency: int) -> None:
    async with memory_runtime() as runtime:
        with pytest.raises(ConfigError, match="at least 1"):
            await evaluate(
                BOTH, agent=CLERK, runtime=runtime, repeat=repeat, concurrency=concurrency
            )


async def test_an_unknown_agent_or_model_is_named_before_any_case_is_asked() -> None:
    async with memory_runtime() as runtime:
        with pytest.raises(ConfigError, match="there is no model 'smal'"):
            await evaluate(BOTH, agent=CLERK, runtime=runtime, models=["offline", "smal"])
        assert not await runtime.sessions()
        with pytest.raises(NotFound, match="no agent 'cleark'"):
            await evaluate(BOTH, agent="cleark", runtime=runtime)


async def test_a_script_evaluates_without_async_even_inside_a_loop(tmp_path: Path) -> None:
    clerk = Agent("clerk", model=ScriptedModel({"": say("fire")}), tools=())
    reports = [
        evaluate_sync(BOTH, agent=clerk, path=tmp_path, run_id="r1", concurrency=1)
        for _ in range(2)
    ]
    assert reports[0].attempts == reports[1].attempts
    assert reports[0].failed == ["slow"]

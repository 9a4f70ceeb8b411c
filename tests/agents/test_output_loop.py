"""Tasks with a typed output: attempts, corrections, calls beside the answer, and their ends."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

import pytest
from msgspec import Struct
from msgspec.structs import replace
from pydantic import AfterValidator, BaseModel

from penstock.agents.agent import Agent, ChatSettings
from penstock.chat.requests import NewMessage, TaskReply
from penstock.core.call_errors import ModelRetry
from penstock.core.events.events import (
    CallSettled,
    Event,
    NoteEmitted,
    ReplyReceived,
    TaskEnded,
    TaskStarted,
)
from penstock.core.events.flow_events import AgentReminded
from penstock.core.messages import UserMessage
from penstock.core.task import TaskOutput, TaskStatus
from penstock.models.scripted import (
    SCRIPTED,
    Script,
    ScriptedModel,
    ScriptedReply,
    call,
    raw_call,
    say,
    spend,
)
from penstock.testing.runtime import memory_runtime
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import tool
from tests.kit.assistant import assert_whole
from tests.kit.logs import events as events_of


class Ticket(BaseModel):
    """A report of a fault."""

    title: str
    severity: Literal["low", "high"]


class Spam(BaseModel):
    """No report."""

    reason: str


LOW = {"title": "fire", "severity": "low"}
FITS = call("final_answer", title="fire", severity="low")
WRONG = call("final_answer", title="fire", severity="bad")
BURNS = "The printer burns"


class Done(Struct):
    """What came of a message."""

    reply: TaskReply
    events: list[Event]
    model: ScriptedModel
    agent: Agent

    @property
    def value(self) -> Any:
        """The typed output."""
        assert self.reply.output is not None, self.reply
        assert self.agent.contract is not None
        return self.agent.contract.read(self.reply.output)

    def of(self, kind: type[Any]) -> list[Any]:
        """Return the events of a kind."""
        return [each for each in self.events if isinstance(each, kind)]


RUNS: list[str] = []


@tool(effect="write")
def refund(order: int) -> str:
    """Refund an order."""
    RUNS.append(f"refund {order}")
    return "refunded"


@tool(effect="read")
def look(order: int) -> str:
    """Look up an order."""
    RUNS.append(f"look {order}")
    return f"order {order} is fine"


async def ask(output: Any, script: Script | ScriptedModel, **options: Any) -> Done:
    """Send one message to an agent with this output."""
    RUNS.clear()
    model = script if isinstance(script, ScriptedModel) else ScriptedModel(script)
    schema = options.pop("output_schema", None)
    options.setdefault("tools", [refund, look])
    agent = Agent("triage", model=model, output=output, **options)
    async with memory_runtime(agents=[agent]) as runtime:
        message = NewMessage(content=BURNS, agent="triage", output_schema=schema)
        sent = await runtime.requests.send(message)
        reply = await runtime.requests.wait(sent.task_id)
        assert reply is not None
        events = await events_of(runtime, reply.session_id)
    for request in model.requests:
        assert_whole(request)
    return Done(reply, events, model, agent)


async def test_an_output_that_fits_ends_the_task() -> None:
    done = await ask(Ticket, [FITS])
    assert done.reply.status is TaskStatus.SUCCEEDED
    assert done.value == Ticket(title="fire", severity="low")
    assert done.reply.content == '{"title":"fire","severity":"low"}'
    (started,) = done.of(TaskStarted)
    assert started.agent_schema == done.agent.contract.schema  # type: ignore[union-attr]
    (settled,) = done.of(CallSettled)
    assert (settled.context, settled.ran) == ("Accepted.", False)
    (ended,) = done.of(TaskEnded)
    assert ended.output == TaskOutput(value=LOW, type_name="Ticket")
    offered = [each.name for each in done.model.requests[0].tools]
    assert offered == ["refund", "look", "final_answer"]


async def test_the_text_beside_the_call_is_the_content() -> None:
    done = await ask(Ticket, [say("Here you are.") + FITS])
    assert done.reply.content == "Here you are."
    assert done.value == Ticket(title="fire", severity="low")


async def test_wrong_twice_then_right_takes_three_replies() -> None:
    missing = call("final_answer", title="fire")
    done = await ask(Ticket, [WRONG + spend(1, 1), missing + spend(2, 2), FITS + spend(4, 4)])
    assert done.value == Ticket(title="fire", severity="low")
    assert len(done.of(ReplyReceived)) == 3
    usage = done.reply.usage
    assert (usage.input_tokens, usage.output_tokens, usage.model_calls) == (7, 7, 3)
    read = [message.content for message in done.model.requests[2].messages]
    assert '"/severity","message":"\\"bad\\" is not one of' in read[2]
    assert "/severity: is required" in read[4]


async def test_three_wrong_answers_fail_the_task_with_the_problems() -> None:
    done = await ask(Ticket, [WRONG] * 3)
    error = done.reply.error
    assert done.reply.status is TaskStatus.FAILED
    assert done.reply.output is None
    assert error
    assert error.code == "INVALID_OUTPUT"
    assert error.message.startswith("3 answers did not fit the output's schema: /severity: ")
    assert error.details == {
        "problems": [{"path": "/severity", "message": '"bad" is not one of "low" or "high"'}],
        "text": '{"title":"fire","severity":"bad"}',
    }


@pytest.mark.parametrize("retries", [0, 1, 4])
async def test_the_number_of_corrections_is_the_agent_s(retries: int) -> None:
    done = await ask(Ticket, [WRONG] * 5, output_retries=retries)
    assert len(done.model.requests) == retries + 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("Ticket", Ticket(title="fire", severity="low")), ("Spam", Spam(reason="ad"))],
)
async def test_each_member_of_a_union_has_its_own_tool(name: str, value: BaseModel) -> None:
    done = await ask(Ticket | Spam, [call(f"final_answer_{name}", **value.model_dump())])
    assert done.value == value
    match done.value:
        case Ticket(severity=severity):
            assert severity == "low"
        case Spam(reason=reason):
            assert reason == "ad"


async def test_a_write_beside_the_answer_does_not_run_and_the_model_must_choose() -> None:
    both = call("look", order=7) + call("refund", order=7) + FITS
    done = await ask(Ticket, [both, call("refund", order=7), FITS])
    assert sorted(RUNS) == ["look 7", "refund 7"]
    assert done.value == Ticket(title="fire", severity="low")
    read = [message.content for message in done.model.requests[1].messages]
    assert read[2] == "order 7 is fine"
    for text in read[3:]:
        assert "final_answer ends the work, so it cannot come in one reply with refund" in text
    assert len(done.model.requests) == 3


async def test_reads_beside_the_answer_run_first_and_their_results_are_noted_as_unused() -> None:
    done = await ask(Ticket, [FITS + call("look", order=7)])
    assert RUNS == ["look 7"]
    (note,) = done.of(NoteEmitted)
    assert note.event_type == "output.results_unused"
    assert "look" in note.message
    assert [each.tool_id for each in done.of(CallSettled)] == ["look", "final_answer"]


async def test_only_the_first_of_two_answers_counts() -> None:
    other = call("final_answer", title="ice", severity="high")
    done = await ask(Ticket, [FITS + other])
    assert done.value == Ticket(title="fire", severity="low")
    refused = done.of(CallSettled)[1]
    assert refused.envelope.error.message.startswith("An answer was accepted before this call")


TEXTS: list[tuple[str, list[ScriptedReply], int]] = [
    ("tool", [say("I think so."), FITS], 2),
    ("tool", [say('{"title":"fire","severity":"low"}')], 1),
    ("prompted", [say("Hm."), say('```json\n{"title":"fire","severity":"low"}\n```')], 2),
    ("native", [say('{"title":"fire"}'), say('{"title":"fire","severity":"low"}')], 2),
]


@pytest.mark.parametrize(("mode", "script", "count"), TEXTS)
async def test_an_answer_in_text_is_read_or_followed_by_a_reminder(
    mode: str, script: Sequence[ScriptedReply], count: int
) -> None:
    card = replace(SCRIPTED, json_schema=True)
    done = await ask(Ticket, ScriptedModel(script, card=card), output_mode=mode, tools=[])
    assert done.value == Ticket(title="fire", severity="low")
    assert len(done.model.requests) == count
    reminders = done.of(AgentReminded)
    assert len(reminders) == count - 1
    for reminder in reminders:
        assert reminder.message.startswith("Your answer was not accepted: ")
        assert done.model.requests[1].messages[-1] == UserMessage(reminder.message, is_note=True)


async def test_a_server_that_ignores_the_format_gets_the_problems_and_corrects_them() -> None:
    """Native mode: the answer is validated here, whatever the provider promises."""
    script = [
        say("It burns."),
        say('{"title":"fire","severity":"bad"}'),
        say('{"title":"fire","severity":"low"}'),
    ]
    model = ScriptedModel(script, card=replace(SCRIPTED, json_schema=True))
    done = await ask(Ticket, model, output_mode="native")
    assert done.value == Ticket(title="fire", severity="low")
    for request in model.requests:
        assert request.output
        assert request.output.schema["required"] == ["title", "severity"]
        assert [each.name for each in request.tools] == ["refund", "look"]
    assert '/severity: "bad" is not one of' in model.requests[2].messages[-1].content


@pytest.mark.parametrize(("can_force", "choice"), [(True, "required"), (False, None)])
async def test_a_model_that_can_be_forced_must_call_a_tool(
    can_force: bool, choice: str | None
) -> None:
    card = replace(SCRIPTED, forced_tool_choice=can_force)
    done = await ask(Ticket, ScriptedModel([FITS], card=card))
    assert done.model.requests[0].tool_choice == choice


async def test_the_prompt_of_a_prompted_agent_contains_the_schema() -> None:
    model = ScriptedModel([say('{"title":"fire","severity":"low"}')])
    done = await ask(Ticket, model, output_mode="prompted", instructions="Be brief.")
    (request,) = done.model.requests
    assert request.system.startswith("Be brief.")
    assert '"severity":{"enum":["low","high"],"type":"string"}' in request.system


async def test_a_validator_can_ask_for_another_answer() -> None:
    def known(order: int) -> int:
        if order != 7:
            raise ModelRetry("There is only order 7.")
        return order

    output = Annotated[int, AfterValidator(known)]
    done = await ask(output, [call("final_answer", value=3), call("final_answer", value=7)])
    assert done.value == 7
    assert "There is only order 7." in done.model.requests[1].messages[-1].content


async def test_an_output_function_runs_once_and_its_result_is_the_output() -> None:
    def book(ctx: ToolContext, title: str) -> Ticket:
        """Book a repair."""
        RUNS.append(f"book {title}")
        if title == "ice":
            raise ModelRetry("Ice does not burn.")
        return Ticket(title=f"{title} {ctx.attempt}", severity="high")

    script = [call("final_answer", name="x"), call("final_answer", title="ice")]
    done = await ask(book, [*script, call("final_answer", title="fire")])
    assert done.value == Ticket(title="fire 1", severity="high")
    assert RUNS == ["book ice", "book fire"]
    assert "Ice does not burn." in done.model.requests[2].messages[-1].content


async def test_the_whole_result_of_an_output_function_is_the_output() -> None:
    def long() -> str:
        """Write."""
        return "x" * 30_000

    done = await ask(long, [call("final_answer")])
    assert done.value == "x" * 30_000


async def test_an_output_function_that_fails_is_reported_to_the_model() -> None:
    def book(title: str) -> Ticket:
        """Book."""
        raise OSError("no paper")

    done = await ask(book, [call("final_answer", title="a"), WRONG, WRONG, WRONG])
    assert "no paper" in done.model.requests[1].messages[-1].content
    assert done.reply.error
    assert done.reply.error.code == "INVALID_OUTPUT"


async def test_a_schema_of_the_message_replaces_the_output_of_the_agent() -> None:
    def book(title: str) -> Ticket:
        """Book."""
        raise AssertionError(title)

    schema = {"type": "array", "items": {"type": "integer"}}
    done = await ask(book, [call("final_answer", value=[1, 2])], output_schema=schema)
    assert done.reply.output == TaskOutput(value=[1, 2])
    (started,) = done.of(TaskStarted)
    assert started.agent_schema is None, "the message has it"


async def test_broken_arguments_are_an_attempt() -> None:
    done = await ask(Ticket, [raw_call("final_answer", '{"title": ')] * 3)
    assert done.reply.error
    assert done.reply.error.code == "INVALID_OUTPUT"
    assert done.reply.error.details
    assert done.reply.error.details["text"] == '{"title": '


JSON = say('{"title":"fire","severity":"low"}')


@pytest.mark.parametrize(
    ("output", "mode", "forced", "answer", "choice"),
    [
        (Ticket, "tool", True, FITS, "final_answer"),
        (Ticket, "tool", False, FITS, None),
        (Ticket | Spam, "tool", True, call("final_answer_Ticket", **LOW), "required"),
        (Ticket, "native", True, JSON, "none"),
        (Ticket, "prompted", False, JSON, "none"),
    ],
)
async def test_after_the_last_turn_only_the_answer_may_be_given(
    output: Any, mode: str, *, forced: bool, answer: ScriptedReply, choice: str | None
) -> None:
    """Models §2.3, rule 4: each request begins with the one before, with its prompt and tools."""
    settings = ChatSettings(max_iterations=2)
    looks = [call("look", order=1), call("look", order=2)]
    card = replace(SCRIPTED, json_schema=True, forced_tool_choice=forced)
    script = ScriptedModel([*looks, call("look", order=3), answer], card=card)
    done = await ask(output, script, output_mode=mode, settings=settings)
    assert done.value == Ticket(title="fire", severity="low")
    assert RUNS == ["look 1", "look 2"]
    requests = done.model.requests
    for each in requests:
        assert (each.system, each.tools) == (requests[0].system, requests[0].tools)
    for before, after in pairwise(requests):
        assert [*after.messages][: len(before.messages)] == [*before.messages]
    assert [each.tool_choice for each in requests[2:]] == [choice] * 2
    assert requests[2].messages[-1].content.startswith("No other tools are left")
    (reminder,) = done.of(AgentReminded)
    assert reminder.is_note


async def test_a_model_that_never_answers_fails_after_the_last_turns() -> None:
    settings = ChatSettings(max_iterations=2, loop_max_repeats=0, loop_cycles=False)
    looks = [call("look", order=number) for number in range(9)]
    done = await ask(Ticket, looks, settings=settings)
    assert done.reply.error
    assert done.reply.error.code == "INVALID_OUTPUT"
    assert len(done.model.requests) == 5
    assert len(RUNS) == 2


async def test_the_loop_guard_closes_the_other_tools() -> None:
    same = [call("look", order=1)] * 4
    done = await ask(Ticket, [*same, FITS])
    assert done.value == Ticket(title="fire", severity="low")
    assert [each.is_note for each in done.of(AgentReminded)] == [True]


async def test_a_spent_budget_fails_the_task() -> None:
    settings = ChatSettings(budget_model_calls=1)
    done = await ask(Ticket, [WRONG, FITS], settings=settings)
    assert done.reply.error
    assert done.reply.error.code == "BUDGET_EXCEEDED"

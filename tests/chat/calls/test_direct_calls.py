"""Slash commands: each answers without a model."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.app.runtime import Runtime
from penstock.builtins import TOOLS
from penstock.chat.requests import NewMessage, TaskReply
from penstock.core.call import Effect
from penstock.core.errors import InvalidRequest, QuestionOpen
from penstock.core.events.events import TaskStarted
from penstock.core.ids import ProfileId, SessionId
from penstock.core.limits import Limits
from penstock.core.messages import AssistantMessage, UserMessage
from penstock.core.profile import CHAT, Profile
from penstock.core.task import QuestionKind, TaskStatus
from penstock.models.scripted import ScriptedModel, call, say
from penstock.store.projections import Page, TasksOf
from penstock.testing.runtime import MemoryStorage, memory_runtime
from tests.kit.asking import ask
from tests.kit.flows import WORKERS, by_task, finish, flows_of
from tests.kit.logs import events, kinds
from tests.kit.tools import Act, Gate, echo

CLERK = Profile(profile_id=ProfileId("clerk"), permissions=frozenset({CHAT}))
NUMBER = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}

BILL = {
    "type": "object",
    "required": ["customer"],
    "properties": {
        "customer": {"type": "string"},
        "amount": {"type": "number", "minimum": 0},
        "draft": {"type": "boolean"},
    },
    "additionalProperties": False,
}


APPLY = "steps:\n  - {id: apply, agent: writer}\n"
NEEDY = f"task_required: true\n{APPLY}"
BROKEN = APPLY.replace("agent: writer", "agnet: writer")


def tools() -> list[Act]:
    """Tools of every kind."""
    return [
        Act("look", echo, direct_call=True),
        Act("count", echo, direct_call=True, input_schema=NUMBER),
        Act("locked", direct_call=True, requires_permissions=frozenset({"root"})),
        Act("bill", echo, direct_call=True, input_schema=BILL),
        Act("hidden"),
    ]


async def answer_to(content: str, **opened: Any) -> tuple[TaskReply, list[Any]]:
    """Send one message; return the answer, and the requests to the model."""
    model = ScriptedModel({"": say("Hello.")})
    async with memory_runtime(model=model, **{"tools": tools()} | opened) as runtime:
        return await ask(runtime, content, profile=CLERK), model.requests


UNKNOWN = (
    'Unknown command "/foo". Known commands: /call, /web, /new. '
    "Begin with // to send the text as it is."
)
ANSWERS = [
    ("/call look", '{\n  "status": "success",\n  "output": {}\n}'),
    ('/call look {"a": [1]}', '"a": [\n      1\n    ]'),
    ("/call look a=1 b=x", '"a": 1,\n    "b": "x"'),
    ("/call\ncount\nn=5", '"n": 5'),
    (
        "/call count n=x",
        """validation_error: input of "count" is not valid: /n: "x" is not an integer
usage: /call count n=<integer>""",
    ),
    ('/call count {"n": "x"}', '/n: "x" is not of type "integer"\nusage: /call count n=<integer>'),
    ("/call count {", "/: is not JSON: "),
    ('/call bill {"customr": 5}', "'customr' was unexpected)\nusage: /call bill customer=<string>"),
    (
        '/call bill {"amount": "q"}',
        ': /customer: is required; /amount: "q" is not of type "number"',
    ),
    ("/call bill amount=q draft=3", '/amount: "q" is not a number; /draft: "3" is not true or'),
    ("/call bill draft=true amount=-1", "/customer: is required; /amount: -1 is less than the"),
    ("/call coun", 'TOOL_NOT_FOUND: no direct-call tool "coun"; did you mean "count"?'),
    ("/call hidden", 'TOOL_NOT_FOUND: no direct-call tool "hidden"'),
    ("/call nothing a=1", 'TOOL_NOT_FOUND: no direct-call tool "nothing"'),
    ("/call locked", 'NOT_PERMITTED: "locked" needs the permission root'),
    ("/web https://penstock.example what?", "NOT_AVAILABLE: "),
    ("/web", "NOT_AVAILABLE: links need a database"),
    ("/new", "What was said before is not read any more"),
    ("/foo bar", UNKNOWN),
    ("/", 'Unknown command "/"'),
]


@pytest.mark.parametrize(("content", "answer"), ANSWERS)
async def test_a_command_answers_without_a_model(content: str, answer: str) -> None:
    """Spec: "A user message whose first character is `/` is a command and makes no model call"."""
    reply, requests = await answer_to(content)
    assert answer in reply.content
    assert (reply.status, reply.finish_reason) == (TaskStatus.SUCCEEDED, "stop")
    assert (requests, reply.usage.model_calls, reply.iterations) == ([], 0, 0)


async def test_two_slashes_are_text_for_the_model() -> None:
    """Spec: "`//x` is sent to the model as `/x`"."""
    reply, (request,) = await answer_to("//call look")
    assert reply.content == "Hello."
    assert list(request.messages) == [UserMessage("/call look")]


async def test_the_callable_tools_are_listed() -> None:
    reply, _ = await answer_to("/call")
    assert reply.content.splitlines() == [
        "Direct-call tools:",
        "- bill: Does bill. (needs: customer)",
        "- count: Does count. (needs: n)",
        "- look: Does look. (no input needed)",
    ]
    nothing, _ = await answer_to("/call", tools=())
    assert nothing.content == "No direct-call tools are available."


async def test_a_command_and_its_answer_are_ordinary_messages_of_the_history() -> None:
    model = ScriptedModel({"": say("Hello.")})
    async with memory_runtime(model=model, tools=tools()) as runtime:
        first = await ask(runtime, "/call look")
        await ask(runtime, "What was that?", session=first.session_id)
    (request,) = model.requests
    assert list(request.messages) == [
        UserMessage("/call look"),
        AssistantMessage(first.content),
        UserMessage("What was that?"),
    ]


async def test_a_long_outcome_is_clipped_as_for_the_agent() -> None:
    reply, _ = await answer_to(f"/call look a={'x' * 20_000}")
    assert len(reply.content) < 11_000
    assert reply.content.startswith('success: {"a":"xxx')


async def test_after_new_the_model_reads_no_earlier_message() -> None:
    """Spec: "a fresh task: later messages do not see earlier ones"."""
    model = ScriptedModel({"": say("Hello.")})
    async with memory_runtime(model=model) as runtime:
        session_id = (await ask(runtime, "One")).session_id
        new = await ask(runtime, "/new", session=session_id)
        await ask(runtime, "Two", session=session_id)
        suspended = await ask(runtime, "/new Three", session=session_id)
        history = await runtime.parts.storage.projections.find_session(session_id)
    assert [list(each.messages) for each in model.requests[1:]] == [
        [UserMessage("/new"), AssistantMessage(new.content), UserMessage("Two")],
        [UserMessage("Three")],
    ]
    assert (suspended.content, suspended.usage.model_calls) == ("Hello.", 1)
    assert history
    assert history.message_count == 8


async def test_answering_an_earlier_message_again_undoes_a_fresh_start() -> None:
    model = ScriptedModel({"": say("Hello.")})
    async with memory_runtime(model=model) as runtime:
        one = await ask(runtime, "One")
        two = await ask(runtime, "Two", session=one.session_id)
        await ask(runtime, "/new", session=one.session_id)
        again = NewMessage(content="Two", session_id=one.session_id, supersedes=two.task_id)
        await runtime.requests.wait((await runtime.requests.send(again)).task_id)
    read = [UserMessage("One"), AssistantMessage("Hello."), UserMessage("Two")]
    assert list(model.requests[-1].messages) == read


async def test_a_suspended_call_resumes_with_the_answer() -> None:
    mail = Act("mail", direct_call=True, requires_approval=True)
    async with memory_runtime(tools=[mail]) as runtime:
        parked = await ask(runtime, "/call mail")
        assert parked.status is TaskStatus.SUSPENDED
        with pytest.raises(QuestionOpen):
            await ask(runtime, "/call mail", session=parked.session_id)
        (question,) = parked.questions
        await runtime.requests.answer(question.question.question_id, {"decision": "approve"})
        done = await runtime.requests.wait(parked.task_id)
        log = await kinds(runtime, parked.session_id)
    assert done
    assert (json.loads(done.content)["status"], len(mail.runs)) == ("success", 1)
    assert log.count("ReplyReceived") == 1


async def test_a_command_does_not_answer_a_question() -> None:
    """Spec: "The next message of the conversation that is no command"."""
    model = ScriptedModel({"Ask": [call("ask_user", question="Which month?"), say("So be it.")]})
    async with memory_runtime(model=model, tools=TOOLS) as runtime:
        suspended = await ask(runtime, "Ask")
        with pytest.raises(QuestionOpen):
            await ask(runtime, "/foo", session=suspended.session_id)
        answered = await ask(runtime, "//May", session=suspended.session_id)
        records = await runtime.parts.storage.projections.questions(page=Page())
    assert answered.content == "So be it."
    assert records[0][0].answer == {"text": "/May"}


@pytest.mark.parametrize("command", ["/call", "/call ", "/web"])
async def test_informational_commands_run_while_a_question_is_open(command: str) -> None:
    """The next message that is no command answers the question; a list does not."""
    model = ScriptedModel({"Ask": [call("ask_user", question="Which?"), say("So be it.")]})
    async with memory_runtime(model=model, tools=[*TOOLS, *tools()]) as runtime:
        tool_call = await ask(runtime, "Ask")
        reply_text = await ask(runtime, command, session=tool_call.session_id)
        answered = await ask(runtime, "May", session=tool_call.session_id)
        after = await ask(runtime, "/call", session=tool_call.session_id)
        log = await kinds(runtime, tool_call.session_id)
    assert reply_text.content.startswith(("Direct-call tools:", "Open this", "NOT_AVAILABLE"))
    assert (answered.task_id, answered.content) == (tool_call.task_id, "So be it.")
    assert after.content.startswith("Direct-call tools:")
    assert log.count("TaskEnded") == 3


async def test_a_command_is_queued_behind_the_running_task() -> None:
    gate = Gate()
    async with memory_runtime(tools=[Act("slow", gate, direct_call=True), *tools()]) as runtime:
        first = await runtime.requests.send(NewMessage(content="/call slow"))
        await gate.reached()
        session_id = SessionId(first.session_id)
        second = await runtime.requests.send(
            NewMessage(content="/call look", session_id=session_id)
        )
        third = await runtime.requests.send(NewMessage(content="/new", session_id=session_id))
        gate.open()
        ends = [await runtime.requests.wait(each.task_id) for each in (first, second, third)]
        started = [each for each in await events(runtime, session_id)
                   if isinstance(each, TaskStarted)]  # fmt: skip
    assert all(each and each.status is TaskStatus.SUCCEEDED for each in ends)
    assert [(each.command, each.is_fresh) for each in started] == [
        ("call", False),
        ("call", False),
        ("new", True),
    ]


@pytest.mark.parametrize(
    ("effect", "code", "runs"), [(Effect.READ, None, 2), (Effect.WRITE, "INTERRUPTED", 1)]
)
async def test_an_interrupted_command_resumes_like_any_task(
    effect: Effect, code: str | None, runs: int
) -> None:
    place, gate = MemoryStorage(limits=Limits(shutdown_seconds=0)), Gate()
    slow = Act("slow", gate, effect=effect, direct_call=True)
    async with memory_runtime(tools=[slow], place=place) as first:
        sent = await first.requests.send(NewMessage(content="/call slow"))
        await gate.reached()
    gate.open()
    async with memory_runtime(tools=[slow], place=place) as second:
        reply = await second.requests.wait(sent.task_id)
    assert reply
    assert json.loads(reply.content).get("error", {}).get("code") == code
    assert len(slow.runs) == runs


async def test_a_cancelled_command_ends_with_its_call() -> None:
    gate = Gate()
    async with memory_runtime(tools=[Act("slow", gate, direct_call=True)]) as runtime:
        sent = await runtime.requests.send(NewMessage(content="/call slow"))
        await gate.reached()
        await runtime.requests.cancel(sent.task_id)
        reply = await runtime.requests.wait(sent.task_id)
        log = await kinds(runtime, sent.session_id)
    assert reply
    assert (reply.status, log.count("CallSettled")) == (TaskStatus.CANCELLED, 1)


async def test_concurrent_commands_are_all_answered() -> None:
    async with memory_runtime(tools=tools()) as runtime:
        replies = await asyncio.gather(*(count_to(runtime, n) for n in range(20)))
    assert [json.loads(each.content)["output"] for each in replies] == [{"n": n} for n in range(20)]


async def count_to(runtime: Runtime, n: int) -> TaskReply:
    return await ask(runtime, f"/call count n={n}")


# ---- flows ---------------------------------------------------------------------------------------


async def ran(content: str, *, steps: str = APPLY, **answers: Any) -> tuple[TaskReply, list[Any]]:
    """Send one message with the flow `dom:apply` present; return the answer and the events."""
    async with applying(steps, **answers) as runtime:
        reply = await ask(runtime, content)
        return reply, await events(runtime, reply.session_id)


@asynccontextmanager
async def applying(steps: str, **answers: Any) -> AsyncIterator[Runtime]:
    """Open a runtime with the flow `dom:apply`."""
    place = MemoryStorage(flows=flows_of(dom_apply=steps))
    model = ScriptedModel(by_task(answers))
    async with memory_runtime(model=model, agents=WORKERS, tools=TOOLS, place=place) as runtime:
        yield runtime


async def test_a_flow_is_a_command() -> None:
    """`/dom:apply TEXT` starts the flow, shown as a call of `execute_workflow`."""
    reply, happened = await ran("/dom:apply the\nchange", the=finish("applied"))
    assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, "applied")
    assert reply.envelope is not None
    assert reply.envelope.output["output"]["task"] == "the\nchange"
    (suspended,) = [call for each in happened for call in getattr(each, "calls", ())]
    run_input = {"workflowId": "dom:apply", "input": {"task": "the\nchange"}}
    assert (suspended.name, suspended.arguments) == ("execute_workflow", run_input)


async def test_the_list_of_commands_is_bounded() -> None:
    """`Known commands: /call, /web, /new{, flow commands}`, of which a project may have many."""
    place = MemoryStorage(flows=flows_of(**{f"f{number:02}": APPLY for number in range(40)}))
    reply, _ = await answer_to("/foo", place=place)
    assert "/new, /f00, /f01, " in reply.content
    assert "/f25, /f26 and 13 more. Did you mean" in reply.content


@pytest.mark.parametrize(
    ("content", "steps", "expected"),
    [
        ("/dom:apply x", BROKEN, "has errors: line "),
        ("/dom:aply x", APPLY, "Did you mean the flow 'dom:apply'? Begin with //"),
        ("/dom x", APPLY, "Known commands: /call, /web, /new, /dom:apply. Did you mean"),
        ("/call nothing", APPLY, 'no direct-call tool "nothing"'),
    ],
)
async def test_a_flow_that_cannot_run_answers_with_the_reason(
    content: str, steps: str, expected: str
) -> None:
    """The message's answer is the summary of `lastResult`, or the reason."""
    reply, _ = await ran(content, steps=steps)
    assert expected in reply.content
    assert reply.status is TaskStatus.SUCCEEDED


@pytest.mark.parametrize(
    ("prompt", "question"),
    [("", "What should dom:apply do?"), ("task_prompt: For which job?\n", "For which job?")],
)
async def test_a_flow_asks_for_a_missing_task(prompt: str, question: str) -> None:
    """A start without a task asks the person (chat); `task_prompt` is the text of that question."""
    async with applying(prompt + NEEDY) as runtime:
        suspended = await ask(runtime, "/dom:apply", profile=CLERK)
        (record,) = suspended.questions
        assert (record.question.kind, record.question.text) == (QuestionKind.TASK, question)
        assert record.question.form == {"type": "input"}
        reply = await ask(runtime, "For Ann", session=suspended.session_id, profile=CLERK)
    assert (reply.task_id, reply.content) == (suspended.task_id, "For Ann done")


@pytest.mark.parametrize("answer", [{"cancel": True}, {"value": "  "}, {"value": 3}])
async def test_a_flow_without_a_task_does_not_start(answer: dict[str, Any]) -> None:
    """`task`: text, not blank; a cancelled answer: the run does not start."""
    async with applying(NEEDY) as runtime:
        questions = await ask(runtime, "/dom:apply")
        question_id = questions.questions[0].question.question_id
        if "cancel" not in answer:
            with pytest.raises(InvalidRequest, match="answer must be text"):
                await runtime.requests.answer(question_id, answer)
            return
        await runtime.requests.answer(question_id, answer)
        reply = await runtime.requests.wait(questions.task_id)
        assert reply
        assert reply.content == "Nothing was started: the flow needs a task."
        matches, _ = await runtime.parts.storage.projections.tasks(
            of=TasksOf(kind="flow"), page=Page()
        )
    assert matches == []


async def test_a_flow_with_errors_asks_for_no_task() -> None:
    async with applying(f"task_required: true\n{BROKEN}") as runtime:
        reply = await ask(runtime, "/dom:apply")
    assert "has errors: line " in reply.content


async def test_a_failed_flow_answers_with_the_reason() -> None:
    blocked = call("finish", status="error", summary="no such file", files=[])
    reply, _ = await ran("/dom:apply x", x=blocked)
    assert reply.content == "no such file"


async def test_a_long_result_of_a_flow_is_not_clipped() -> None:
    reply, _ = await ran("/dom:apply x", x=finish("long " * 4000))
    assert reply.content == "long " * 4000

"""Tools that ask people, and how a test answers them."""

from collections.abc import Mapping
from typing import Any

from penstock.app.runtime import Runtime
from penstock.chat.requests import TaskReply as Outcome
from penstock.core.call import Effect
from penstock.core.envelope import Json
from penstock.core.ids import QuestionId
from penstock.core.task import Option, QuestionForm, QuestionStatus
from penstock.tools.invocation import Invocation
from tests.kit.tools import Act, echo

SCHEMA = {
    "type": "object",
    "properties": {"to": {"type": "string"}},
    "required": ["to"],
    "additionalProperties": False,
}


def mail(**spec: Any) -> Act:
    return Act("mail", echo, effect=Effect.WRITE, requires_approval=True, **spec)


async def ask_color(input: Json, invocation: Invocation) -> Any:
    options = (Option(label="Red", value="red"), Option(label="Blue", value="blue"))
    answered = await invocation.ask("Which color?", form=QuestionForm(options=options))
    if answered.status is not QuestionStatus.ANSWERED:
        return {"nobody": True}
    return dict(answered.answer)


def question_of(outcome: Outcome) -> QuestionId:
    (asked,) = outcome.questions
    return asked.question.question_id


async def go_on(runtime: Runtime, outcome: Outcome, body: Mapping[str, Any]) -> Outcome:
    """Answer the first open question, and wait until the task ends or waits again."""
    await runtime.requests.answer(outcome.questions[0].question.question_id, body)
    reply = await runtime.requests.wait(outcome.task_id)
    assert reply
    return reply

"""What a script asks of a person, and what it may know of whom it works for."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from penstock.core.call import Effect
from penstock.core.clock import Moment
from penstock.core.events.events import QuestionAnswered
from penstock.core.ids import QuestionId
from penstock.core.task import Question, QuestionKind, QuestionStatus
from penstock.engine.suspend import ask
from penstock.sandbox.bridge import HostCallResult
from penstock.tools.invocation import Invocation
from penstock.tools.scripts.arguments import mapping, number, text
from penstock.tools.scripts.given_schema import GivenSchema
from penstock.tools.scripts.host import Answer
from penstock.tools.scripts.recording import Recording

WAIT = "task.waitForUserMessage"
MOST_SECONDS = 365 * 24 * 3600


class PersonCalls:
    """`task.waitForUserMessage`: words of a person, or the end of the time for them."""

    def __init__(self, invocation: Invocation, recording: Recording) -> None:
        self._invocation = invocation
        self._recording = recording
        self._world = invocation.inside.world

    def wait(self, arguments: Any) -> Answer:
        """Open a question and park; what was answered is returned at once.

        Raises NotPermitted if no person may be asked, even with a timeout.
        """
        question = self._question(arguments)
        if (found := self._recording.find(question.path)) is not None:
            return found
        self._invocation.caller.check_may_ask(WAIT)
        return self._recording.live(question.path, self._waited(question, arguments))

    def _question(self, arguments: Any) -> Question:
        secrets = self._invocation.caller.secrets
        words, schema = text(arguments, "user_message"), arguments.get("resume_schema")
        if not words.strip():
            raise TypeError("user_message must not be blank")
        timeout = mapping(arguments, "timeout")
        seconds = number(timeout, "seconds", 1, MOST_SECONDS) if timeout else None
        if timeout:
            text(timeout, "resume_prompt")
        if schema is not None:
            problems = GivenSchema(schema).problems(arguments.get("resume_payload"))
            if problems and "resume_payload" in arguments:
                raise TypeError(f"resume_payload is not valid: {problems[0]}")
        now = self._world.clock.now()
        return Question(
            question_id=QuestionId(self._world.new_id("q")),
            kind=QuestionKind.USER_MESSAGE,
            text=secrets.text(words),
            path=self._recording.place(WAIT, arguments, Effect.WRITE),
            call_id=self._invocation.root_call_id,
            tool_id=self._invocation.spec.tool_id,
            schema=secrets.json(schema),
            resume_payload=secrets.json(arguments.get("resume_payload")),
            expires_at=None if seconds is None else Moment(now + round(1000 * seconds)),
        )

    async def _waited(self, question: Question, arguments: Any) -> HostCallResult:
        answered = await ask(self._invocation.ledger, question)
        said = _said(answered, arguments)
        return self._recording.settle(question.path, WAIT, said)


class ContextCalls:
    """`task.getContext` and `task.getProfile`: fresh in each entry."""

    def __init__(
        self,
        invocation: Invocation,
        recording: Recording,
        *,
        extra: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._invocation = invocation
        self._recording = recording
        self._extra = extra

    def context(self, _: Any) -> HostCallResult:
        """Return where the script runs; `resume_payload` is the newest answer to this call."""
        invocation = self._invocation
        call, ledger = invocation.call, invocation.ledger
        context: dict[str, Any] = dict(self._extra) | {
            "task_id": ledger.task.task_id,
            "session_id": ledger.held.state.log_id,
            "selected_skill_ids": list(invocation.caller.newest().skills),
            "call": {
                "call_id": call.call_id or call.path,
                "tool_id": call.tool_id,
                "depth": call.depth + 1,
                "entry": ledger.entry(call.path),
                "attempt": invocation.attempt,
                "idempotency_key": invocation.idempotency_key,
            },
        }
        newest = ledger.newest_answer(call.path)
        if newest is not None:
            context["resume_payload"] = _resumed(newest)
        return self._recording.fresh(context)

    def profile(self, arguments: Any) -> HostCallResult:
        """Return who asks."""
        profile = self._invocation.caller.profile
        name = "task.getProfile"
        path = self._recording.place(name, arguments, Effect.READ)
        if (found := self._recording.find(path)) is not None:
            return found
        who = {
            "profile_id": profile.profile_id,
            "profile_kind": profile.kind,
            "permissions": profile.listed(self._invocation.inside.permissions),
        }
        return self._recording.settle(path, name, who)


def _said(answered: QuestionAnswered, arguments: Any) -> dict[str, Any]:
    """Return the result of the wait: the given payload, or the one in the answer."""
    answer = answered.answer
    payload = answer if "resume_payload" in answer else arguments
    kept = {"resume_payload": payload["resume_payload"]} if "resume_payload" in payload else {}
    if answered.status is QuestionStatus.ANSWERED:
        return {"resume_reason": "user_message", "user_message": answer["text"], **kept}
    prompt = mapping(arguments, "timeout").get("resume_prompt", "")
    return {"resume_reason": "timeout", "resume_prompt": prompt, **kept}


def _resumed(answered: QuestionAnswered) -> dict[str, Any]:
    """Return the newest answer as `resume_payload` of the context."""
    answer = answered.answer
    payload = answer.get("resume_payload")
    extra = payload if isinstance(payload, dict) else {}
    if answered.status is not QuestionStatus.ANSWERED:
        return {**extra, "kind": "timeout"}
    if "decision" in answer:
        return {"kind": "approval", **answer}
    return {**extra, "kind": "user_message", "user_message": answer.get("text", "")}

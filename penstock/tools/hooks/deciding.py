"""Asks hooks, and records what they decide.

It guarantees that a decision is recorded before its effect, and that a later activation uses the
recorded one instead of asking again: a hook that counts or notifies does so once. A hook that
raises, or that returns something else than it may, refuses what it was asked about. One that does
not return is left behind when the time of its task is up, which ends the task. Every error names
the hook.

How: a method is asked of one hook after the other, first those of the project, then those of the
agent. Each gets a copy of what the one before it left, and its answer is compared with the
original: a hook that changes its argument in place and returns it has edited it. The answer is
recorded as HookDecided under the place, the method, the name and the turn; of an edit, only the
difference. What follows from a reply or from an outcome (`after_reply`, `after_call`) is recorded
in one write with that reply or outcome: without it there is nothing to decide about.

It relies on unique names, and on `commit` before the effect. Proof: tests/tools/hooks/
test_deciding.py; tests/journeys/test_hooks.py kills the process after each event.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.call import Call, CallPath
from penstock.core.call_errors import ModelRetry, NotPermitted
from penstock.core.envelope import Envelope
from penstock.core.errors import HookFailed, HookRefused
from penstock.core.events.events import MessageReceived
from penstock.core.events.hook_events import HookDecided, Verdict
from penstock.core.foreign_code import consume_outcome
from penstock.core.json_values.json_text import JSON_DEPTH, compact
from penstock.core.profile import Profile
from penstock.core.reply import ToolCall, UserMessage
from penstock.engine.dialogue import Dialogue
from penstock.engine.ledger import Ledger
from penstock.engine.waits import OF_CALLS
from penstock.resources.dependencies import AgentContext, Dependencies
from penstock.tools.hooks.hooks import (
    AFTER_CALL,
    BEFORE_CALL,
    ON_INPUT,
    ON_OUTPUT,
    AgentHooks,
    Answer,
    Ask,
    Hooks,
    Refuse,
    scope_of,
)
from penstock.tools.outputs import given_json, own_copy

Value = TypeVar("Value")
MOST_RETRIES = 2
"""How often the hooks of a task may ask the model again, by method."""


class Editable(Struct, Generic[Value], frozen=True, kw_only=True):
    """How hooks edit a value: what they get, and what the log keeps of an edit."""

    kind: type
    """The type that a hook must return."""
    copied: Callable[[Value], Value]
    """Returns a copy that a hook may change in place."""
    difference: Callable[[Value, Value], Any]
    """Returns the JSON that turns a value into an edited one; None if they are equal. Raises
    TypeError or ValueError for an edit that is not allowed."""
    edited: Callable[[Value, Any], Value]
    """Returns the edited value from the value and that JSON."""


class Subject(NamedTuple):
    """The thing that a method decides about."""

    method: str
    path: CallPath | None = None
    """The call, or the frame of the agent; None for the main agent of a task."""
    turn: int = 0
    """As in HookDecided."""


class TaskHooks:
    """The hooks of an agent at work for one task."""

    __slots__ = ("_contexts", "_dependencies", "_ledger", "_profile", "selected")

    def __init__(
        self,
        selected: AgentHooks,
        ledger: Ledger,
        profile: Profile,
        dependencies: Dependencies | None,
    ) -> None:
        self.selected = selected
        self._ledger = ledger
        self._profile = profile
        self._dependencies = dependencies
        self._contexts: dict[str, AgentContext[Any]] = {}

    async def decide(
        self, subject: Subject, value: Value, how: Editable[Value]
    ) -> tuple[Value, str | None]:
        """Return the value as the hooks leave it, and the question that one has for a person.

        The decisions are on disk when this returns. Raises HookRefused and HookFailed.
        """
        question: str | None = None
        decisions, is_new = self._ledger.task.records.decisions, False
        for hook in self.selected.overriding(subject.method):
            decided = decisions.get((subject.path, subject.method, hook.name, subject.turn))
            if decided is None:
                is_new = True
                answer = await self.ask(hook, subject.method, how.copied(value))
                decided = decision(hook, subject, answer, before=value, how=how)
                self._ledger.add(decided, subject.path)
            if decided.verdict is Verdict.EDIT:
                value = how.edited(value, decided.value)
            elif decided.verdict is Verdict.ASK:
                question = question or decided.text
            elif decided.verdict is Verdict.REFUSE:
                raise HookRefused(decided.text, details={"hook": hook.name})
        if is_new:
            await self._ledger.held.commit()
        return value, question

    async def ask(self, hook: Hooks[Any], method: str, *about: Any) -> Any:
        """Return the answer of a hook, or the ModelRetry that it raised. Raises HookFailed."""
        seconds = max(self._ledger.budget.seconds_left(), 0)
        work = asyncio.ensure_future(self._call(hook, method, about))
        work.add_done_callback(consume_outcome)
        try:
            # Not `asyncio.timeout`: a hook that swallows its cancellation would never end.
            await asyncio.wait({work}, timeout=seconds)
        finally:
            work.cancel()
        if not work.done():
            late = HookFailed(
                f"the hook {hook.name!r} did not return from {method} within the time of the task",
                details={"hook": hook.name, "timeout": True},
            )
            late.ends_task = True
            raise late
        if work.cancelled():
            raise _failed(hook, method, "it cancelled itself")
        error = work.exception()
        if error is None or isinstance(error, ModelRetry):
            return error or work.result()
        raise _failed(hook, method, f"{type(error).__name__}: {error}") from error

    async def _call(self, hook: Hooks[Any], method: str, about: Sequence[Any]) -> Any:
        owner = self.selected.owner(hook)
        if (context := self._contexts.get(owner)) is None:
            context = self._contexts[owner] = await self._made_context(owner)
        return await getattr(hook, method)(context, *about)

    async def _made_context(self, agent: str) -> AgentContext[Any]:
        ledger = self._ledger
        scope = scope_of(ledger.held, ledger.task, self._profile, agent)
        dependencies = self._dependencies
        if dependencies is None or dependencies.source(scope.agent) is None:
            return AgentContext(scope)
        return AgentContext(scope, await dependencies.deps(ledger.held, scope))

    async def before_call(self, call: Call, turn: int) -> tuple[Call, str | None]:
        """Return the call as the hooks leave it, and the question that one has for a person.

        Raises NotPermitted if one refuses or fails, HookFailed if one does not return.
        """
        if not self.selected.overriding(BEFORE_CALL):
            return call, None
        try:
            subject, shown = Subject(BEFORE_CALL, call.path, turn), _shown(call)
            decided, question = await self.decide(subject, shown, _CALL)
        except HookRefused as refused:
            raise NotPermitted(str(refused), details=refused.details) from None
        except HookFailed as failed:
            if failed.ends_task:
                raise
            raise NotPermitted(
                f"{failed}. The call was not made.", details=failed.details
            ) from None
        return (call if decided is shown else replace(call, input=decided.input)), question

    async def after_call(self, call: Call, envelope: Envelope) -> Envelope:
        """Return the outcome of a call as the hooks leave it. Raises ModelRetry, HookFailed."""
        for hook in self.selected.overriding(AFTER_CALL):
            copied = replace(envelope, output=own_copy(envelope.output))
            answer = await self.ask(hook, AFTER_CALL, _shown(call), copied)
            subject = Subject(AFTER_CALL, call.path)
            decided = decision(hook, subject, answer, before=envelope, how=_ENVELOPE)
            if decided.verdict is Verdict.PASS:
                continue
            # The outcome itself is in CallSettled, so the log need not hold it twice.
            self._ledger.add(replace(decided, value=None), call.path)
            if decided.verdict is Verdict.RETRY:
                raise ModelRetry(decided.text, details={"hook": hook.name})
            envelope = Envelope.from_wire(decided.value)
        # The function's own calls have these hooks, too; only its outcome is the output.
        if (answer_of := self.selected.answer) is not None and envelope.ok and not call.depth:
            await self._check_output(envelope.output, answer_of)
        return envelope

    async def _check_output(self, output: Any, answer: Answer) -> None:
        """Ask `on_output` about what an output function returned.

        Raises ModelRetry, and HookFailed, which ends the task: the function would run again.
        """
        try:
            sent_back = await self.on_output(output, answer.frame, turn=answer.turn)
        except HookFailed as failed:
            # As the outcome of the call, the error would let the model run the function again.
            failed.ends_task = True
            raise
        if sent_back is not None:
            raise ModelRetry(sent_back)

    async def begin(self, dialogue: Dialogue) -> None:
        """Show the message of a task that begins to `on_input`; the model reads what it leaves.

        Raises HookRefused, also if a hook refused in an earlier activation, and HookFailed.
        """
        path = dialogue.path
        for (at, method, _, _), decided in self._ledger.task.records.decisions.items():
            if at == path and method not in OF_CALLS and decided.verdict is Verdict.REFUSE:
                raise HookRefused(decided.text, details={"hook": decided.hook})
        if not (self.selected.overriding(ON_INPUT) and dialogue.iteration == 0):
            return
        newest, brief = dialogue.messages.entries[-1], self._ledger.task.brief
        message_id = brief.message_id if isinstance(brief, MessageReceived) else ""
        await self.on_input(UserMessage(text=newest.content, id=message_id), path)

    async def on_input(self, message: UserMessage, path: CallPath | None = None) -> str:
        """Return the text of a message as the hooks leave it. Raises HookRefused and HookFailed."""
        return (await self.decide(Subject(ON_INPUT, path), message, _MESSAGE))[0].text

    def count_retries(self, method: str, path: CallPath | None = None) -> int:
        """Return how often hooks sent something back in this method."""
        decisions = self._ledger.task.records.decisions.items()
        return sum(
            decided.verdict is Verdict.RETRY and place[:2] == (path, method)
            for place, decided in decisions
        )

    def check_retries(self, newest: HookDecided, path: CallPath | None = None) -> None:
        """Raise HookFailed if hooks sent back too much; `newest` is not in the log yet."""
        if (count := self.count_retries(newest.method, path)) >= MOST_RETRIES:
            raise HookFailed(
                f"the hook {newest.hook!r} asked the model again {count + 1} times; "
                f"the last time because: {newest.text}",
                details={"hook": newest.hook},
            )

    async def on_output(
        self, output: Any, path: CallPath | None = None, *, turn: int | None = None
    ) -> str | None:
        """Return the message with which a hook sends the output back, or None. Raises HookFailed.

        Add what follows from it without an await in between, or give each output its own `turn`.
        """
        decisions = self._ledger.task.records.decisions
        turn = self.count_retries(ON_OUTPUT, path) if turn is None else turn
        for hook in self.selected.overriding(ON_OUTPUT):
            decided = decisions.get((path, ON_OUTPUT, hook.name, turn))
            if decided is None:
                answer = await self.ask(hook, ON_OUTPUT, own_copy(output))
                if answer is not None and not isinstance(answer, ModelRetry):
                    raise _wrong(hook, ON_OUTPUT, answer)
                verdict = Verdict.RETRY if answer else Verdict.PASS
                decided = HookDecided(
                    hook=hook.name,
                    method=ON_OUTPUT,
                    verdict=verdict,
                    turn=turn,
                    text=str(answer or ""),
                )
                if verdict is Verdict.RETRY:
                    self.check_retries(decided, path)
                self._ledger.add(decided, path)
            if decided.verdict is Verdict.RETRY:
                return decided.text
        return None


def decision(
    hook: Hooks[Any], subject: Subject, answer: Any, *, before: Value, how: Editable[Value]
) -> HookDecided:
    """Return what an answer means. Raises HookFailed for one that the method may not give."""
    verdict, text, value = Verdict.PASS, "", None
    if isinstance(answer, ModelRetry):
        if subject.method in {BEFORE_CALL, ON_INPUT}:
            raise _failed(hook, subject.method, "it may not raise ModelRetry; return Refuse")
        verdict, text = Verdict.RETRY, str(answer)
    elif isinstance(answer, Refuse) and subject.method != AFTER_CALL:
        verdict, text = Verdict.REFUSE, _text(hook, subject.method, answer.reason)
    elif isinstance(answer, Ask) and subject.method == BEFORE_CALL:
        verdict, text = Verdict.ASK, _text(hook, subject.method, answer.question)
    elif isinstance(answer, how.kind):
        try:
            value = how.difference(before, cast("Value", answer))
        except (AttributeError, TypeError, ValueError) as error:  # a field of a wrong type
            raise _failed(hook, subject.method, str(error)) from None
        verdict = Verdict.PASS if value is None else Verdict.EDIT
    else:
        raise _wrong(hook, subject.method, answer)
    return HookDecided(
        hook=hook.name,
        method=subject.method,
        verdict=verdict,
        turn=subject.turn,
        text=text,
        value=value,
    )


def _text(hook: Hooks[Any], method: str, text: Any) -> str:
    if not isinstance(text, str) or not text.strip():
        raise _failed(hook, method, f"a refusal or a question needs a text, found {text!r}")
    return text


def _failed(hook: Hooks[Any], method: str, why: str) -> HookFailed:
    message = f"the hook {hook.name!r} failed in {method}: {why}"
    return HookFailed(message, details={"hook": hook.name})


def _wrong(hook: Hooks[Any], method: str, answer: Any) -> HookFailed:
    return _failed(hook, method, f"it may not return {type(answer).__name__}")


def _shown(call: Call) -> ToolCall:
    return ToolCall(
        id=call.call_id or call.path,
        tool=call.tool_id,
        input=own_copy(call.input),
    )


def changed_input(input: Any) -> dict[str, Any]:
    """Return a copy of an input of a hook for a call. Raises TypeError if it is not an object."""
    changed = given_json(input, JSON_DEPTH, "the input")
    if not isinstance(changed, dict):
        raise TypeError(f"the input of a call is an object, found {input!r}")
    return changed


def _call_difference(before: ToolCall, answer: ToolCall) -> Any:
    if (answer.id, answer.tool) != (before.id, before.tool):
        raise TypeError("it may change the input of a call, not its tool or id")
    changed = changed_input(answer.input)
    return None if compact(changed) == compact(before.input) else {"input": changed}


def _envelope_difference(before: Envelope, answer: Envelope) -> Any:
    output = given_json(answer.output, JSON_DEPTH, "the output")
    changed = Envelope.from_wire(Envelope(answer.status, output, answer.error).to_wire())
    return None if changed.to_wire() == before.to_wire() else changed.to_wire()


def _message_difference(before: UserMessage, answer: UserMessage) -> Any:
    text: Any = answer.text  # of foreign code, so of any type
    if not isinstance(text, str) or not text.strip():
        raise TypeError(f"a message needs a text, found {text!r}")
    return None if text == before.text else {"content": text}


_CALL: Editable[ToolCall] = Editable(
    kind=ToolCall,
    copied=lambda call: replace(call, input=own_copy(call.input)),
    difference=_call_difference,
    edited=lambda call, change: replace(call, input=own_copy(change["input"])),
)
_ENVELOPE: Editable[Envelope] = Editable(
    kind=Envelope,
    copied=lambda envelope: replace(envelope, output=own_copy(envelope.output)),
    difference=_envelope_difference,
    edited=lambda _, change: Envelope.from_wire(change),
)
_MESSAGE: Editable[UserMessage] = Editable(
    kind=UserMessage,
    copied=lambda message: message,
    difference=_message_difference,
    edited=lambda message, change: replace(message, text=change["content"]),
)

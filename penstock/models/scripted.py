"""A model with scripted replies, for tests."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from typing import Any, Self, assert_never

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import ModelRefused, RuntimeMisuse
from penstock.core.events.events import ReplyReceived
from penstock.core.json_values.schema import Schema
from penstock.core.messages import AssistantMessage, Message, Usage, UserMessage
from penstock.core.reply import Reply
from penstock.models.model import (
    CallDelta,
    Finished,
    ModelCard,
    ModelEvent,
    ModelRequest,
    ReasoningDelta,
    TextDelta,
    failure,
    of_people,
)

FINAL_ANSWER = "final_answer"
"""How the names of tools begin by which a model hands in an output."""
SCRIPTED = ModelCard(model_id="scripted", name="scripted", provider="scripted")


class Hold:
    """A point in a reply where the model waits until the test releases it."""

    def __init__(self) -> None:
        self._reached = asyncio.Event()
        self._released = asyncio.Event()

    async def reached(self) -> None:
        """Wait until a reply has reached this point."""
        await self._reached.wait()

    def release(self) -> None:
        """Let this reply and all later ones continue."""
        self._released.set()

    async def wait_for_release(self) -> None:
        """Wait for the release. Called by the model."""
        self._reached.set()
        await self._released.wait()


class Fail(Struct, frozen=True):
    """The provider answers with an HTTP status, or cuts the stream."""

    status: int
    message: str
    retry_after: float | None = None


class Slow(Struct, frozen=True):
    """The model waits, by its clock."""

    seconds: float


class Finish(Struct, frozen=True):
    """The model hands in a typed output, in the form that the request asks for."""

    output: Any


Step = ReasoningDelta | TextDelta | CallDelta | Fail | Finish | Slow | Hold


class ScriptedReply(Struct, frozen=True):
    """One reply, or a part of one: parts are joined by `+`."""

    steps: tuple[Step, ...] = ()
    calls: int = 0
    reason: str = ""
    """Empty: `tool_calls` if there are calls, else `stop`."""
    usage: Usage | None = None
    """None: one token for each message read and for each delta written."""

    def __add__(self, other: Self) -> Self:
        """Return this part, then the other."""
        moved = tuple(
            replace(step, index=step.index + self.calls) if isinstance(step, CallDelta) else step
            for step in other.steps
        )
        return replace(
            self,
            steps=self.steps + moved,
            calls=self.calls + other.calls,
            reason=other.reason or self.reason,
            usage=other.usage or self.usage,
        )


Script = (
    Sequence[ScriptedReply]
    | Mapping[str, ScriptedReply | Sequence[ScriptedReply]]
    | Callable[[ModelRequest], ScriptedReply]
)


def say(*deltas: str) -> ScriptedReply:
    """Return a reply that is a text.

    Args:
        *deltas: The pieces in which the text comes.

    Example:
        >>> from penstock.testing import say
        >>> len(say("Good ", "morning.").steps)
        2
    """
    return ScriptedReply(tuple(TextDelta(delta) for delta in deltas))


def think(*deltas: str) -> ScriptedReply:
    """Show reasoning, in these pieces."""
    return ScriptedReply(tuple(ReasoningDelta(delta) for delta in deltas))


def call(name: str, /, **arguments: Any) -> ScriptedReply:
    """Return a reply that asks for a tool call. Join several replies with `+`.

    Args:
        name: The tool's id.
        **arguments: The input of the call.

    Example:
        >>> from penstock.testing import call, say
        >>> (say("Let me look.") + call("price", item="tea")).calls
        1
    """
    return raw_call(name, json.dumps(arguments))


def finish(output: Any) -> ScriptedReply:
    """Return a reply that hands in a typed output.

    The form follows the request: a call of `final_answer`, or JSON as text.

    Args:
        output: JSON, or a value of the output type.

    Example:
        >>> import asyncio
        >>> from penstock import Agent
        >>> from penstock.testing import ScriptedModel, finish, memory_runtime
        >>> counter = Agent("counter", model=ScriptedModel([finish(3)]), output=int)
        >>> async def main() -> None:
        ...     async with memory_runtime(agents=[counter]) as runtime:
        ...         print((await runtime.chat("How many?", agent=counter)).output)
        >>> asyncio.run(main())
        3
    """
    return ScriptedReply((Finish(output),))


def raw_call(name: str, /, *deltas: str) -> ScriptedReply:
    """Return a reply with a tool call whose arguments are these texts, valid JSON or not."""
    return ScriptedReply((CallDelta(0, name), *[CallDelta(0, "", d) for d in deltas]), calls=1)


def fail(
    status: int = 503, message: str = "", *, retry_after: float | None = None
) -> ScriptedReply:
    """Return a reply that fails with an HTTP status. 408, 409, 429 and 5xx can be retried."""
    if not isinstance(status, int):
        raise RuntimeMisuse(f"fail takes an HTTP status first: write fail(503, {status!r:.80})")
    text = message or f"the scripted model answered {status}"
    return ScriptedReply((Fail(status, text, retry_after),))


def slow(seconds: float) -> ScriptedReply:
    """Wait on the model's clock."""
    return ScriptedReply((Slow(seconds),))


def wait(hold: Hold) -> ScriptedReply:
    """Wait until the test releases the hold."""
    return ScriptedReply((hold,))


def spend(input_tokens: int, output_tokens: int, cost_usd: float | None = None) -> ScriptedReply:
    """Say what the reply cost."""
    usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=cost_usd)
    return ScriptedReply(usage=usage)


def end(reason: str) -> ScriptedReply:
    """Finish for this reason: `stop`, `tool_calls`, `length` or `content_filter`."""
    return ScriptedReply(reason=reason)


class ScriptedModel:
    """A model that plays replies from a script, without any I/O.

    Args:
        script: A sequence is played in order: `[call("add", a=1, b=2), say("It is ", "3.")]`. A
            mapping is keyed by the last user message: `{"sum": [call("add"), say("3")],
            "": say("?")}`. The longest key that the message contains wins. The number of assistant
            messages since that message selects the reply. So conversations can share a model, and
            an equal request gets the same reply; a failing reply is given only once. A function
            receives the request and returns the reply.
        clock: The clock of `slow`; None means the system clock.
        card: The description of the model, such as its name.
        record: Whether `requests` keeps the requests.

    Raises:
        RuntimeMisuse: The script has something else than replies.

    Example:
        >>> from penstock.testing import ScriptedModel, call, memory_runtime_sync, say
        >>> def price(item: str) -> int:
        ...     '''Return the price of an item in cents.'''
        ...     return 250
        >>> model = ScriptedModel([call("price", item="tea"), say("Tea is 2.50.")])
        >>> with memory_runtime_sync(model=model, tools=[price]) as runtime:
        ...     print(runtime.chat("What is tea?").content, len(model.requests))
        Tea is 2.50. 2
    """

    def __init__(
        self,
        script: Script,
        *,
        clock: Clock | None = None,
        card: ModelCard = SCRIPTED,
        record: bool = True,
    ) -> None:
        self.card = card
        self.requests: list[ModelRequest] = []
        """Copies of the requests, oldest first; empty with `record=False`."""
        self.unfinished = 0
        """Replies that are running, failed, or were closed early."""
        if not callable(script):
            script = _ByContent(script) if isinstance(script, Mapping) else _InOrder(script)
        self._choose = script
        self._clock = clock or SystemClock()
        self._record = record

    @staticmethod
    def from_log(reply: Reply[Any]) -> "ScriptedModel":
        """Return a model that gives the replies of a recorded task again, in their order.

        Replies that began again count once. Another request than the task had gets the next one.

        Args:
            reply: The reply of a task, such as `await runtime.attach(task_id).reply()`.

        Raises:
            RuntimeMisuse: It is not a reply, or no model answered in the task.
        """
        if not isinstance(reply, Reply):
            raise RuntimeMisuse(f"from_log takes a Reply, found {reply!r:.80}")
        events = (each.event for each in reply.recorded.records)
        replies = [_recorded(each) for each in events if isinstance(each, ReplyReceived)]
        if not replies:
            raise RuntimeMisuse(f"no model answered in {reply.task_id}, so it has no script")
        return ScriptedModel(replies)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the events of the next reply.

        Args:
            request: The messages and tools for the model.

        Raises:
            ModelRefused: The script has no more replies, or none for this message.
            ModelError: The reply was made with `fail`.
        """
        if self._record:
            seen = replace(request, messages=tuple(request.messages), tools=tuple(request.tools))
            self.requests.append(seen)
        (reply,) = _replies([self._choose(request)], ModelRefused)
        self.unfinished += 1
        calls = reply.calls
        for step in reply.steps:
            match step:
                case TextDelta() | ReasoningDelta() | CallDelta():
                    yield step
                case Fail():
                    raise failure(step.status, step.message, step.retry_after)
                case Finish():
                    tool_name, text = _output(step.output, request)
                    yield CallDelta(calls, tool_name, text) if tool_name else TextDelta(text)
                    calls += bool(tool_name)
                case Slow():
                    await self._clock.sleep(step.seconds)
                case Hold():
                    await step.wait_for_release()
                case _:
                    assert_never(step)
        self.unfinished -= 1
        usage = Usage(input_tokens=len(request.messages), output_tokens=len(reply.steps))
        yield Finished(reply.reason or ("tool_calls" if calls else "stop"), reply.usage or usage)

    async def close(self) -> None:
        """Do nothing: there is no connection."""


def _output(output: Any, request: ModelRequest) -> tuple[str, str]:
    """Return the tool that hands in an output, or "", and the arguments or the text.

    Of several tools (a union has one for each type) the first one counts whose schema fits.
    """
    value = to_builtins(output, str_keys=True, enc_hook=lambda each: each.model_dump(mode="json"))
    forms = [{"value": value}, value] if isinstance(value, dict) else [{"value": value}]
    tools = [tool for tool in request.tools if tool.name.startswith(FINAL_ANSWER)]
    for tool in tools:
        for arguments in forms:
            if not Schema(tool.parameters).problems(arguments):
                return tool.name, json.dumps(arguments)
    if tools:
        return tools[0].name, json.dumps(forms[-1])
    is_wrapped = request.output is not None and not Schema(request.output.schema).problems(forms[0])
    return "", json.dumps(forms[0] if is_wrapped else value)


class _InOrder:
    def __init__(self, replies: Sequence[ScriptedReply]) -> None:
        self._replies = _replies(replies)
        self._played = 0

    def __call__(self, request: ModelRequest) -> ScriptedReply:
        if self._played == len(self._replies):
            last = repr(request.messages[-1].content[:80]) if request.messages else "nothing"
            raise ModelRefused(
                f"the script has {len(self._replies)} replies and was asked for one more, "
                f"after {last}: give ScriptedModel another reply"
            )
        self._played += 1
        return self._replies[self._played - 1]


class _ByContent:
    def __init__(self, script: Mapping[str, ScriptedReply | Sequence[ScriptedReply]]) -> None:
        self._turns = {key: _turns(replies) for key, replies in script.items()}
        self._failed: Counter[tuple[str, int]] = Counter()

    def __call__(self, request: ModelRequest) -> ScriptedReply:
        content, turn = _place(of_people(request))
        key = max((key for key in self._turns if key in content), key=len, default=None)
        if key is None or turn >= len(self._turns[key]):
            raise ModelRefused(
                f"the script has no reply number {turn + 1} to {content!r} "
                f"(its keys: {', '.join(map(repr, self._turns))}): add one"
            )
        attempts, attempt = self._turns[key][turn], self._failed[key, turn]
        self._failed[key, turn] += attempt < len(attempts) - 1
        return attempts[attempt]


def _replies(given: Any, error: type[Exception] = RuntimeMisuse) -> tuple[ScriptedReply, ...]:
    """Return the replies of a sequence. Raises the error for anything else."""
    if isinstance(given, str | ScriptedReply) or not isinstance(given, Iterable):
        raise error(f'a script is a list: write [say("Done.")], found {given!r:.80}')
    replies = tuple(given)
    for each in replies:
        if not isinstance(each, ScriptedReply):
            is_list = isinstance(each, list | tuple)
            right = "`call(...) + call(...)` for one reply" if is_list else "`say(...)` for a text"
            raise error(f"a script is a list of replies: write {right}, found {each!r:.80}")
    return replies


def _turns(replies: ScriptedReply | Sequence[ScriptedReply]) -> list[list[ScriptedReply]]:
    """Put each reply that fails before the one that is given when it is asked for again."""
    turns: list[list[ScriptedReply]] = [[]]
    for reply in _replies([replies] if isinstance(replies, ScriptedReply) else replies):
        turns[-1].append(reply)
        if not any(isinstance(step, Fail) for step in reply.steps):
            turns.append([])
    return turns if turns[-1] else turns[:-1]


def _place(messages: Sequence[Message]) -> tuple[str, int]:
    """Return the last user message, and how many assistant messages follow it."""
    turn = 0
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            return message.content, turn
        turn += isinstance(message, AssistantMessage)
    return "", turn


def _recorded(reply: ReplyReceived) -> ScriptedReply:
    whole = think(*filter(None, [reply.reasoning])) + say(*filter(None, [reply.text]))
    for made in reply.calls:
        whole += raw_call(made.name, json.dumps(made.arguments))
    return replace(whole, reason=reply.finish, usage=reply.usage)

"""Hooks around the requests to a model and its replies.

It guarantees that the text of a reply is shown only after `after_reply` has decided about it: the
pieces of such a reply are withheld, and readers get the stored one. The reply, its decisions and,
if the model is asked again, the outcomes of its calls are recorded in one write.

An edit of a request is recorded as the difference: the fields that changed, and the messages
between the first and the last one that did. An edit of a reply changes the stored reply. The model
reads its own words again only through the carry, whose parts keep the inputs of calls that a hook
changed; a text that a hook changed makes the carry void.

Proof: tests/tools/hooks/test_reply_hooks.py.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, get_type_hints

import msgspec
from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.envelope import Json
from penstock.core.errors import HookFailed, HookRefused
from penstock.core.events.events import ReplyReceived
from penstock.core.events.hook_events import HookDecided, Verdict
from penstock.core.json_values.json_text import compact
from penstock.core.messages import AssistantMessage, Carry, Message, ToolMessage, UserMessage
from penstock.core.reply import ToolCall
from penstock.engine.bus import Bus, LiveReply
from penstock.engine.ledger import Ledger
from penstock.models.model import ModelRequest
from penstock.tools.hooks.deciding import Editable, Subject, TaskHooks, changed_input, decision
from penstock.tools.hooks.hooks import AFTER_REPLY, BEFORE_MODEL, ModelReply
from penstock.tools.outputs import own_copy


class ReplyHooks:
    """The hooks of one agent around its requests and replies."""

    __slots__ = ("_hooks", "_ledger", "_path", "withholds")

    def __init__(self, hooks: TaskHooks, ledger: Ledger, path: CallPath | None = None) -> None:
        self._hooks = hooks
        self._ledger = ledger
        self._path = path
        self.withholds = bool(hooks.selected.overriding(AFTER_REPLY))
        """Whether replies are not shown while they stream."""

    async def before_model(self, request: ModelRequest, iteration: int) -> ModelRequest:
        """Return the request as the hooks leave it. Raises HookRefused and HookFailed."""
        if not self._hooks.selected.overriding(BEFORE_MODEL):
            return request
        subject = Subject(BEFORE_MODEL, self._path, self._turn(iteration, closing=request.closing))
        return (await self._hooks.decide(subject, request, _REQUEST))[0]

    async def after_reply(self, reply: ReplyReceived) -> tuple[ReplyReceived, str | None]:
        """Return the reply as the hooks leave it, and the message that sends it back, or None.

        Add the reply to the log without an await in between. Of a reply that is refused, only its
        usage is recorded, here. Raises HookRefused and HookFailed.
        """
        try:
            return await self._asked(reply)
        except (HookRefused, HookFailed) as error:
            # Its tokens were spent: without this event a hook that refuses would lift the budget.
            refused = replace(
                reply, text="", reasoning="", order=(), calls=(), carry=None, refusal=str(error)
            )
            self._ledger.add(refused, self._path)
            raise

    async def _asked(self, reply: ReplyReceived) -> tuple[ReplyReceived, str | None]:
        decisions: list[HookDecided] = []
        left, retry = reply, None
        subject = Subject(
            AFTER_REPLY, self._path, self._turn(reply.iteration, closing=reply.closing)
        )
        for hook in self._hooks.selected.overriding(AFTER_REPLY):
            answer = await self._hooks.ask(hook, AFTER_REPLY, _shown(left))
            decided = decision(hook, subject, answer, before=left, how=_REPLY)
            if decided.verdict is Verdict.PASS:
                continue
            decisions.append(replace(decided, value=None))
            if decided.verdict is not Verdict.EDIT:
                break
            left = _edited_reply(left, decided.value)
        if decisions and decisions[-1].verdict is Verdict.RETRY:
            retry = decisions[-1].text
            self._hooks.check_retries(decisions[-1], self._path)
        # No await from here on: the decisions and the reply must be in one write. If the decisions
        # alone were on disk, another reply would be asked for, and they would seem to be about it.
        for decided in decisions:
            self._ledger.add(decided, self._path)
        if decisions and decisions[-1].verdict is Verdict.REFUSE:
            newest = decisions[-1]
            raise HookRefused(newest.text, details={"hook": newest.hook})
        return left, retry

    def _turn(self, iteration: int, *, closing: bool) -> int:
        """Return the number of a request. Closing ones are negative: they have no iteration."""
        return -1 - self._hooks.count_retries(AFTER_REPLY, self._path) if closing else iteration


def withheld(live: LiveReply) -> tuple[Bus, LiveReply]:
    """Return a bus without readers, and a copy of a reply that collects its pieces."""
    return Bus(), replace(live, pieces=[])


def _shown(reply: ReplyReceived) -> ModelReply:
    calls = (
        ToolCall(id=call.call_id, tool=call.name, input=own_copy(call.arguments))
        for call in reply.calls
    )
    return ModelReply(text=reply.text, calls=tuple(calls), reasoning=reply.reasoning)


def _reply_difference(before: ReplyReceived, answer: ModelReply) -> Any:
    if not isinstance(answer.text, str):
        raise TypeError(f"the text of a reply is a text, found {answer.text!r}")
    known = {str(call.call_id): call for call in before.calls}
    inputs: dict[str, Any] = {}
    for call in answer.calls:
        if call.id not in known or known[call.id].name != call.tool or call.id in inputs:
            raise TypeError(f"it may not add the call {call.tool!r}; change inputs or remove calls")
        inputs[call.id] = changed_input(call.input)
    is_same = answer.text == before.text and compact(inputs) == compact(
        {call.call_id: call.arguments for call in before.calls}
    )
    return None if is_same else {"text": answer.text, "inputs": inputs}


def _edited_reply(before: ReplyReceived, change: Any) -> ReplyReceived:
    text, inputs, calls = change["text"], change["inputs"], []
    for call in before.calls:
        if call.call_id not in inputs:
            continue
        if compact(inputs[call.call_id]) == compact(call.arguments):
            calls.append(call)
        else:
            arguments = inputs[call.call_id]
            calls.append(replace(call, arguments=arguments, arguments_text=None, cut=False))
    is_whole = text == before.text and len(calls) == len(before.calls)
    order = before.order if text == before.text else ()
    carry = _carry(before, inputs) if is_whole else None
    return replace(before, text=text, calls=tuple(calls), order=order, carry=carry)


def _carry(before: ReplyReceived, inputs: dict[str, Any]) -> Carry | None:
    """Return the carry with the inputs as the model wrote them: its provider compares them."""
    if before.carry is None:
        return None
    parts = []
    for part in before.carry.parts:
        kept = part
        if part.get("type") == "call" and "input" not in part:
            call = before.calls[part["index"]]
            if compact(inputs[call.call_id]) != compact(call.arguments):
                kept = {**part, "input": call.arguments}
        parts.append(kept)
    return replace(before.carry, parts=tuple(parts))


_REPLY: Editable[Any] = Editable(
    kind=ModelReply, copied=_shown, difference=_reply_difference, edited=_edited_reply
)
"""Hooks see a ModelReply, and the log has a ReplyReceived."""


_ROLES: dict[str, type[Any]] = {
    "user": UserMessage,
    "assistant": AssistantMessage,
    "tool": ToolMessage,
}
_NAMES = {kind: role for role, kind in _ROLES.items()}
_FIXED = ("closing", "loop_start", "has_previews")
"""Fields that hooks may not change."""
_APART = ("messages", "tools", *_FIXED)
"""Fields that are not compared as plain values."""


def _private(request: ModelRequest) -> ModelRequest:
    """Return a copy whose lists and objects a hook may change in place."""
    tools = tuple(replace(each, parameters=own_copy(each.parameters)) for each in request.tools)
    return replace(request, messages=[*map(_own_message, request.messages)], tools=tools)


def _own_message(message: Message) -> Message:
    if not isinstance(message, AssistantMessage) or not message.calls:
        return message
    calls = [replace(call, arguments=own_copy(call.arguments)) for call in message.calls]
    return replace(message, calls=tuple(calls))


def _request_difference(before: ModelRequest, answer: ModelRequest) -> Any:
    change: dict[str, Any] = {}
    for name in ModelRequest.__struct_fields__:
        value = getattr(answer, name)
        if name not in _APART and value != getattr(before, name):
            change[name] = msgspec.to_builtins(value)
    if tuple(answer.tools) != tuple(before.tools):
        change["tools"] = msgspec.to_builtins(tuple(answer.tools))
    if any(getattr(answer, name) != getattr(before, name) for name in _FIXED):
        raise TypeError("it may not change `closing`, `loop_start` or `has_previews`")
    if (messages := _changed_messages(before.messages, list(answer.messages))) is not None:
        change["messages"] = messages
    if change:
        _edited_request(before, change)  # raises for a value of a wrong type
    return change or None


def _changed_messages(before: Sequence[Message], after: list[Message]) -> Any:
    """Return the messages between the first and the last one that differ; None if none does."""
    if not after:
        raise TypeError("a request needs messages")
    for message in after:
        if type(message) not in _NAMES:
            raise TypeError(f"a message cannot be {message!r}")
    shorter = min(len(before), len(after))
    start = next((at for at in range(shorter) if before[at] != after[at]), shorter)
    if start == len(before) == len(after):
        return None
    end = 0
    while end < shorter - start and before[-1 - end] == after[-1 - end]:
        end += 1
    new = [_message_json(each) for each in after[start : len(after) - end]]
    return {"start": start, "end": end, "new": new}


def _message_json(message: Message) -> Json:
    """Return a message as JSON, its files by reference: their bytes are read again."""
    names = (name for name in message.__struct_fields__ if name != "parts")
    fields = {name: msgspec.to_builtins(getattr(message, name)) for name in names}
    return {"role": _NAMES[type(message)], **fields}


def _message_of(wire: Json) -> Message:
    kind = _ROLES[wire["role"]]
    fields = {name: value for name, value in wire.items() if name != "role"}
    message: Message = kind(**_typed(kind, fields))
    return message


def _typed(kind: type, fields: Json) -> dict[str, Any]:
    """Return fields of a struct from their JSON. Raises msgspec's ValidationError."""
    types = _field_types(kind)
    return {name: msgspec.convert(value, types[name]) for name, value in fields.items()}


def _edited_request(before: ModelRequest, change: Any) -> ModelRequest:
    fields = _typed(
        ModelRequest, {name: value for name, value in change.items() if name != "messages"}
    )
    if (spliced := change.get("messages")) is not None:
        fields["messages"] = [
            *before.messages[: spliced["start"]],
            *map(_message_of, spliced["new"]),
            *before.messages[len(before.messages) - spliced["end"] :],
        ]
        fields["loop_start"] = _moved(before, spliced)
    return replace(before, **fields)


def _moved(before: ModelRequest, spliced: Json) -> int:
    """Return where the task begins in the edited messages."""
    start, end, added = int(spliced["start"]), int(spliced["end"]), len(spliced["new"])
    at, total = before.loop_start, len(before.messages)
    if at < start:
        return at
    if at >= total - end:
        return at - (total - end - start) + added
    return min(at, start + max(added - 1, 0))


@cache
def _field_types(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


_REQUEST: Editable[ModelRequest] = Editable(
    kind=ModelRequest,
    copied=_private,
    difference=_request_difference,
    edited=_edited_request,
)

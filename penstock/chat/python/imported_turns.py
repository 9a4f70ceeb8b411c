"""Messages of another system as turns of a conversation: what a person wrote, and what followed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from msgspec import Struct, field

from penstock.core.call import CallPath
from penstock.core.call import ToolCall as RequestedCall
from penstock.core.envelope import Envelope
from penstock.core.errors import InvalidRequest
from penstock.core.events.events import CallSettled, Entry, ReplyReceived, TaskEnded
from penstock.core.ids import CallId, MessageId, NewId, TaskId
from penstock.core.json_values.json_text import compact, parse_json
from penstock.core.reply import AssistantMessage, Message, UserMessage
from penstock.core.task import TaskStatus

LEFT_OUT = {"system", "developer"}
"""Roles of other APIs that are left out: an agent has its own instructions."""


class ImportedCall(Struct):
    """A call of an imported reply, and the text of its result."""

    id: str
    name: str
    arguments: dict[str, Any]
    result: str | None = None


class ImportedReply(Struct):
    """A reply of a model: a text, and the calls that it asked for."""

    text: str
    calls: list[ImportedCall] = field(default_factory=list)


class ImportedTurn(Struct):
    """A message of a person, and the replies that followed."""

    text: str
    replies: list[ImportedReply] = field(default_factory=list)

    def entries(self, task_id: TaskId, base: int, new_id: NewId) -> list[Entry]:
        """Return the events of the turn after its start, which is event `base`."""
        entries: list[Entry] = []
        message_id = MessageId(new_id("msg"))
        for iteration, reply in enumerate(self.replies, 1):
            message_id = MessageId(new_id("msg"))
            ids = [CallId(new_id("tc")) for _ in reply.calls]
            calls = tuple(
                RequestedCall(call_id, call.name, call.arguments)
                for call_id, call in zip(ids, reply.calls, strict=True)
            )
            received = ReplyReceived(
                iteration=iteration,
                base=base + len(entries),
                text=reply.text,
                message_id=message_id,
                calls=calls,
                finish="tool_calls" if calls else "stop",
            )
            entries.append(Entry(received, task_id))
            for call_id, call in zip(ids, reply.calls, strict=True):
                settled = CallSettled(
                    tool_id=call.name,
                    envelope=Envelope.success(call.result),
                    call_id=call_id,
                    context=call.result or "",
                    is_text=True,
                )
                path = CallPath(f"{task_id}/{iteration}/{call.name}#{call_id}")
                entries.append(Entry(settled, task_id, path))
        text = self.replies[-1].text if self.replies else ""
        end = TaskEnded(
            status=TaskStatus.SUCCEEDED,
            message_id=message_id,
            content=text,
            finish_reason="stop",
            iterations=len(self.replies),
        )
        return [*entries, Entry(end, task_id)]


def read_turns(messages: Iterable[Message | Mapping[str, Any]]) -> Sequence[ImportedTurn]:
    """Return messages as turns. Raises InvalidRequest for one that cannot be read or placed."""
    turns: list[ImportedTurn] = []
    open_calls: dict[str, ImportedCall] = {}
    number = -1
    for number, message in enumerate(messages):
        role, text, calls = _read(message, number)
        if role in LEFT_OUT:
            continue
        if role == "tool":
            call = open_calls.pop(str(calls[0].id), None) or _refuse(number, "answers no open call")
            call.result = text
            continue
        if open_calls:
            _refuse(number, f"comes before the results of {', '.join(open_calls)}")
        if role == "user":
            turns.append(ImportedTurn(text))
        elif not turns:
            _refuse(number, "is an answer before the first message of a person")
        else:
            turns[-1].replies.append(ImportedReply(text, calls))
            open_calls = {call.id: call for call in calls if call.result is None}
    if open_calls:
        _refuse(number, f"is the last one, and {', '.join(open_calls)} has no result")
    if not turns:
        _refuse(0, "is missing: a conversation begins with a message of a person")
    return turns


def _read(message: object, number: int) -> tuple[str, str, list[ImportedCall]]:
    """Return the role, the text and the calls of a message."""
    if isinstance(message, UserMessage):
        return "user", message.text, []
    if isinstance(message, AssistantMessage):
        calls = [
            ImportedCall(each.id, each.tool, each.input, _result(each.output))
            for each in message.calls
        ]
        return "assistant", message.text, calls
    if not isinstance(message, Mapping):
        _refuse(number, "must be a Message or an object with role and content")
    role = message.get("role")
    if role not in {"user", "assistant", "tool", *LEFT_OUT}:
        _refuse(number, f"has the role {role!r}; wanted user, assistant, tool or system")
    text = "".join(_texts(message.get("content"), number))
    if role == "user" and not text.strip():
        _refuse(number, "is blank")
    if role == "tool":
        return role, text, [ImportedCall(str(message.get("tool_call_id")), "", {})]
    return str(role), text, [_call(each, number) for each in message.get("tool_calls") or ()]


def _texts(content: object, number: int) -> Iterator[str]:
    if content is None or isinstance(content, str):
        yield content or ""
        return
    if not isinstance(content, Sequence):
        _refuse(number, "must have a text, or a list of parts, as its content")
    for part in content:
        if isinstance(part, Mapping) and isinstance(part.get("text"), str):
            yield part["text"]
        else:
            _refuse(number, "has a part that is not a text")


def _call(call: object, number: int) -> ImportedCall:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not (isinstance(call, Mapping) and isinstance(function, Mapping)):
        _refuse(number, "has a call without a function")
    arguments = function.get("arguments")
    try:
        read = parse_json(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        read = None
    if not isinstance(read, dict):
        _refuse(number, "has a call whose arguments are not a JSON object")
    return ImportedCall(str(call.get("id")), str(function.get("name")), read)


def _result(output: object) -> str:
    return output if isinstance(output, str) else compact(output)


def _refuse(number: int, issue: str) -> NoReturn:
    raise InvalidRequest([{"field": f"/messages/{number}", "issue": issue}])

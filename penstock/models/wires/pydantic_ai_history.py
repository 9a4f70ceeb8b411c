"""Conversations as Pydantic AI's messages, and its replies as carries.

Guarantees that a reply goes back to its provider as the library read it: with signatures, encrypted
reasoning and the provider's ids of calls, also after a restart. How: the carry has one part, the
whole `ModelResponse` as JSON without its usage and time; the library compares its `provider_name`
and decides which artefacts to send. A reply whose text or calls are no longer those of the message
is sent as text and calls, and so is one of another provider or family.

A provider that signs thinking together with everything before it (`binds`) receives thinking only
if a SHA-256 over tools and messages is the one that was stored with the reply. Proof:
tests/models/wires/test_pydantic_ai_history.py and tests/journeys/test_adapter_carry.py.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from pydantic_ai import messages
from pydantic_ai.tools import ToolDefinition

from penstock.core.messages import (
    AssistantMessage,
    Carry,
    Message,
    Part,
    TextPart,
    ToolMessage,
    UserMessage,
)
from penstock.models.model import ModelRequest
from penstock.models.wires.carries import compact
from penstock.models.wires.parts import label_of
from penstock.models.wires.wire_names import WireNames

RESPONSE = "pydantic_ai"
"""The kind of the only part of a carry."""
_LEFT_OUT = {"usage", "timestamp", "run_id", "conversation_id", "metadata"}
_TIMELESS: Any = {"__all__": {"timestamp": True, "parts": {"__all__": {"timestamp"}}}}


def carry_of_reply(
    reply: messages.ModelResponse, own: tuple[str, str], prefix: str
) -> Carry | None:
    """Return the carry of a reply; None if the provider needs nothing of it again.

    `own` is the provider and the family of the model.
    """
    if not any(map(_has_more, reply.parts)):
        return None
    adapter = messages.ModelMessagesTypeAdapter
    # No warnings: a provider may send other types than the library declares.
    (dumped,) = adapter.dump_python(
        [reply], mode="json", exclude={"__all__": _LEFT_OUT}, warnings=False
    )
    response = {name: value for name, value in dumped.items() if value is not None}
    response["parts"] = [
        {name: value for name, value in part.items() if value is not None}
        for part in response["parts"]
    ]
    return Carry(*own, prefix, ({"type": RESPONSE, "response": response},))


def _has_more(part: messages.ModelResponsePart) -> bool:
    """Whether a part has more than the text that the log keeps of it anyway."""
    return not isinstance(part, messages.TextPart) or bool(part.id or part.provider_details)


class History:
    """The messages of one request."""

    def __init__(
        self,
        request: ModelRequest,
        names: WireNames,
        own: tuple[str, str],
        tools: Sequence[ToolDefinition],
        *,
        binds: bool,
    ) -> None:
        self.lacks_thinking = False
        """A reply of the current task that asked for calls is sent without its thinking."""
        self.messages: list[messages.ModelMessage] = []
        self._names = names
        self._own = own
        self._hash = sha256() if binds else None
        self._calls: dict[str, messages.ToolCallPart] = {}
        """The calls of the provider's own replies, by our ids."""
        self._parts: list[messages.ModelRequestPart] = []
        self._shown: list[messages.ModelRequestPart] = []
        """Images of results: they follow all results of a reply."""
        if self._hash is not None:
            schemas = [(each.name, each.description, each.parameters_json_schema) for each in tools]
            self._hash.update(compact(schemas).encode())
        if request.system:
            self._parts.append(messages.SystemPromptPart(request.system))
        for index, message in enumerate(request.messages):
            self._add(message, is_of_task=index >= request.loop_start)
        self._end_request()

    @property
    def prefix(self) -> str:
        """The hash of tools and messages; empty unless the model binds thinking to them."""
        return "" if self._hash is None else self._hash.hexdigest()

    def _add(self, message: Message, *, is_of_task: bool) -> None:
        if not isinstance(message, ToolMessage):
            self._parts, self._shown = self._parts + self._shown, []
        match message:
            case UserMessage():
                self._parts.append(_prompt(message))
            case ToolMessage():
                self._parts.append(self._result(message))
                self._shown += _images_of(message)
            case AssistantMessage():
                self._end_request()
                reply = self._reply(message)
                if reply.parts:
                    self._put(reply)
                has_thinking = any(isinstance(each, messages.ThinkingPart) for each in reply.parts)
                if message.calls and is_of_task and not has_thinking:
                    self.lacks_thinking = True

    def _end_request(self) -> None:
        """Add the inputs since the last reply, as one request of the library."""
        parts, self._parts, self._shown = self._parts + self._shown, [], []
        if parts:
            self._put(messages.ModelRequest(parts))

    def _put(self, message: messages.ModelMessage) -> None:
        self.messages.append(message)
        if self._hash is not None:
            adapter = messages.ModelMessagesTypeAdapter
            self._hash.update(adapter.dump_json([message], exclude=_TIMELESS))

    def _result(self, message: ToolMessage) -> messages.ToolReturnPart:
        call = self._calls.get(message.call_id)
        name = self._names.sent(message.name) if call is None else call.tool_name
        call_id = message.call_id if call is None else call.tool_call_id
        return messages.ToolReturnPart(name, message.content, tool_call_id=call_id)

    def _reply(self, message: AssistantMessage) -> messages.ModelResponse:
        carry = message.carry
        if carry is None or (carry.provider, carry.family) != self._own:
            return self._plain(message)
        reply = _loaded(carry)
        if reply is None or not _is_of(message, reply):
            return self._plain(message)
        calls = [each for each in reply.parts if isinstance(each, messages.ToolCallPart)]
        for call, part in zip(message.calls, calls, strict=True):
            # A name that the model invented may be one that the provider refuses in a request.
            part.tool_name = self._names.sent(call.name)
            self._calls[call.call_id] = part
        if self._hash is not None and carry.prefix != self.prefix:
            reply.parts = [
                each for each in reply.parts if not isinstance(each, messages.ThinkingPart)
            ]
        return reply

    def _plain(self, message: AssistantMessage) -> messages.ModelResponse:
        text = [messages.TextPart(message.content)] if message.content else []
        calls = [
            messages.ToolCallPart(
                self._names.sent(each.name), each.arguments, tool_call_id=each.call_id
            )
            for each in message.calls
        ]
        return messages.ModelResponse([*text, *calls])


def _loaded(carry: Carry) -> messages.ModelResponse | None:
    """Return the reply of a carry; None if this version of the library cannot read it."""
    stored = [part.get("response") for part in carry.parts if part.get("type") == RESPONSE]
    try:
        (reply,) = messages.ModelMessagesTypeAdapter.validate_python(stored)
    except ValueError:
        return None
    return reply if isinstance(reply, messages.ModelResponse) else None


def _is_of(message: AssistantMessage, reply: messages.ModelResponse) -> bool:
    """Whether a reply still is that of the message: hooks may change it, the limit may cut it."""
    said = [part.content for part in reply.parts if isinstance(part, messages.TextPart)]
    calls = [part for part in reply.parts if isinstance(part, messages.ToolCallPart)]
    return "".join(said) == message.content and len(calls) == len(message.calls)


def _images_of(message: ToolMessage) -> list[messages.ModelRequestPart]:
    images = [_content(each) for each in message.parts if not isinstance(each, TextPart)]
    return [messages.UserPromptPart([label_of(message), *images])] if images else []


def _prompt(message: UserMessage) -> messages.UserPromptPart:
    return messages.UserPromptPart([_content(each) for each in message.parts] or message.content)


def _content(part: Part) -> messages.UserContent:
    if isinstance(part, TextPart):
        return part.text
    return messages.BinaryContent(part.content, media_type=part.mime_type)

"""A fake of the chat API that refuses what OpenAI and DeepSeek refuse.

As DeepSeek, it reasons in `reasoning_content` and requires that text again in each reply with calls
since the last message of a person; an empty one where it did not reason.
"""

import json
from collections.abc import Sequence
from typing import Any

from openai.types.chat import ChatCompletionContentPartParam
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from pydantic import TypeAdapter, ValidationError

from tests.kit.fakes.provider import (
    Asked,
    FakeProvider,
    Fault,
    Refused,
    RefusedRequest,
    Reply,
    Said,
    Thought,
    check_strict,
    pieces,
)

PARAMS: TypeAdapter[Any] = TypeAdapter(CompletionCreateParamsStreaming)
PARTS: TypeAdapter[Any] = TypeAdapter(list[ChatCompletionContentPartParam])
FIELD = "reasoning_content"
Item = dict[str, Any]


class FakeChat(FakeProvider):
    """A server with the chat API; with `is_deepseek` as DeepSeek has it."""

    unknown = b'event: quite_new\ndata: {"object":"quite.new"}\n\n'

    def __init__(self, *answers: Reply | Fault, is_deepseek: bool = False) -> None:
        super().__init__(*answers)
        self.is_deepseek = is_deepseek
        self._thoughts: set[str] = {""}

    def check(self, body: dict[str, Any], head: str) -> None:
        if not head.startswith("POST /v1/chat/completions HTTP/1.1"):
            raise RefusedRequest("Not found", status=404)
        _check_order(body["messages"])
        _check_fields(body)
        if wanted := (body.get("response_format") or {}).get("json_schema"):
            check_strict(wanted["schema"])
        if self.is_deepseek:
            self._check_reasoning(body["messages"])

    def events(self, reply: Reply, body: dict[str, Any]) -> Sequence[bytes]:
        answered = self.number(body)
        read, cached = self.tokens(body)
        deltas: list[Item] = [{"role": "assistant", "content": ""}]
        calls = 0
        for part in reply.parts:
            match part:
                case Thought(text):
                    self._thoughts.add(text)
                    deltas += [{FIELD: piece, "content": None} for piece in pieces(text)]
                case Said(text):
                    deltas += [{"content": piece} for piece in pieces(text)]
                case Refused(text):
                    deltas += [{"refusal": piece} for piece in pieces(text)]
                case Asked():
                    deltas += _call_deltas(part, calls, f"call_{answered}_{calls}")
                    calls += 1
        stop = reply.stop or ("tool_calls" if calls else "stop")
        usage: Item = {
            "prompt_tokens": read,
            "completion_tokens": 9,
            "total_tokens": read + 9,
            "prompt_tokens_details": {"cached_tokens": cached},
            "completion_tokens_details": {"reasoning_tokens": 4},
        }
        chunk: Item = {
            "id": f"chatcmpl-{answered}",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": body["model"],
        }
        choices: list[Item] = [
            {"index": 0, "delta": each, "finish_reason": None} for each in deltas
        ]
        choices.append({"index": 0, "delta": {}, "finish_reason": stop})
        chunks = [{**chunk, "choices": [each]} for each in choices]
        chunks.append({**chunk, "choices": [], "usage": usage})
        return [*(f"data: {json.dumps(each)}\n\n".encode() for each in chunks), b"data: [DONE]\n\n"]

    def error(self, fault: Fault) -> dict[str, Any]:
        return {"error": {"message": fault.message, "type": fault.code, "code": fault.code}}

    def error_event(self, fault: Fault) -> bytes:
        return f"data: {json.dumps(self.error(fault))}\n\n".encode()

    def prefix(self, body: dict[str, Any]) -> str:
        return json.dumps([body.get("tools"), body["messages"]])

    def _check_reasoning(self, messages: list[Item]) -> None:
        """Refuse a reply with calls, of any task, without the reasoning that it came with."""
        for message in messages:
            text = message.get(FIELD)
            if message.get("tool_calls") and text not in self._thoughts:
                raise RefusedRequest(
                    f"The `reasoning_content` in the thinking mode must be passed back: {text!r}"
                )


def _call_deltas(part: Asked, index: int, call_id: str) -> list[Item]:
    start = {"name": part.name, "arguments": ""}
    opened = {"index": index, "id": call_id, "type": "function", "function": start}
    rest = [
        {"index": index, "function": {"arguments": piece}}
        for piece in pieces(json.dumps(part.arguments))
    ]
    return [{"tool_calls": [each]} for each in (opened, *rest)]


def _check_fields(body: dict[str, Any]) -> None:
    plain = [{k: v for k, v in each.items() if k != FIELD} for each in body["messages"]]
    lists = [each for each in plain if isinstance(each.get("content"), list)]
    parts = [part for each in lists for part in each["content"]]
    for each in lists:
        each["content"] = "parts"  # a union with an iterable is read lazily: they have their own
    sent = {**body, "messages": plain}
    try:
        if json.loads(PARTS.dump_json(PARTS.validate_python(parts))) != parts:
            raise RefusedRequest(f"Unknown parameter in a part of a message: {parts}")
        known = json.loads(PARAMS.dump_json(PARAMS.validate_python(sent)))
    except ValidationError as error:
        raise RefusedRequest(f"Invalid value: {error}") from error
    if known != sent:
        unknown = sorted(name for name in sent if known.get(name) != sent[name])
        raise RefusedRequest(f"Unknown parameter: {unknown}", "unknown_parameter")
    if not body.get("tools") and {"tool_choice", "parallel_tool_calls"} & body.keys():
        raise RefusedRequest("'parallel_tool_calls' is only allowed when 'tools' are specified.")


def _check_order(messages: list[Item]) -> None:
    """Check that the results of the calls of a reply follow it at once, each of them once."""
    waiting: set[str] = set()
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                raise RefusedRequest(
                    "messages with role 'tool' must be a response to a preceding message with "
                    "'tool_calls'."
                )
            waiting.remove(message["tool_call_id"])
            if not isinstance(message["content"], str):
                raise RefusedRequest("Image URLs are only allowed for messages with role 'user'.")
            continue
        if waiting:
            raise RefusedRequest(
                "An assistant message with 'tool_calls' must be followed by tool messages "
                f"responding to each 'tool_call_id': {sorted(waiting)}"
            )
        waiting = {each["id"] for each in message.get("tool_calls") or ()}
    if waiting:
        raise RefusedRequest(f"No result of {sorted(waiting)}")

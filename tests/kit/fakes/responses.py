"""A fake of OpenAI's Responses API that refuses what the real one refuses.

It stores nothing. Reasoning is sealed: its encrypted content holds for one model, one organization
and one place in one reply, and the item that followed it has to follow it again. The encrypted
content of `response.output_item.added` is incomplete, as at the real one.
"""

import itertools
import json
import re
from collections.abc import Sequence
from typing import Any

from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
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
    event,
    pieces,
    sealed,
)

PARAMS: TypeAdapter[Any] = TypeAdapter(ResponseCreateParamsStreaming)
NEVER = ("previous_response_id", "conversation", "background", "truncation")
_ORGANIZATION = re.compile(r"\r\nopenai-organization: ([!-~]+)", re.IGNORECASE)
Item = dict[str, Any]


class FakeResponses(FakeProvider):
    """OpenAI's Responses API."""

    def __init__(self, *answers: Reply | Fault, organization: str = "org-1") -> None:
        super().__init__(*answers)
        self.organization = organization
        self.summaries = True
        """Whether reasoning has a summary."""
        self._followers: dict[str, str] = {}
        """The id of the item after each reasoning item."""
        self._leaders: dict[str, str] = {}
        self._places: dict[str, int] = {}

    def check(self, body: dict[str, Any], head: str) -> None:
        if not head.startswith("POST /v1/responses HTTP/1.1"):
            raise RefusedRequest("Not found", status=404)
        if "authorization: bearer " not in head.lower():
            raise RefusedRequest("You didn't provide an API key.", "invalid_api_key", 401)
        if named := _ORGANIZATION.search(head):
            self.organization = named[1]
        _check_fields(body)
        _check_format(body)
        self._check_input(body)

    def events(self, reply: Reply, body: dict[str, Any]) -> Sequence[bytes]:
        answered = self.number(body)
        output = self._output(reply, body, answered)
        read, cached = self.tokens(body)
        status = "incomplete" if reply.stop else "completed"
        response = {
            "id": f"resp_{answered}",
            "object": "response",
            "created_at": 1,
            "model": body["model"],
            "status": "in_progress",
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
        end = {
            **response,
            "status": status,
            "output": output,
            "incomplete_details": {"reason": reply.stop} if reply.stop else None,
            "usage": {
                "input_tokens": read,
                "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
                "output_tokens": 9,
                "output_tokens_details": {"reasoning_tokens": 4},
                "total_tokens": read + 9,
            },
        }
        found: list[Item] = [
            {"type": "response.created", "response": response},
            {"type": "response.in_progress", "response": response},
        ]
        for index, item in enumerate(output):
            found += ({**each, "output_index": index} for each in _item_events(item))
        found.append({"type": f"response.{status}", "response": end})
        return [event({**each, "sequence_number": number}) for number, each in enumerate(found, 1)]

    def whole(self, reply: Reply, body: dict[str, Any]) -> dict[str, Any]:
        last = self.events(reply, body)[-1].partition(b"\ndata: ")[2]
        response: Item = json.loads(last)["response"]
        return response

    def error(self, fault: Fault) -> dict[str, Any]:
        return {"error": {"message": fault.message, "type": fault.code, "code": fault.code}}

    def error_event(self, fault: Fault) -> bytes:
        return event({"type": "error", "code": fault.code, "message": fault.message, "param": None})

    def prefix(self, body: dict[str, Any]) -> str:
        return json.dumps([body.get(name) for name in ("tools", "instructions", "input")])

    def _output(self, reply: Reply, body: dict[str, Any], answered: int) -> list[Item]:
        output = [
            self._item(part, f"{answered}_{at}", at, body) for at, part in enumerate(reply.parts)
        ]
        for item, after in itertools.pairwise(output):
            if item["type"] == "reasoning":
                self._followers[item["id"]] = after["id"]
                self._leaders[after["id"]] = item["id"]
        return output

    def _item(self, part: Any, name: str, at: int, body: dict[str, Any]) -> Item:
        match part:
            case Thought():
                summary = [{"type": "summary_text", "text": part.text}] if part.text else []
                self._places[f"rs_{name}"] = at
                return {
                    "type": "reasoning",
                    "id": f"rs_{name}",
                    "summary": summary if self.summaries else [],
                    "encrypted_content": self._seal(f"rs_{name}", body["model"]),
                }
            case Asked():
                return {
                    "type": "function_call",
                    "id": f"fc_{name}",
                    "call_id": f"call_{name}",
                    "name": part.name,
                    "arguments": json.dumps(part.arguments),  # with blanks: not as a client would
                    "status": "completed",
                }
            case Said() | Refused():
                said = {"type": "output_text", "text": part.text, "annotations": []}
                refused = {"type": "refusal", "refusal": part.text}
                return {
                    "type": "message",
                    "id": f"msg_{name}",
                    "role": "assistant",
                    "status": "completed",
                    "phase": "final_answer",
                    "content": [refused if isinstance(part, Refused) else said],
                }
        raise AssertionError(part)

    def _seal(self, item: str, model: str) -> str:
        return sealed(item, model, self.organization, self._places[item])

    def _check_input(self, body: dict[str, Any]) -> None:
        items = body["input"]
        ids = [each.get("id") for each in items]
        called: set[str] = set()
        for number, item in enumerate(items):
            match item:
                case {"type": "reasoning"}:
                    after = ids[number + 1] if number + 1 < len(ids) else None
                    self._check_reasoning(item, after, body["model"])
                case {"type": "function_call"}:
                    called.add(item["call_id"])
                case {"type": "function_call_output", "call_id": call_id}:
                    if call_id not in called:
                        raise RefusedRequest(
                            f"No tool call found for function call output with call_id {call_id}."
                        )
                    called.remove(call_id)
            leader = self._leaders.get(item.get("id", ""))
            if leader is not None and leader not in ids[:number]:
                raise RefusedRequest(
                    f"Item {item['id']!r} of type {item['type']!r} was provided without its "
                    f"required 'reasoning' item: {leader!r}."
                )
        if called:
            raise RefusedRequest(f"No tool output found for function call {min(called)}.")

    def _check_reasoning(self, item: Item, after: str | None, model: str) -> None:
        name = item["id"]
        if name not in self._places:
            raise RefusedRequest(f"Item with id {name!r} not found.", status=404)
        if item.get("encrypted_content") != self._seal(name, model):
            raise RefusedRequest(
                f"The encrypted content for item {name} could not be verified.",
                "invalid_encrypted_content",
            )
        if after is None or after != self._followers.get(name):
            raise RefusedRequest(
                f"Item {name!r} of type 'reasoning' was provided without its required following "
                "item."
            )


def _check_fields(body: dict[str, Any]) -> None:
    try:
        known = json.loads(PARAMS.dump_json(PARAMS.validate_python(body)))
    except ValidationError as error:
        raise RefusedRequest(f"Invalid value: {error}") from error
    if known != body:
        unknown = sorted(name for name in body if known.get(name) != body[name])
        raise RefusedRequest(f"Unknown parameter: {unknown}", "unknown_parameter")
    if found := [name for name in NEVER if name in body]:
        raise RefusedRequest(f"Not to be used here: {found}")
    if body.get("store") is not False:
        raise RefusedRequest("store must be false: this organization retains nothing")
    effort = (body.get("reasoning") or {}).get("effort", "medium")
    if effort != "none" and {"temperature", "top_p"} & body.keys():
        raise RefusedRequest("Unsupported parameter: 'temperature' with reasoning.")
    if "tool_choice" in body and not body.get("tools"):
        raise RefusedRequest("Tool choice needs tools.")


def _check_format(body: dict[str, Any]) -> None:
    wanted = (body.get("text") or {}).get("format")
    if wanted is not None:
        check_strict(wanted["schema"])


def _item_events(item: Item) -> list[Item]:
    """Return the events of one item."""
    added, name = {**item}, item["id"]
    inner: list[Item] = []
    match item["type"]:
        case "reasoning":
            added |= {"encrypted_content": item["encrypted_content"][:8], "summary": []}
            for number, part in enumerate(item["summary"]):
                place = {"item_id": name, "summary_index": number}
                kind = "response.reasoning_summary"
                empty = {"type": "summary_text", "text": ""}
                inner.append({"type": f"{kind}_part.added", "part": empty, **place})
                inner += [
                    {"type": f"{kind}_text.delta", "delta": piece, **place}
                    for piece in pieces(part["text"])
                ]
                inner.append({"type": f"{kind}_text.done", "text": part["text"], **place})
                inner.append({"type": f"{kind}_part.done", "part": part, **place})
        case "function_call":
            added |= {"arguments": "", "status": "in_progress"}
            kind = "response.function_call_arguments"
            inner += [
                {"type": f"{kind}.delta", "item_id": name, "delta": piece}
                for piece in pieces(item["arguments"])
            ]
            whole = {"item_id": name, "arguments": item["arguments"], "name": item["name"]}
            inner.append({"type": f"{kind}.done", **whole})
        case _:
            added |= {"content": [], "status": "in_progress"}
            inner = _message_events(item)
    return [
        {"type": "response.output_item.added", "item": added},
        *inner,
        {"type": "response.output_item.done", "item": item},
    ]


def _message_events(item: Item) -> list[Item]:
    found: list[Item] = []
    for number, part in enumerate(item["content"]):
        place = {"item_id": item["id"], "content_index": number}
        field = "refusal" if part["type"] == "refusal" else "text"
        kind = "response.refusal" if field == "refusal" else "response.output_text"
        logs: Item = {} if field == "refusal" else {"logprobs": []}
        found.append({"type": "response.content_part.added", "part": {**part, field: ""}, **place})
        found += [
            {"type": f"{kind}.delta", "delta": piece, **logs, **place}
            for piece in pieces(part[field])
        ]
        found.append({"type": f"{kind}.done", field: part[field], **logs, **place})
        found.append({"type": "response.content_part.done", "part": part, **place})
    return found

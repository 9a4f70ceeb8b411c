"""A fake of Google's Gemini API that refuses what the real one refuses.

Each reply signs its first call, and its text. In the current turn the first call of each reply has
to come back with its signature; the dummy that Google documents is accepted and counted.
"""

import base64
import json
from collections.abc import Sequence
from typing import Any

from google.genai.types import Content, GenerationConfig, Tool, ToolConfig
from pydantic import ValidationError

from tests.kit.fakes.provider import (
    Asked,
    FakeProvider,
    Fault,
    Refused,
    RefusedRequest,
    Reply,
    Said,
    Thought,
    pieces,
    sealed,
)

DUMMY = "skip_thought_signature_validator"
MEMBERS = {
    "contents",
    "generationConfig",
    "safetySettings",
    "serviceTier",
    "systemInstruction",
    "toolConfig",
    "tools",
}
Item = dict[str, Any]


class FakeGoogle(FakeProvider):
    """The Gemini API, one model of it."""

    unknown = b'data: {"quiteNew":true}\n\n'

    def __init__(self, *answers: Reply | Fault) -> None:
        super().__init__(*answers)
        self.dummies = 0
        """Calls that came back without a signature of their own."""

    def check(self, body: dict[str, Any], head: str) -> None:
        if ":streamGenerateContent?alt=sse" not in head.splitlines()[0]:
            raise RefusedRequest("Not found", "NOT_FOUND", 404)
        if "x-goog-api-key:" not in head.lower():
            raise RefusedRequest("API key not valid.", "UNAUTHENTICATED", 401)
        if unknown := body.keys() - MEMBERS:
            raise RefusedRequest(f"Unknown name {min(unknown)!r}", "INVALID_ARGUMENT")
        try:
            for content in body["contents"]:
                Content.model_validate(content)
            for tool in body.get("tools", ()):
                Tool.model_validate(tool)
            GenerationConfig.model_validate(body.get("generationConfig", {}))
            ToolConfig.model_validate(body.get("toolConfig", {}))
        except ValidationError as error:
            raise RefusedRequest(f"Invalid JSON payload: {error}", "INVALID_ARGUMENT") from error
        self._check_contents(body["contents"])

    def events(self, reply: Reply, body: dict[str, Any]) -> Sequence[bytes]:
        number = self.number(body)
        parts = _parts(reply, number)
        chunks: list[Item] = [
            {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]}
            for part in parts
        ]
        chunks.append(
            {
                "candidates": [
                    {
                        "content": {"role": "model", "parts": []},
                        "finishReason": reply.stop or "STOP",
                        "index": 0,
                    }
                ],
                "usageMetadata": {
                    "promptTokenCount": 20,
                    "cachedContentTokenCount": 8,
                    "candidatesTokenCount": 5,
                    "thoughtsTokenCount": 4,
                    "totalTokenCount": 29,
                },
            }
        )
        shared = {"modelVersion": "gemini-3-pro", "responseId": f"reply{number}"}
        return [f"data: {json.dumps({**chunk, **shared})}\n\n".encode() for chunk in chunks]

    def is_streamed(self, body: dict[str, Any]) -> bool:
        return True  # the address says it

    def error(self, fault: Fault) -> dict[str, Any]:
        return {"error": {"code": fault.status, "message": fault.message, "status": fault.code}}

    def error_event(self, fault: Fault) -> bytes:
        error = {"error": {"code": 503, "message": fault.message, "status": "UNAVAILABLE"}}
        return f"data: {json.dumps(error)}\n\n".encode()

    def _check_contents(self, contents: list[Item]) -> None:
        asked = [index for index, each in enumerate(contents) if "text" in each["parts"][-1]]
        turn = max(index for index in asked if contents[index]["role"] == "user")
        waiting: list[str] = []
        for index, content in enumerate(contents):
            parts = content["parts"]
            answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
            if [each["id"] for each in answers] != waiting:
                raise RefusedRequest(
                    "Please ensure that the number of function response parts is equal to the "
                    "number of function call parts of the function call turn.",
                    "INVALID_ARGUMENT",
                )
            calls = [part for part in parts if "functionCall" in part]
            waiting = [part["functionCall"]["id"] for part in calls]
            if calls and index > turn:
                self._check_signature(calls[0])

    def _check_signature(self, part: Item) -> None:
        signature = base64.b64decode(part.get("thoughtSignature", "").translate(_STANDARD)).decode()
        if signature == DUMMY:
            self.dummies += 1
        elif signature != sealed(part["functionCall"]["id"]):
            raise RefusedRequest(
                "Function call is missing a thought_signature in functionCall parts.",
                "INVALID_ARGUMENT",
            )


_STANDARD = str.maketrans("-_", "+/")


def _parts(reply: Reply, number: int) -> list[Item]:
    parts: list[Item] = []
    is_signed = False
    for at, part in enumerate(reply.parts):
        match part:
            case Thought():
                parts += [{"text": piece, "thought": True} for piece in pieces(part.text)]
            case Asked():
                name = f"call-{number}-{at}"
                call = {"name": part.name, "args": part.arguments, "id": name}
                signature = {} if is_signed else {"thoughtSignature": _encoded(sealed(name))}
                parts.append({"functionCall": call, **signature})
                is_signed = True
            case Said() | Refused():
                parts += [{"text": piece} for piece in pieces(part.text)]
    return parts


def _encoded(signature: str) -> str:
    return base64.b64encode(signature.encode()).decode()

"""Replies as carries and back: whole to their own provider, text and calls to any other."""

from typing import Any

import pytest
from msgspec.structs import replace
from pydantic_ai import messages

from penstock.core.call import ToolCall
from penstock.core.ids import CallId
from penstock.core.messages import (
    AssistantMessage,
    AudioPart,
    Carry,
    DocumentPart,
    ImagePart,
    Message,
    TextPart,
    ToolMessage,
    UserMessage,
)
from penstock.models.model import ModelRequest
from penstock.models.wires.pydantic_ai_history import History, carry_of_reply
from penstock.models.wires.wire_names import WireNames

pytestmark = pytest.mark.programs
OWN = ("pydantic_ai:google@g.example", "google")
REPLY = messages.ModelResponse(
    [
        messages.ThinkingPart("hm", signature="c2ln", provider_name="google"),
        messages.TextPart("So:"),
        messages.ToolCallPart("look", {"n": 1}, tool_call_id="call-1"),
    ],
    provider_name="google",
    provider_response_id="r1",
    finish_reason="tool_call",
)
CALL = ToolCall(CallId("tc_1"), "look", {"n": 1})


def carried(reply: messages.ModelResponse = REPLY, prefix: str = "") -> Carry:
    carry = carry_of_reply(reply, OWN, prefix)
    assert carry is not None
    return carry


def said(carry: Carry | None, **changes: Any) -> AssistantMessage:
    return replace(AssistantMessage("So:", (CALL,), carry), **changes)


def history(*newer: Message, binds: bool = False, system: str = "Be brief.") -> History:
    request = ModelRequest(system=system, messages=[UserMessage("Go"), *newer])
    return History(request, WireNames(request), OWN, [], binds=binds)


def parts_of(history: History) -> list[messages.ModelResponsePart]:
    """Return the parts of the first reply."""
    found = next(each for each in history.messages if isinstance(each, messages.ModelResponse))
    return list(found.parts)


def test_a_reply_comes_back_as_it_was_and_results_use_its_ids() -> None:
    made = history(said(carried()), ToolMessage(CallId("tc_1"), "look", "seen"))
    assert parts_of(made) == list(REPLY.parts)
    last = made.messages[-1].parts[0]
    assert isinstance(last, messages.ToolReturnPart)
    assert (last.tool_call_id, last.tool_name, last.content) == ("call-1", "look", "seen")
    assert made.lacks_thinking is False


def test_a_carry_has_neither_usage_nor_time() -> None:
    (part,) = carried().parts
    assert part["response"].keys() == {
        "parts",
        "kind",
        "provider_name",
        "provider_response_id",
        "finish_reason",
        "state",
    }


@pytest.mark.parametrize(
    "reply",
    [
        messages.ModelResponse([messages.TextPart("Hi")]),
        messages.ModelResponse([]),
    ],
)
def test_a_reply_of_plain_text_needs_no_carry(reply: messages.ModelResponse) -> None:
    assert carry_of_reply(reply, OWN, "") is None


FOREIGN = Carry("pydantic_ai:google@other.example", "google", "", carried().parts)


@pytest.mark.parametrize(
    "message",
    [
        said(None),
        said(FOREIGN),
        said(replace(carried(), family="google-cloud")),
        said(carried(), content="So"),
        said(carried(), calls=(CALL, CALL)),
        said(replace(carried(), parts=({"type": "pydantic_ai", "response": {"kind": "later"}},))),
        said(replace(carried(), parts=({"type": "text", "chars": 3},))),
        said(replace(carried(), parts=())),
    ],
    ids=[
        *("none", "another address", "another family", "changed text", "changed calls"),
        *("of another version", "of another wire", "empty"),
    ],
)
def test_a_carry_that_does_not_fit_is_left_out(message: AssistantMessage) -> None:
    made = history(message)
    found = parts_of(made)
    assert isinstance(found[0], messages.TextPart)
    assert not any(isinstance(each, messages.ThinkingPart) for each in found)
    assert made.lacks_thinking is True


def test_arguments_that_a_hook_changed_are_those_of_the_model_to_the_provider() -> None:
    changed = replace(CALL, arguments={"n": 2})
    last = parts_of(history(said(carried(), calls=(changed,))))[-1]
    assert isinstance(last, messages.ToolCallPart)
    assert last.args == {"n": 1}


def test_bound_thinking_returns_only_after_the_same_messages() -> None:
    before = history(binds=True).prefix
    assert before
    again = history(said(carried(prefix=before)), binds=True)
    assert parts_of(again) == list(REPLY.parts)
    other = history(said(carried(prefix=before)), binds=True, system="Be kind.")
    assert parts_of(other) == list(REPLY.parts)[1:]
    assert other.lacks_thinking is True
    assert history().prefix == ""


@pytest.mark.parametrize(
    "part",
    [
        ImagePart(content=b"i", mime_type="image/png"),
        DocumentPart(content=b"d", mime_type="application/pdf", name="d.pdf"),
        AudioPart(content=b"a", mime_type="audio/wav"),
    ],
)
def test_files_are_sent_with_their_type(part: ImagePart | DocumentPart | AudioPart) -> None:
    request = ModelRequest(system="", messages=[UserMessage("?", (), (part, TextPart("?")))])
    made = History(request, WireNames(request), OWN, [], binds=False)
    prompt = made.messages[0].parts[0]
    assert isinstance(prompt, messages.UserPromptPart)
    file, text = list(prompt.content)
    assert isinstance(file, messages.BinaryContent)
    assert (file.data, file.media_type, text) == (part.content, part.mime_type, "?")

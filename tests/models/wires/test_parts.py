"""Images, PDF files and sound on each wire; the SDKs' own types check them."""

from typing import Any

import pytest
from anthropic.types import ContentBlockParam
from openai.types.chat import ChatCompletionContentPartParam
from openai.types.responses import ResponseInputMessageContentListParam
from pydantic import TypeAdapter

from penstock.core.ids import CallId
from penstock.core.messages import (
    AudioPart,
    DocumentPart,
    ImagePart,
    Part,
    TextPart,
    ToolMessage,
    UserMessage,
)
from penstock.models.wires.parts import (
    anthropic_blocks,
    chat_images,
    chat_parts,
    data_url,
    response_parts,
)

pytestmark = pytest.mark.conformance
IMAGE = ImagePart(content=b"PNG", mime_type="image/png")
PAPER = DocumentPart(content=b"PDF", mime_type="application/pdf", name="a.pdf")
SOUND = AudioPart(content=b"RIFF", mime_type="audio/wav")
TEXT = TextPart("What?")
EACH: list[Part] = [IMAGE, PAPER, SOUND, TEXT]

ON_CHAT: TypeAdapter[Any] = TypeAdapter(ChatCompletionContentPartParam)
ON_RESPONSES: TypeAdapter[Any] = TypeAdapter(ResponseInputMessageContentListParam)
ON_ANTHROPIC: TypeAdapter[Any] = TypeAdapter(ContentBlockParam)


@pytest.mark.parametrize("part", EACH, ids=lambda each: type(each).__name__)
def test_the_sdks_take_every_part(part: Part) -> None:
    message = UserMessage("", (), (part,))
    (chat,) = chat_parts(message)
    assert ON_CHAT.validate_python(chat, strict=True) == chat
    assert len(ON_RESPONSES.validate_python(response_parts(message))) == 1
    (block,) = anthropic_blocks(message)
    assert ON_ANTHROPIC.validate_python(block)["type"] == block["type"]


def test_a_message_of_text_alone_has_no_parts() -> None:
    message = UserMessage("What?")
    assert chat_parts(message) == response_parts(message) == []
    assert anthropic_blocks(message) == [{"type": "text", "text": "What?"}]
    assert anthropic_blocks(UserMessage("")) == []


def test_images_of_a_result_are_labelled_with_its_call() -> None:
    result = ToolMessage(CallId("tc_1"), "look", "above", parts=(TextPart("above"), IMAGE))
    label, image = chat_images(result)
    assert label == {"type": "text", "text": "[image of tc_1]"}
    assert image["image_url"]["url"] == data_url(IMAGE) == "data:image/png;base64,UE5H"
    assert chat_images(ToolMessage(CallId("tc_1"), "look", "above")) == []


@pytest.mark.parametrize("convert", [response_parts, anthropic_blocks])
def test_a_wire_without_sound_names_it(convert: Any) -> None:
    (said,) = convert(UserMessage("", (), (SOUND,)))
    assert said["text"] == "[audio/wav, 4 bytes; this model cannot read it]"

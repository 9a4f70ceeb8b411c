"""Parts of messages in the forms of the wires: images, PDF files and sound beside text."""

import base64
from typing import Any

from penstock.core.messages import (
    AudioPart,
    DocumentPart,
    ImagePart,
    Part,
    TextPart,
    ToolMessage,
    UserMessage,
)

FilePart = ImagePart | DocumentPart | AudioPart


def encoded(part: FilePart) -> str:
    """Return the bytes of a part as base64."""
    return base64.b64encode(part.content).decode()


def data_url(part: FilePart) -> str:
    """Return a part as a data URL."""
    return f"data:{part.mime_type};base64,{encoded(part)}"


def chat_parts(message: UserMessage) -> list[dict[str, Any]]:
    """Return the parts of a message for chat completions; none for a message of text alone."""
    return [_chat_part(each) for each in message.parts]


def chat_images(message: ToolMessage) -> list[dict[str, Any]]:
    """Return the images of a result for a user message: tool messages take text only."""
    images = [_chat_part(each) for each in message.parts if not isinstance(each, TextPart)]
    return [{"type": "text", "text": label_of(message)}, *images] if images else []


def label_of(message: ToolMessage) -> str:
    """Return the text before the images of a result that are sent apart from it."""
    return f"[image of {message.call_id}]"


def _chat_part(part: Part) -> dict[str, Any]:
    match part:
        case TextPart(text=text):
            return {"type": "text", "text": text}
        case ImagePart():
            return {"type": "image_url", "image_url": {"url": data_url(part), "detail": "auto"}}
        case DocumentPart(name=name):
            return {"type": "file", "file": {"filename": name, "file_data": data_url(part)}}
        case AudioPart(mime_type=mime_type):
            form = "mp3" if mime_type == "audio/mpeg" else "wav"
            return {"type": "input_audio", "input_audio": {"data": encoded(part), "format": form}}


def response_parts(message: UserMessage | ToolMessage) -> list[dict[str, Any]]:
    """Return the parts of a message for the Responses API; none for a message of text alone."""
    return [_response_part(each) for each in message.parts]


def _response_part(part: Part) -> dict[str, Any]:
    match part:
        case TextPart(text=text):
            return {"type": "input_text", "text": text}
        case ImagePart():
            return {"type": "input_image", "image_url": data_url(part), "detail": "auto"}
        case DocumentPart(name=name):
            return {"type": "input_file", "filename": name, "file_data": data_url(part)}
        case AudioPart():
            return {"type": "input_text", "text": _unread(part)}


def anthropic_blocks(message: UserMessage | ToolMessage) -> list[dict[str, Any]]:
    """Return a message as blocks of the Messages API. Empty texts are left out."""
    parts = message.parts or (TextPart(message.content),)
    return [block for block in map(_block, parts) if block.get("text") != ""]


def _block(part: Part) -> dict[str, Any]:
    match part:
        case TextPart(text=text):
            return {"type": "text", "text": text}
        case ImagePart():
            return {"type": "image", "source": _source(part)}
        case DocumentPart(name=name):
            return {"type": "document", "source": _source(part), "title": name}
        case AudioPart():
            return {"type": "text", "text": _unread(part)}


def _source(part: ImagePart | DocumentPart) -> dict[str, Any]:
    return {"type": "base64", "media_type": part.mime_type, "data": encoded(part)}


def _unread(part: AudioPart) -> str:
    """Return a line for sound on a wire that has none; no card of its models names audio."""
    return f"[{part.mime_type}, {len(part.content)} bytes; this model cannot read it]"

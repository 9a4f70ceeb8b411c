"""What a Python tool tells people and asks them, and what of it is a mistake of its author."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from penstock.core.envelope import Json
from penstock.core.events.events import NOTE_LEVELS, NoteEmitted
from penstock.core.json_values.json_text import is_larger
from penstock.core.json_values.schema import Schema
from penstock.core.limits import Limits
from penstock.core.task import Option
from penstock.core.text import size_text
from penstock.engine.answers import OTHER
from penstock.tools.invocation import QuestionForm
from penstock.tools.results.outputs import given_json

TYPE_CHARACTERS = 128
MESSAGE_CHARACTERS = 4096
MIME = re.compile(r"[\w.+-]{1,127}/[\w.+-]{1,127}(; ?[\w-]{1,64}=[\w.+-]{1,127}){0,4}", re.ASCII)


def checked_note(note: NoteEmitted, limits: Limits) -> NoteEmitted:
    """Return an event for the timeline. Raises ValueError and TypeError for what is none."""
    event_type = _text(note.event_type, "event_type")
    if not 1 <= len(event_type) <= TYPE_CHARACTERS or any(map(str.isspace, event_type)):
        wanted = f"1 to {TYPE_CHARACTERS} characters without spaces"
        raise ValueError(f"event_type must have {wanted}, not {event_type!r}")
    if note.level not in NOTE_LEVELS:
        raise ValueError(f"level must be one of {', '.join(NOTE_LEVELS)}, not {note.level!r}")
    if note.message is not None and len(_text(note.message, "message")) > MESSAGE_CHARACTERS:
        raise ValueError(f"message must have at most {MESSAGE_CHARACTERS} characters")
    payload = given_json(note.payload, limits.json_depth, "payload")
    if is_larger(payload, most := limits.event_bytes):
        raise ValueError(f"payload must have at most {size_text(most)} as JSON")
    return replace(note, payload=payload)


def question_form(
    options: Sequence[str | Option] | None, schema: Mapping[str, Any] | None
) -> QuestionForm:
    """Return how a question may be answered; raises ValueError and TypeError if it never could."""
    chosen = tuple(_option(each) for each in options or ())
    values = [each.value for each in chosen]
    if len(set(values)) < len(values):
        raise ValueError(f"options must differ, not {values!r}")
    if schema is None:
        return QuestionForm(options=chosen, typed=_select(values) if values else None)
    if not isinstance(schema, Mapping):
        raise TypeError(f"schema must be a JSON Schema, not {schema!r}")
    try:
        Schema(dict(schema))
    except ValueError as error:
        raise ValueError(f"schema is no JSON Schema: {error}") from None
    return QuestionForm(options=chosen, schema=dict(schema))


def _select(values: Sequence[str]) -> Json:
    """Return the type of a question with options: nothing else is an answer, unless one says so."""
    return {"type": "select"} | ({"allowCustom": True} if OTHER in values else {})


def question_text(question: str) -> str:
    """Return the words of a question. Raises ValueError for none, TypeError for no words."""
    if not _text(question, "question").strip():
        raise ValueError("question must not be blank")
    return question


def mime_of(mime: str) -> str:
    """Return the type of some bytes. Raises ValueError for what is no type."""
    if not MIME.fullmatch(_text(mime, "mime")):
        raise ValueError(f"mime must be a type such as image/png, not {mime!r}")
    return mime


def _option(option: str | Option) -> Option:
    if isinstance(option, Option):
        return option
    if not _text(option, "an option").strip():
        raise ValueError("an option must not be blank")
    return Option(label=option, value=option)


def _text(value: Any, noun: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{noun} must be a text, not {value!r}")
    return value

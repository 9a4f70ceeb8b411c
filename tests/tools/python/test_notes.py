"""What a Python tool tells and asks: a mistake of its author is named, and never recorded."""

from typing import Any

import pytest

from penstock.core.events.events import CallSettled, NoteEmitted
from penstock.core.limits import Limits
from penstock.core.task import Option
from penstock.testing.invocation import open_workbench
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import tool
from penstock.tools.python.notes import checked_note, mime_of, question_form


def mistakes() -> dict[str, tuple[Any, str]]:
    return {
        "type": (lambda ctx: ctx.emit(5), "TypeError: event_type must be a text, not 5"),
        "spaces": (lambda ctx: ctx.emit("a b"), "ValueError: event_type must have 1 to 128"),
        "level": (lambda ctx: ctx.emit("a", level="bad"), "ValueError: level must be one of info"),
        "message": (lambda ctx: ctx.emit("a", 5), "TypeError: message must be a text, not 5"),
        "long": (lambda ctx: ctx.emit("a", "x" * 4097), "ValueError: message must have at most"),
        "payload": (lambda ctx: ctx.emit("a", payload=object()), "TypeError: payload at / is an"),
        "big": (
            lambda ctx: ctx.emit("a", payload="x" * 40_000),
            "ValueError: payload must have at most 32 KiB as JSON",
        ),
        "done": (lambda ctx: ctx.progress(object()), "TypeError: payload at /done is an object"),
        "nan": (lambda ctx: ctx.progress(float("nan")), "TypeError: payload at /done is nan"),
        "question": (lambda ctx: ctx.wait(ctx.ask(5)), "TypeError: question must be a text, not 5"),
        "blank": (lambda ctx: ctx.wait(ctx.ask(" ")), "ValueError: question must not be blank"),
        "option": (lambda ctx: ctx.wait(ctx.ask("x", [1])), "TypeError: an option must be a text"),
        "schema": (
            lambda ctx: ctx.wait(ctx.ask("x", schema={"type": "nope"})),
            "ValueError: schema is no JSON Schema: ",
        ),
        "mime": (
            lambda ctx: ctx.wait(ctx.artifacts.put(b"x", "text/plain\r\nx: y")),
            "ValueError: mime must be a type such as image/png",
        ),
        "tool": (lambda ctx: ctx.call_sync(5), "TypeError: tool_id must be a text, not 5"),
    }


@pytest.mark.parametrize(("work", "said"), mistakes().values(), ids=mistakes())
async def test_a_mistake_fails_the_call_and_leaves_nothing_in_the_log(work: Any, said: str) -> None:
    @tool(effect="none")
    def errs(ctx: ToolContext) -> None:
        """Do something wrong."""
        work(ctx)

    bench = await open_workbench(errs)
    envelope = await bench.call("errs")
    assert envelope.error
    assert envelope.error.message.startswith(said)
    *_, last = await bench.events()
    assert isinstance(last, CallSettled)
    assert len(await bench.events()) == 3


def test_options_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(ValueError, match="options must differ"):
        question_form(["a", Option(label="b", value="a")], None)
    with pytest.raises(ValueError, match="an option must not be blank"):
        question_form([" "], None)
    with pytest.raises(TypeError, match="schema must be a JSON Schema"):
        question_form(None, "text")  # type: ignore[arg-type]


@pytest.mark.parametrize("mime", ["image/svg+xml", "text/plain; charset=utf-8", "x/y"])
def test_a_type_may_have_parameters(mime: str) -> None:
    assert mime_of(mime) == mime


@pytest.mark.parametrize(
    ("note", "fits"),
    [
        ({"event_type": "x" * 128}, True),
        ({"event_type": "x" * 129}, False),
        ({"event_type": ""}, False),
        ({"event_type": "a", "message": "x" * 4_096}, True),
        ({"event_type": "a", "message": "x" * 4_097}, False),
        ({"event_type": "a", "message": ""}, True),
        ({"event_type": "a", "payload": "x" * (32 * 1024 - 2)}, True),
        ({"event_type": "a", "payload": "x" * (32 * 1024 - 1)}, False),
    ],
)
def test_an_event_is_taken_up_to_its_limits(note: dict[str, Any], fits: bool) -> None:
    made = NoteEmitted(**note)
    if fits:
        assert checked_note(made, Limits()) == made
        return
    with pytest.raises(ValueError, match="must have"):
        checked_note(made, Limits())

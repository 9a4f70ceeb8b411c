"""The live view of a run: what it shows, and that a terminal gets no view."""

import pytest

from penstock.chat.python.live_view import RunView, show_sync
from penstock.chat.python.public_events import (
    Answered,
    Asked,
    Ended,
    Event,
    HandedOff,
    Notice,
    OutputDelta,
    StepEnded,
    StepStarted,
    Text,
    Thinking,
    ToolCalled,
    ToolReturned,
)
from penstock.chat.python.run_events import RESTARTED
from penstock.core.envelope import Envelope
from penstock.core.reply import Question, ToolCall
from penstock.models.scripted import ScriptedModel, say
from penstock.testing.runtime import memory_runtime
from penstock.testing.sync_runtime import memory_runtime_sync

WHERE = Question(id="q_1", kind="choice", text="Where to?", options=("Oslo", "Home"))
DONE = ToolCall(id="tc_1", tool="area", input={}, envelope=Envelope.success(6))
CALLED = ToolCalled("tc_1", "area", {"width": 2})
SUCCESS = Ended("succeeded")


@pytest.mark.parametrize(
    ("events", "markdown"),
    [
        ([], "*running*"),
        ([Thinking("Hm."), Text("Good "), Text("morning."), SUCCESS], "Good morning."),
        ([Text("One"), Notice(RESTARTED, "again"), Text("Two"), SUCCESS], "Two"),
        ([Text("A"), Text("not shown", 1, ("tool",)), SUCCESS], "A"),
        ([CALLED], '- `area {"width":2}` …\n\n*running*'),
        ([CALLED, ToolReturned(DONE), SUCCESS], '- `area {"width":2}` success'),
        ([ToolCalled("tc_2", "b`", {}, 1, ("a",)), SUCCESS], "  - `b' {}` …"),
        ([ToolReturned(DONE), SUCCESS], ""),
        (
            [Asked(WHERE), Ended("suspended")],
            "**waiting for an answer**: Where to? (Oslo, Home) `q_1`\n\n*suspended*",
        ),
        ([Asked(WHERE), Answered(WHERE), Text("Oslo."), SUCCESS], "Oslo."),
        ([Text("Yes."), HandedOff("billing"), SUCCESS], "Yes.\n\n*billing continues.*\n\n"),
        ([OutputDelta({"a": 1}), Text('{"a":'), SUCCESS], '```json\n{"a":1}\n```'),
        ([StepStarted("plan"), StepEnded("plan", "done"), SUCCESS], "- step `plan` done"),
        ([Notice("progress", "half"), Ended("failed")], "*failed*"),
    ],
)
def test_events_become_markdown(events: list[Event], markdown: str) -> None:
    view = RunView()
    for event in events:
        view.feed(event)
    assert view.markdown == markdown


def test_a_long_input_is_cut() -> None:
    view = RunView()
    view.feed(ToolCalled("tc_1", "write", {"text": "x" * 10_000}))
    assert len(view.markdown) < 200


async def test_a_terminal_prints_the_run() -> None:
    """IPython prints the object if its view raises NotImplementedError."""
    async with memory_runtime(model=ScriptedModel([say("Hi.")])) as runtime:
        run = await runtime.start("Hello")
        with pytest.raises(NotImplementedError):
            run._ipython_display_()
        assert (await run.reply()).output == "Hi."


def test_a_terminal_prints_the_sync_run() -> None:
    with memory_runtime_sync(model=ScriptedModel([say("Hi.")])) as runtime:
        run = runtime.start("Hello")
        with pytest.raises(NotImplementedError):
            show_sync(run)

"""The ToolContext of a Python tool."""

import asyncio
import threading
from typing import Any

import pytest

from penstock.core.call import Origin
from penstock.core.errors import Suspend
from penstock.core.events.events import NoteEmitted
from penstock.core.limits import Limits
from penstock.core.task import Option
from penstock.engine.answers import OTHER, check_answer
from penstock.testing.invocation import Workbench, open_workbench
from penstock.tools.policy import Caller
from penstock.tools.python.capabilities import MAX_EVENTS
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import FunctionTool, tool


def doing(work: Any) -> FunctionTool[Any, ..., Any]:
    """Return a tool that does something with its context."""

    @tool(id="does", effect="none")
    async def does(*, anything: ToolContext) -> Any:
        """Do something."""
        return await work(anything)

    return does


@tool(effect="none", direct_call=True)
async def double(n: int) -> int:
    """Double a number."""
    return 2 * n


async def notes(bench: Workbench) -> list[NoteEmitted]:
    return [event for event in await bench.events() if isinstance(event, NoteEmitted)]


async def test_the_values_of_a_context() -> None:
    async def look(ctx: ToolContext) -> list[Any]:
        return [
            ctx.task_id == bench.ledger.task.task_id,
            str(ctx.session_id) == str(ctx.task_id),
            ctx.profile.profile_id,
            ctx.depth,
            ctx.attempt,
            ctx.deadline,
            ctx.cancelled,
            ctx.call_id.startswith(f"{ctx.task_id}/1/does#"),
            len(ctx.idempotency_key),
        ]

    bench = await open_workbench(doing(look))
    assert (await bench.call("does")).output == [True, True, "local", 0, 1, 60.0, False, True, 32]


async def test_a_context_is_injected_only_by_its_hint() -> None:
    """Injected by annotation, any parameter name, never in the schema."""

    @tool(effect="none")
    def two(first: ToolContext, second: "ToolContext | None" = None) -> bool:
        """Take two."""
        return first.task_id == (second.task_id if second else None)

    assert two.spec.input_schema["properties"] == {}
    assert (await (await open_workbench(two)).call("two")).output is True


@pytest.mark.parametrize(
    ("tool_id", "input", "outcome"),
    [
        ("double", {"n": 2}, [True, 4]),
        ("double", {"n": "2"}, [False, "INVALID_INPUT"]),
        ("nothing_such", None, [False, "TOOL_NOT_FOUND"]),
    ],
)
async def test_a_nested_call_always_returns_an_envelope(
    tool_id: str, input: Any, outcome: list[Any]
) -> None:
    async def call(ctx: ToolContext) -> list[Any]:
        envelope = await ctx.call(tool_id, input)
        return [envelope.ok, envelope.error.code if envelope.error else envelope.output]

    bench = await open_workbench(doing(call), double)
    assert (await bench.call("does")).output == outcome


async def test_an_input_that_is_not_json_is_an_error_of_the_tool() -> None:
    async def call(ctx: ToolContext) -> Any:
        return await ctx.call("double", {"n": object()})

    envelope = await (await open_workbench(doing(call), double)).call("does")
    assert envelope.error
    assert envelope.error.message.startswith("TypeError: the input of 'double' at /n is an object")


async def test_a_plain_function_calls_emits_and_is_entered_again() -> None:
    """Sync tools use `call_sync`."""

    @tool(effect="none")
    def plain(ctx: ToolContext) -> Any:
        """Call from a thread, and ask through another tool."""
        ctx.emit("began", "from a thread")
        ctx.progress(1, 2, "half")
        return [ctx.call_sync("double", {"n": 2}).output, ctx.call_sync("asks").output]

    @tool(effect="none", direct_call=True)
    async def asks(*, ctx: ToolContext) -> Any:
        """Ask."""
        return await ctx.ask("What?")

    bench = await open_workbench(plain, double, asks)
    with pytest.raises(Suspend):
        await bench.call("plain")
    await bench.answer({"text": "this"})
    bench.enter()
    assert (await bench.call("plain")).output == [4, "this"]
    assert [each.event_type for each in await notes(bench)] == ["began", "progress", "progress"]
    assert sum(each.tool_id == "double" for each in await bench.settled()) == 1


async def test_a_plain_function_may_wait_for_all_that_a_coroutine_may() -> None:
    @tool(effect="none")
    def plain(ctx: ToolContext) -> Any:
        """Remember, keep a file, and ask."""
        ctx.wait(ctx.state.put("n", 1))
        ctx.wait(ctx.workspace.write("task://a.txt", b"a"))
        read = ctx.wait(ctx.workspace.read("task://a.txt"))
        return [ctx.wait(ctx.state.get("n")), read.decode(), ctx.wait(ctx.ask("What?"))]

    bench = await open_workbench(plain)
    with pytest.raises(Suspend):
        await bench.call("plain")
    await bench.answer({"text": "this"})
    bench.enter()
    assert (await bench.call("plain")).output == [1, "a", "this"]


async def test_call_sync_on_the_loop_is_a_mistake_with_a_way_out() -> None:
    async def wrong(ctx: ToolContext) -> Any:
        return ctx.call_sync("double", {"n": 1})

    envelope = await (await open_workbench(doing(wrong), double)).call("does")
    assert envelope.error
    assert envelope.error.message == (
        "RuntimeError: this would stop the event loop here: await it instead"
    )


async def test_events_and_progress_are_in_the_log() -> None:
    async def tell(ctx: ToolContext) -> None:
        ctx.emit("order.found", "Found it.", {"order": "A1"}, "warning")
        ctx.progress(1)
        ctx.progress(2, 4, "half")

    bench = await open_workbench(doing(tell))
    await bench.call("does")
    assert await notes(bench) == [
        NoteEmitted(
            event_type="order.found",
            message="Found it.",
            payload={"order": "A1"},
            level="warning",
        ),
        NoteEmitted(event_type="progress", payload={"done": 1}),
        NoteEmitted(event_type="progress", message="half", payload={"done": 2, "total": 4}),
    ]


@pytest.mark.parametrize("is_threaded", [False, True])
async def test_events_over_the_limit_are_dropped_with_one_warning(*, is_threaded: bool) -> None:
    def tell(ctx: ToolContext) -> None:
        for number in range(MAX_EVENTS):
            ctx.emit("counted", payload=number)
            ctx.progress(number)

    async def tell_all(ctx: ToolContext) -> None:
        await asyncio.to_thread(tell, ctx) if is_threaded else tell(ctx)

    bench = await open_workbench(doing(tell_all))
    await bench.call("does")
    found = [(each.event_type, each.message) for each in await notes(bench)]
    dropped = ("tool.events", f"more than {MAX_EVENTS} events; the others are dropped")
    assert found == [("counted", None), ("progress", None)] * (MAX_EVENTS // 2) + [dropped]


@pytest.mark.parametrize(
    ("event", "message"),
    [
        (("",), "event_type must have 1 to 128 characters without spaces, not ''"),
        (("a b",), "without spaces, not 'a b'"),
        (("x" * 129,), "1 to 128 characters"),
        (("x", None, None, "loud"), "level must be one of info, warning, error, not 'loud'"),
        (("x", "m" * 4097), "message must have at most 4096 characters"),
        (("x", None, object()), "TypeError: payload at / is an object; expected: JSON, a pydantic"),
    ],
)
async def test_an_invalid_event_is_refused(event: Any, message: str) -> None:
    async def tell(ctx: ToolContext) -> None:
        ctx.emit(*event)

    envelope = await (await open_workbench(doing(tell))).call("does")
    assert envelope.error
    assert message in envelope.error.message


SHAPE = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("options", "schema", "answer", "found"),
    [
        (None, None, {"text": "words"}, "words"),
        (["Oslo", "Quito"], None, {"value": "Quito"}, "Quito"),
        (["Oslo", "Quito"], None, {"text": "Quito"}, "Quito"),
        (["Oslo", OTHER], None, {"text": "neither"}, "neither"),
        ([Option(label="Yes", value="y", aliases=("sure",))], None, {"value": "y"}, "y"),
        (None, SHAPE, {"value": {"n": 1}}, {"n": 1}),
        (None, SHAPE, {"text": '{"n": 1}'}, {"n": 1}),
    ],
)
async def test_an_answer_is_returned(options: Any, schema: Any, answer: Any, found: Any) -> None:
    """The call parks and the function is entered again from the top."""
    entered = 0

    async def ask(ctx: ToolContext) -> Any:
        nonlocal entered
        entered += 1
        return await ctx.ask("Which?", options=options, schema=schema)

    bench = await open_workbench(doing(ask))
    with pytest.raises(Suspend):
        await bench.call("does")
    (question,) = bench.questions
    assert (question.text, question.tool_id) == ("Which?", "does")
    await bench.answer(answer)
    bench.enter()
    assert (await bench.call("does")).output == found
    assert entered == 2


@pytest.mark.parametrize("expected", ["Quit", "2", "", "oslo"])
async def test_only_options_answer_a_question_that_has_some(expected: str) -> None:
    """Words of a person become an option before, at a terminal and in a chat."""

    async def ask(ctx: ToolContext) -> Any:
        return await ctx.ask("Which?", options=["Oslo", "Quito"])

    bench = await open_workbench(doing(ask))
    with pytest.raises(Suspend):
        await bench.call("does")
    (question,) = bench.questions
    for body in ({"text": expected}, {"value": expected}):
        kept, problems = check_answer(question, body, 10)
        assert (kept, [each["issue"] for each in problems]) == (
            {},
            ["answer must be one of: Oslo, Quito"],
        )


async def test_a_declined_question_rejects_the_call() -> None:
    async def ask(ctx: ToolContext) -> Any:
        return await ctx.ask("Which?")

    bench = await open_workbench(doing(ask))
    with pytest.raises(Suspend):
        await bench.call("does")
    await bench.answer({"cancel": True})
    bench.enter()
    envelope = await bench.call("does")
    assert envelope.error
    assert (envelope.error.code, envelope.error.message) == (
        "REJECTED",
        "no person answered: Which?",
    )


async def test_bytes_are_kept_beside_the_output() -> None:
    async def keep(ctx: ToolContext) -> Any:
        stored = await ctx.artifacts.put(b"%PDF-1.7", "application/pdf", "bill.pdf")
        await ctx.artifacts.put(b"%PDF-1.7", "application/pdf", "bill.pdf")
        return stored.size

    bench = await open_workbench(doing(keep))
    assert (await bench.call("does")).output == 8
    *puts, settled = await bench.settled()
    (file,) = settled.files
    assert [(each.tool_id, each.files) for each in puts] == 2 * [("artifacts.put", (file,))]
    assert (file.name, file.mime_type, file.is_image) == ("bill.pdf", "application/pdf", False)
    assert await bench.blobs.get(file.blob_id) == b"%PDF-1.7"


async def test_a_thread_sees_that_its_task_was_cancelled() -> None:
    started, seen = threading.Event(), threading.Event()

    @tool(effect="none")
    def loops(ctx: ToolContext) -> None:
        """Work until the call is cancelled."""
        started.set()
        while not ctx.cancelled:
            seen.wait(0.001)
        seen.set()

    bench = await open_workbench(loops)
    work = asyncio.create_task(bench.call("loops"))
    await asyncio.to_thread(started.wait, 5)
    await bench.cancel()
    assert await asyncio.to_thread(seen.wait, 5)
    assert (await work).ok


async def test_operations_after_the_end_of_a_call_are_refused() -> None:
    """A call that has ended makes no calls, asks nothing and says nothing any more."""
    late: list[str] = []

    async def leave(ctx: ToolContext) -> None:
        async def later() -> None:
            await ctx.wait_cancelled()
            ctx.progress(1)
            for work in (ctx.call("double", {"n": 1}), ctx.ask("?")):
                try:
                    await work
                except Exception as error:  # noqa: BLE001
                    late.append(str(error))

        left.append(asyncio.create_task(later()))

    left: list[asyncio.Task[None]] = []
    bench = await open_workbench(doing(leave), double)
    assert (await bench.call("does")).ok
    await left[0]
    assert late == ['this call of "does" has ended; it can do nothing more'] * 2
    assert await notes(bench) == []


async def test_a_direct_caller_s_script_reaches_the_tools_of_its_root() -> None:
    async def call(ctx: ToolContext) -> bool:
        return (await ctx.call("does")).ok

    direct = Caller(origin=Origin.DIRECT)
    bench = await open_workbench(doing(call))
    envelope = await bench.call("does", caller=direct)
    assert envelope.error
    assert envelope.error.code == "TOOL_NOT_FOUND"


async def test_plain_functions_that_call_plain_functions_do_not_starve_each_other() -> None:
    """Sync ones in a bounded pool: all of its threads may wait for a call of another."""

    @tool(effect="none", direct_call=True)
    def inner() -> int:
        """Return one."""
        return 1

    @tool(effect="none")
    def outer(ctx: ToolContext) -> int:
        """Call it."""
        return int(ctx.call_sync("inner").output)

    bench = await open_workbench(inner, outer, limits=Limits(tool_threads=2))
    async with asyncio.timeout(5):
        envelopes = await asyncio.gather(*(bench.call("outer") for _ in range(4)))
    assert [each.output for each in envelopes] == [1, 1, 1, 1]


TALLY = {"n": 0}


@tool(effect="none", direct_call=True)
async def tally() -> dict[str, int]:
    """Return what it keeps for itself, and goes on to change."""
    TALLY["n"] += 1
    return TALLY


async def test_a_later_change_of_a_value_does_not_change_its_record() -> None:
    """A function that is entered again gets what it got before, whatever it made of it."""

    async def change(ctx: ToolContext) -> list[Any]:
        given, kept = {"a": [1]}, {"b": 1}
        await ctx.state.put("given", given)
        await ctx.state.session.put("kept", kept)
        given["a"].append(2)
        kept["b"] = 2
        first, second = await ctx.call("tally"), await ctx.call("tally")
        first.output["n"] = "changed"
        (await ctx.state.get("given"))["a"].append(3)
        (await ctx.state.session.get("kept"))["b"] = 3
        told = await ctx.state.get("given"), await ctx.state.session.get("kept")
        return [*told, second.output["n"] - 1]

    bench = await open_workbench(doing(change), tally)
    assert (await bench.call("does")).output == [{"a": [1]}, {"b": 1}, TALLY["n"] - 1]
    outcomes = [each.envelope.output for each in await bench.settled() if each.tool_id == "tally"]
    assert [each["n"] for each in outcomes] == [TALLY["n"] - 1, TALLY["n"]]

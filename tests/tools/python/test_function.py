"""A Python function as a tool."""

import asyncio
import contextvars
import inspect
import json
import threading
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

from penstock.core.call import Effect, RetryPolicy
from penstock.core.call_errors import ToolFailed
from penstock.core.envelope import Status
from penstock.core.events.events import NoteEmitted
from penstock.core.limits import Limits
from penstock.testing.clock import FakeClock, settle
from penstock.testing.invocation import invocation_for, open_workbench
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import FunctionTool, tool
from penstock.tools.python.options import Retry

WHO = contextvars.ContextVar("WHO", default="nobody")


class Colour(Enum):
    """A closed set."""

    RED = "red"


class Item(BaseModel):
    """A model."""

    sku: str


@tool(effect="read", timeout=10, labels=["orders"], requires_permissions=["orders.read"])
async def order_status(
    order: str,
    with_items: bool = False,  # noqa: FBT002
    *,
    ctx: ToolContext,
) -> dict[str, Any]:
    """Tell the state of one order and, if asked, its items.

    Args:
        order: The order number as printed on the bill.
        with_items: Add the list of items.
    """
    return {"order": order, "with_items": with_items, "depth": ctx.depth}


@tool
def add(a: int, b: float = 1) -> Any:
    """Add two numbers."""
    return [type(a).__name__, type(b).__name__, a + b]


@tool(effect="none")
def typed(at: datetime, items: list[Item], colour: Colour = Colour.RED) -> Any:
    """Say what was built."""
    return [type(at).__name__, [type(each).__name__ for each in items], type(colour).__name__]


def test_the_page_s_own_example() -> None:
    spec = order_status.spec
    assert spec.tool_id == "order_status"
    assert spec.description == "Tell the state of one order and, if asked, its items."
    assert spec.effect is Effect.READ
    assert spec.timeout_ms == 10_000
    assert spec.labels == ("orders",)
    assert spec.requires_permissions == {"orders.read"}
    assert spec.kind == "python"
    assert spec.input_schema == {
        "type": "object",
        "additionalProperties": False,
        "required": ["order"],
        "properties": {
            "order": {
                "type": "string",
                "description": "The order number as printed on the bill.",
            },
            "with_items": {
                "type": "boolean",
                "description": "Add the list of items.",
                "default": False,
            },
        },
    }


def test_a_tool_without_options_is_a_write_that_only_a_model_may_call() -> None:
    spec = add.spec
    assert (spec.effect, spec.idempotent, spec.direct_call) == (Effect.WRITE, False, False)
    assert (spec.timeout_ms, spec.retry.max_attempts) == (60_000, 1)
    assert (spec.requires_approval, spec.exclusive, spec.output_schema) == (False, False, None)


def test_a_decorated_function_stays_a_function() -> None:
    assert add(2, b=3) == ["int", "int", 5]
    assert add.__name__ == "add"
    assert list(inspect.signature(add).parameters) == ["a", "b"]
    assert repr(add) == f"<tool 'add' of {__name__}>"


@pytest.mark.parametrize(
    ("input", "output"),
    [
        ({"a": 1, "b": 2.5}, ["int", "float", 3.5]),
        ({"a": 1, "b": 2}, ["int", "float", 3.0]),
        ({"a": 1.0, "b": 2.5}, ["int", "float", 3.5]),
        ({"a": 1}, ["int", "int", 2]),
    ],
)
async def test_numbers_have_the_hinted_type_and_defaults_come_from_the_function(
    input: dict[str, Any], output: Any
) -> None:
    envelope = await (await open_workbench(add)).call("add", input)
    assert envelope.output == output


async def test_a_function_gets_typed_values() -> None:
    """The door validates with the JSON Schema, then the function gets typed values."""
    bench = await open_workbench(typed)
    given = {"at": "2026-11-21T09:00:00Z", "items": [{"sku": "a"}], "colour": "red"}
    envelope = await bench.call("typed", given)
    assert envelope.output == ["datetime", ["Item"], "Colour"]


async def test_a_function_can_be_run_without_the_invoker() -> None:
    invocation = await invocation_for(add)
    assert await add.run({"a": 1}, invocation) == ["int", "int", 2]


@pytest.mark.parametrize(
    ("input", "path"),
    [({"a": "1"}, "/a"), ({"a": 1, "c": 2}, ""), ({}, "/a"), ({"a": 1, "b": None}, "/b")],
)
async def test_nothing_is_coerced(input: dict[str, Any], path: str) -> None:
    """`"1"` for int: `validation_error` with `/path`."""
    envelope = await (await open_workbench(add)).call("add", input)
    assert envelope.status is Status.VALIDATION_ERROR
    assert envelope.error
    assert envelope.error.details
    assert [each["path"] for each in envelope.error.details["problems"]] == [path]


def refuse_odd(number: int) -> int:
    """Check what no JSON Schema says."""
    if number % 2:
        raise ValueError("must be even")
    return number


async def test_a_check_of_the_author_s_own_is_a_validation_error_too() -> None:
    @tool
    def halve(n: Annotated[int, AfterValidator(refuse_odd)]) -> int:
        """Halve an even number."""
        return n // 2

    bench = await open_workbench(halve)
    assert (await bench.call("halve", {"n": 4})).output == 2
    envelope = await bench.call("halve", {"n": 3})
    assert envelope.error
    assert envelope.error.code == "INVALID_INPUT"
    assert envelope.error.message == (
        'input of "halve" is not valid: /n: Value error, must be even'
    )


async def test_a_late_hint_is_read_when_it_is_there() -> None:
    @tool
    def later(x: "Later") -> str:
        """Use a class that comes below."""
        return x.sku

    later.__wrapped__.__globals__["Later"] = Item
    envelope = await (await open_workbench(later)).call("later", {"x": {"sku": "a"}})
    assert envelope.output == "a"


Later = Item


def test_an_option_that_does_not_exist_is_named_with_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"no argument 'efect'\. Did you mean 'effect'\?"):
        FunctionTool(print, efect="none")  # type: ignore[call-arg]


def test_only_functions_are_tools() -> None:
    with pytest.raises(TypeError, match="@tool is for functions, not for <class"):
        tool(Item)


def test_every_option_reaches_the_spec() -> None:
    when = {"properties": {"n": {"minimum": 10}}}

    @tool(
        id="other",
        description="Another.",
        effect="none",
        idempotent=True,
        direct_call=True,
        requires_approval={"when": when},
        retry=Retry(attempts=2, initial=0.5, multiplier=3, maximum=9),
        exclusive="stock",
        output_schema={"type": "object"},
    )
    def f() -> int:
        """Say one."""
        return 1

    spec = f.spec
    assert (spec.tool_id, spec.description, spec.idempotent) == ("other", "Another.", True)
    assert (spec.direct_call, spec.requires_approval) == (True, {"when": when})
    assert spec.retry == RetryPolicy(
        max_attempts=2, initial_backoff_ms=500, multiplier=3, max_backoff_ms=9000
    )
    assert (spec.exclusive, spec.output_schema) == ("stock", {"type": "object"})


async def test_a_plain_function_runs_beside_the_loop_with_its_context() -> None:
    """Sync ones in a bounded thread pool; contextvars are carried over."""

    @tool(effect="none")
    def where() -> Any:
        """Say where it runs, and for whom."""
        return [threading.current_thread().name, WHO.get()]

    WHO.set("ada")
    envelope = await (await open_workbench(where)).call("where")
    assert envelope.output == ["penstock-tool-1", "ada"]


async def test_a_sync_tool_past_its_timeout_is_left_and_disturbs_no_other() -> None:
    """A sync tool sleeping past `timeout` beside an async one: TIMEOUT; the other is not late."""
    release, ended = threading.Event(), threading.Event()

    @tool(effect="none", timeout=0.02)
    def stuck(*, ctx: ToolContext) -> Any:
        """Wait for long."""
        release.wait(5)
        ended.set()
        return ctx.call_sync("quick").output

    @tool(effect="none", timeout=5)
    async def quick() -> int:
        """Be quick."""
        return 1

    bench = await open_workbench(stuck, quick)
    one, other = await asyncio.gather(bench.call("stuck"), bench.call("quick"))
    assert one.status is Status.TIMEOUT
    assert one.error
    assert one.error.message == '"stuck" did not finish within 0.02 s'
    assert other.output == 1
    release.set()
    await asyncio.to_thread(ended.wait, 5)
    assert [each.tool_id for each in await bench.settled()] == ["quick", "stuck"]


async def test_an_async_tool_that_blocks_the_loop_is_warned_once() -> None:
    clock = FakeClock()

    @tool(effect="none")
    async def blocks() -> None:
        """Block the loop, twice."""
        clock.advance(0.12)
        await settle(rounds=1)
        clock.advance(0.2)

    bench = await open_workbench(blocks, clock=clock)
    await bench.call("blocks")
    (note,) = [event for event in await bench.events() if isinstance(event, NoteEmitted)]
    assert (note.event_type, note.level) == ("tool.blocking", "warning")
    assert note.message
    assert note.message.startswith('"blocks" kept the event loop for 0.12 s')


@tool(effect="none")
def fails(how: str) -> Any:
    """Fail in some way."""
    match how:
        case "says so":
            raise ToolFailed(
                "no such order", "NOT_FOUND", suggestion="Look it up.", details={"near": ["A1"]}
            )
        case "exits":
            raise SystemExit(3)
        case "stops":
            raise StopIteration
        case "own timeout":
            raise TimeoutError("upstream")
        case "interrupt":
            raise KeyboardInterrupt
        case _:
            raise ValueError("x" * 3000)


@pytest.mark.parametrize(
    ("how", "code", "message"),
    [
        ("says so", "NOT_FOUND", "no such order"),
        ("exits", "TOOL_FAILED", "the tool tried to end the process (SystemExit(3))"),
        ("interrupt", "TOOL_FAILED", "the tool tried to end the process (KeyboardInterrupt())"),
        ("stops", "TOOL_FAILED", "RuntimeError: the tool raised StopIteration()"),
        ("own timeout", "TOOL_FAILED", "TimeoutError: upstream"),
        ("raises", "TOOL_FAILED", "ValueError: " + "x" * 1987 + "…"),
    ],
)
async def test_a_failure_has_a_code_and_a_message(how: str, code: str, message: str) -> None:
    envelope = await (await open_workbench(fails)).call("fails", {"how": how})
    assert envelope.status is Status.FAILED
    assert envelope.error
    assert (envelope.error.code, envelope.error.message) == (code, message)
    assert (envelope.error.retryable, envelope.error.continuable) == (False, True)


async def test_the_message_of_a_tool_failure_reaches_the_model() -> None:
    bench = await open_workbench(fails)
    await bench.call("fails", {"how": "says so"})
    (settled,) = await bench.settled()
    assert settled.context == (
        '{"error":"no such order","code":"NOT_FOUND","suggestion":"Look it up.",'
        '"details":{"near":["A1"]}}'
    )


async def test_an_output_that_contradicts_its_hint_is_refused() -> None:
    @tool(effect="none")
    async def wrong() -> int:
        """Return what was not promised."""
        return "1"  # type: ignore[return-value]

    envelope = await (await open_workbench(wrong)).call("wrong")
    assert envelope.error
    assert envelope.error.code == "INVALID_OUTPUT"
    assert envelope.error.message.startswith('output of "wrong" is not valid: /: "1" is not')


paid: list[str] = []


async def test_a_model_reads_that_a_write_was_done_whose_output_was_refused() -> None:
    """By the schema, by having no JSON form, and by its size: a model must not pay twice."""

    @tool(effect="write")
    async def pay(how: str) -> dict[str, int]:
        """Pay."""
        paid.append(how)
        outputs: dict[str, dict[str, Any]] = {"schema": {"n": "x"}, "form": {"n": object()}}
        return outputs.get(how, {"n": 1, "x" * 200: 1})

    paid.clear()
    bench = await open_workbench(pay, limits=Limits(output_bytes=100))
    codes = []
    for how in ("schema", "form", "size"):
        await bench.call("pay", {"how": how})
    for settled in await bench.settled():
        read = json.loads(settled.context or "")
        codes.append(read["code"])
        assert '"pay" ran, and its writes are in effect' in read["error"]
        assert read["suggestion"].startswith("Do not call it again")
    assert codes == ["INVALID_OUTPUT", "INVALID_OUTPUT", "OUTPUT_TOO_LARGE"]
    assert paid == ["schema", "form", "size"]


async def test_models_and_times_are_valid_outputs_of_their_hints() -> None:
    class Out(BaseModel):
        at: datetime
        items: list[Item]

    @tool(effect="none")
    async def good() -> Out:
        """Return a model."""
        return Out(at=datetime(2026, 1, 1, tzinfo=UTC), items=[Item(sku="a")])

    envelope = await (await open_workbench(good)).call("good")
    assert envelope.output == {"at": "2026-01-01T00:00:00Z", "items": [{"sku": "a"}]}


async def test_a_function_that_changes_its_input_changes_only_its_copy() -> None:
    @tool(effect="none")
    def changes(x: Any, y: dict[str, Any], z: list[Any]) -> None:
        """Change what was given."""
        x.append(2)
        y["b"] = 2
        z[0]["c"] = 2

    given = {"x": [1], "y": {"a": 1}, "z": [{}]}
    assert (await (await open_workbench(changes)).call("changes", given)).ok
    assert given == {"x": [1], "y": {"a": 1}, "z": [{}]}

"""Capabilities of a Python tool: values, files, secrets."""

from typing import Any

import pytest

from penstock.core.call_errors import Cancelled, ToolFailed
from penstock.core.errors import Suspend
from penstock.core.events.codec import to_wire
from penstock.core.events.events import CallSettled, NoteEmitted, SecretGiven
from penstock.core.profile import LOCAL
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.task import Option
from penstock.testing.clock import FakeClock
from penstock.testing.invocation import open_workbench
from penstock.testing.resources import MemoryVault
from penstock.tools.python.capabilities import checked_note, mime_of, question_form
from penstock.tools.python.context import ToolContext
from penstock.tools.python.function import FunctionTool, tool

MINE = Scope(ScopeKind.PROFILE, LOCAL)
HIDDEN = "hunter2-and-more"


def doing(work: Any, tool_id: str = "does") -> FunctionTool[Any, ..., Any]:
    """Return a tool that does something with its context."""

    @tool(id=tool_id, effect="none")
    async def does(*, ctx: ToolContext) -> Any:
        """Do something."""
        return await work(ctx)

    return does


async def vault_with(*places: Scope) -> MemoryVault:
    vault = MemoryVault(FakeClock())
    for number, place in enumerate(places):
        await vault.set(place, "key", f"{HIDDEN}-{number}")
    return vault


async def test_a_secret_that_is_returned_is_redacted_in_output_events_and_errors() -> None:
    """Page: "returns a secret from `ctx.secret`" | "redacted in output, events, errors"."""

    async def tell(ctx: ToolContext) -> str:
        secret = await ctx.secret("key")
        ctx.emit("told", f"it is {secret}", {"is": secret})
        return f"it is {secret}"

    async def fail(ctx: ToolContext) -> None:
        raise ToolFailed(f"it is {await ctx.secret('key')}")

    bench = await open_workbench(doing(tell), doing(fail, "fails"), vault=await vault_with(MINE))
    assert (await bench.call("does")).output == "it is [secret:key]"
    error = (await bench.call("fails")).error
    assert error is not None
    assert error.message == "it is [secret:key]"
    told = str([to_wire(event) for event in await bench.events()])
    assert HIDDEN not in told
    assert any(isinstance(event, SecretGiven) for event in await bench.events())


@pytest.mark.parametrize(
    ("places", "shared", "found"),
    [
        ([MINE, Scope(ScopeKind.SHARED, "shop")], None, "0"),
        ([MINE, Scope(ScopeKind.SHARED, "shop")], "shop", "1"),
        ([Scope(ScopeKind.SHARED, "shop")], None, "0"),
        ([Scope(ScopeKind.SHARED, "a"), Scope(ScopeKind.SHARED, "b")], None, None),
        ([MINE], "shop", None),
        ([], None, None),
    ],
)
async def test_a_secret_is_that_of_the_profile_or_the_shared_one(
    places: list[Scope], shared: str | None, found: str | None
) -> None:
    """Page: "shared or profile vault; the tool is our own code, so no declaration"."""

    async def last(ctx: ToolContext) -> str:
        return (await ctx.secret("key", shared))[-1]

    bench = await open_workbench(doing(last), vault=await vault_with(*places))
    envelope = await bench.call("does")
    assert envelope.output == found
    assert found or (envelope.error and envelope.error.code == "VAULT_NOT_FOUND")


@pytest.mark.parametrize("kind", ["session", "profile"])
async def test_a_value_is_kept_beyond_the_task_under_the_name_of_the_tool(kind: str) -> None:
    """Page: "`ctx.state.session`, `.profile` the same with prefix `{tool id}/`"."""

    async def keep(ctx: ToolContext) -> list[Any]:
        state = getattr(ctx.state, kind)
        before = await state.get("seen", "nothing")
        first = await state.put("seen", {"n": 1}, ttl=60)
        refused = await state.put("seen", 2, if_revision=None)
        after = await state.get("seen")
        return [before, first.ok, refused.ok, refused.revision == first.revision, after]

    bench = await open_workbench(doing(keep))
    assert (await bench.call("does")).output == ["nothing", True, False, True, {"n": 1}]
    scope = Scope(ScopeKind(kind), LOCAL if kind == "profile" else bench.ledger.held.state.log_id)
    assert bench.resources.state is not None
    entry = await bench.resources.state.find(scope, "does/seen")
    assert entry is not None
    assert entry.value == {"n": 1}


async def test_a_kept_value_can_be_removed_and_holds_no_secret() -> None:
    async def keep(ctx: ToolContext) -> Any:
        await ctx.state.session.put("a", 1)
        await ctx.state.session.put("a", None)
        gone = await ctx.state.session.get("a", "gone")
        await ctx.state.session.put("b", f"x{await ctx.secret('key')}")
        return gone

    bench = await open_workbench(doing(keep), vault=await vault_with(MINE))
    error = (await bench.call("does")).error
    assert error is not None
    assert error.code == "STATE_DENIED"


async def test_files_are_written_and_read() -> None:
    async def write(ctx: ToolContext) -> str:
        await ctx.workspace.write("session://notes/a.txt", b"hello")
        return (await ctx.workspace.read("session://notes/a.txt")).decode()

    bench = await open_workbench(doing(write))
    assert (await bench.call("does")).output == "hello"


@pytest.mark.parametrize(
    ("uri", "data", "message"),
    [
        ("/etc/passwd", b"", "a path begins with task:// or session://"),
        ("task://../x", b"", "no segment"),
        ("task://x", "text", "data must be bytes, not str"),
        ("task://x/y/", b"", "no segment"),
    ],
)
async def test_a_file_elsewhere_is_refused(uri: str, data: Any, message: str) -> None:
    async def write(ctx: ToolContext) -> None:
        await ctx.workspace.write(uri, data)

    bench = await open_workbench(doing(write))
    error = (await bench.call("does")).error
    assert error is not None
    assert message in error.message


async def test_a_change_is_made_once_however_often_the_function_is_entered() -> None:
    """Page: "the function is entered again from the top: calls by `ctx` are answered"."""
    revisions = []

    async def work(ctx: ToolContext) -> None:
        revisions.append((await ctx.state.profile.put("n", 1)).revision)
        await ctx.workspace.write("task://a", b"1")
        await ctx.ask("Go on?")

    bench = await open_workbench(doing(work))
    with pytest.raises(Suspend):
        await bench.call("does")
    await bench.answer({"text": "yes"})
    bench.enter()
    assert (await bench.call("does")).ok
    assert (len(revisions), len(set(revisions))) == (2, 1)


AFTERWARDS: dict[str, Any] = {
    "state.get": lambda ctx: ctx.state.get("k"),
    "state.put": lambda ctx: ctx.state.put("k", 1),
    "session.get": lambda ctx: ctx.state.session.get("k"),
    "session.put": lambda ctx: ctx.state.session.put("k", 1),
    "read": lambda ctx: ctx.workspace.read("task://x"),
    "write": lambda ctx: ctx.workspace.write("task://x", b"x"),
    "artifacts": lambda ctx: ctx.artifacts.put(b"x", "text/plain"),
    "secret": lambda ctx: ctx.secret("k"),
    "call": lambda ctx: ctx.call("does"),
    "ask": lambda ctx: ctx.ask("What?"),
}


@pytest.mark.parametrize("work", AFTERWARDS.values(), ids=AFTERWARDS)
async def test_work_that_outlives_its_call_writes_nothing_and_gets_no_secret(work: Any) -> None:
    """`timeout` settles the call; what a thread or a task that is left does counts no more."""
    kept: list[ToolContext] = []

    @tool(effect="none")
    async def does(ctx: ToolContext) -> None:
        """Keep the context for later."""
        kept.append(ctx)

    clock = FakeClock()
    vault = MemoryVault(clock)
    await vault.set(MINE, "k", "s3cr3t-value")
    bench = await open_workbench(does, clock=clock, vault=vault)
    await bench.call("does")
    before = await bench.events()
    kept[0].emit("late")
    with pytest.raises(Cancelled, match='this call of "does" has ended'):
        await work(kept[0])
    assert await bench.events() == before


async def test_two_tools_do_not_share_a_key() -> None:
    """`docs/tools.md`: values belong to one tool, in the task, the session and the profile."""

    @tool(effect="write")
    async def put(*, ctx: ToolContext) -> None:
        """Keep a value everywhere."""
        for kept in (ctx.state, ctx.state.session, ctx.state.profile):
            await kept.put("k", 1)

    @tool(effect="read")
    async def get(*, ctx: ToolContext) -> list[Any]:
        """Look for it everywhere."""
        return [await each.get("k") for each in (ctx.state, ctx.state.session, ctx.state.profile)]

    bench = await open_workbench(put, get)
    assert (await bench.call("put")).ok
    assert (await bench.call("get")).output == [None, None, None]


async def test_a_family_shares_what_is_kept_beyond_a_task_and_nobody_else_has_it() -> None:
    """`@tool(state="shop")`: one prefix of the session and the profile; task values stay apart."""

    def keeping(**options: Any) -> FunctionTool[Any, ..., Any]:
        @tool(effect="write", **options)
        async def keeps(value: int | None, *, ctx: ToolContext) -> list[Any]:
            """Put a value everywhere, or look for it."""
            stores = (ctx.state, ctx.state.session, ctx.state.profile)
            if value is not None:
                for each in stores:
                    await each.put("k", value)
            return [await each.get("k") for each in stores]

        return keeps

    family = [keeping(id="buy", state="shop"), keeping(id="sell", state="shop")]
    others = [keeping(id="shop"), keeping(id="lend", state="library"), keeping(id="own")]
    bench = await open_workbench(*family, *others)
    assert (await bench.call("buy", {"value": 1})).ok
    assert (await bench.call("sell", {"value": None})).output == [None, 1, 1]
    for each in ("shop", "lend", "own"):
        assert (await bench.call(each, {"value": None})).output == [None, None, None]
    assert (await bench.call("shop", {"value": 2})).ok
    assert (await bench.call("buy", {"value": None})).output == [1, 1, 1]


async def test_a_change_of_a_store_does_not_count_as_a_call() -> None:
    async def work(ctx: ToolContext) -> None:
        await ctx.state.profile.put("n", 1)

    bench = await open_workbench(doing(work))
    assert (await bench.call("does")).ok
    assert bench.ledger.task.spent.tool_calls == 1


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
            "ValueError: schema is not a JSON Schema: ",
        ),
        "mime": (
            lambda ctx: ctx.wait(ctx.artifacts.put(b"x", "text/plain\r\nx: y")),
            "ValueError: mime must be a type such as image/png",
        ),
        "tool": (lambda ctx: ctx.call_sync(5), "TypeError: tool_id must be a text, not 5"),
    }


@pytest.mark.parametrize(("work", "expected"), mistakes().values(), ids=mistakes())
async def test_a_mistake_fails_the_call_and_leaves_nothing_in_the_log(
    work: Any, expected: str
) -> None:
    @tool(effect="none")
    def errs(ctx: ToolContext) -> None:
        """Do something wrong."""
        work(ctx)

    bench = await open_workbench(errs)
    envelope = await bench.call("errs")
    assert envelope.error
    assert envelope.error.message.startswith(expected)
    *_, last = await bench.events()
    assert isinstance(last, CallSettled)
    assert len(await bench.events()) == 3


def test_ambiguous_options_are_refused() -> None:
    with pytest.raises(ValueError, match="options must be unique"):
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
def test_an_event_is_accepted_up_to_its_limits(note: dict[str, Any], fits: bool) -> None:
    made = NoteEmitted(**note)
    if fits:
        assert checked_note(made) == made
        return
    with pytest.raises(ValueError, match="must have"):
        checked_note(made)

"""Undo: the reverts of a task's calls, in reverse order, each once."""

from typing import Any

import pytest

from penstock import ToolContext, ToolFailed, tool
from penstock.core.errors import ConfigError, InvalidRequest, NotFound
from penstock.core.ids import TaskId
from penstock.core.profile import LOCAL
from penstock.core.scopes import Scope, ScopeKind
from penstock.models.scripted import ScriptedModel, call, say
from penstock.testing import MemoryStorage, memory_runtime

DONE: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    DONE.clear()


@tool
def give_back(input: dict[str, Any], output: dict[str, Any]) -> str:
    """Give back what was taken."""
    DONE.append(f"give back {input['item']} {output['receipt']}")
    return "given back"


@tool(revert=give_back, direct_call=True)
def take(item: str) -> dict[str, str]:
    """Take something."""
    DONE.append(f"take {item}")
    return {"receipt": f"r-{item}"}


@tool
def send(text: str) -> str:
    """Send a text, which nothing takes back."""
    DONE.append(f"send {text}")
    return "sent"


@tool(effect="read")
def look() -> str:
    """Look."""
    return "all is there"


TOOLS = (take, give_back, send, look)
FOUR = [
    call("take", item="tea"),
    call("look"),
    call("send", text="hello"),
    call("take", item="cup"),
    say("Done."),
]


async def test_an_undo_makes_the_reverts_in_reverse_order_and_says_what_it_cannot() -> None:
    """The newest call goes first; a call without a revert stays, with the reason."""
    async with memory_runtime(model=ScriptedModel(FOUR), tools=TOOLS) as runtime:
        reply = await runtime.chat("Go")
        DONE.clear()
        undo = await runtime.undo(reply.task_id)
        assert DONE == ["give back cup r-cup", "give back tea r-tea"]
        assert undo.status == "succeeded"
        assert [(each.tool, each.status, each.reason) for each in undo.calls] == [
            ("take", "undone", ""),
            ("send", "impossible", "its tool declares no revert"),
            ("take", "undone", ""),
        ]


async def test_a_second_undo_finds_the_first_and_does_nothing() -> None:
    async with memory_runtime(model=ScriptedModel(FOUR), tools=TOOLS) as runtime:
        reply = await runtime.chat("Go")
        first = await runtime.undo(reply.task_id)
        DONE.clear()
        again = await runtime.undo(reply.task_id)
        assert (again, DONE) == (first, [])


async def test_a_dry_run_changes_nothing() -> None:
    async with memory_runtime(model=ScriptedModel(FOUR), tools=TOOLS) as runtime:
        reply = await runtime.chat("Go")
        DONE.clear()
        undo = await runtime.undo(reply.task_id, dry_run=True)
        assert [each.status for each in undo.calls] == ["ready", "impossible", "ready"]
        assert (undo.status, undo.undo_id, DONE) == ("planned", None, [])


async def test_one_call_can_be_taken_back_alone_by_its_number_or_the_id_of_its_model() -> None:
    async with memory_runtime(model=ScriptedModel(FOUR), tools=TOOLS) as runtime:
        reply = await runtime.chat("Go")
        plan = await runtime.undo(reply.task_id, dry_run=True)
        DONE.clear()
        await runtime.undo(reply.task_id, call=plan.calls[2].id)
        assert DONE == ["give back tea r-tea"]
        undo = await runtime.undo(reply.task_id, call=reply.calls[3].id)
        assert DONE == ["give back tea r-tea", "give back cup r-cup"]
        assert [each.status for each in undo.calls] == ["undone", "impossible", "undone"]


async def test_a_call_that_cannot_be_taken_back_is_refused_by_name() -> None:
    async with memory_runtime(model=ScriptedModel(FOUR), tools=TOOLS) as runtime:
        reply = await runtime.chat("Go")
        sent = reply.calls[2].id
        with pytest.raises(InvalidRequest, match="cannot be taken back: its tool declares no rev"):
            await runtime.undo(reply.task_id, call=sent)
        with pytest.raises(NotFound, match="no call '99' of this task had an effect"):
            await runtime.undo(reply.task_id, call="99")
        with pytest.raises(NotFound, match="there is no task 'task_x'"):
            await runtime.undo("task_x")


async def test_an_undo_cannot_be_undone() -> None:
    async with memory_runtime(tools=TOOLS) as runtime:
        await runtime.call("take", {"item": "tea"}, task_id=TaskId("task_1"))
        undo = await runtime.undo("task_1")
        assert undo.undo_id == "undo_task_1"
        with pytest.raises(InvalidRequest, match="is itself an undo"):
            await runtime.undo(undo.undo_id)


async def test_a_task_without_effects_has_nothing_to_take_back() -> None:
    model = ScriptedModel([call("look"), say("Done.")])
    async with memory_runtime(model=model, tools=TOOLS) as runtime:
        reply = await runtime.chat("Go")
        undo = await runtime.undo(reply.task_id)
        assert (undo.status, undo.undo_id, undo.calls) == ("nothing", None, ())


async def test_a_revert_that_fails_stops_the_rest_and_the_next_undo_continues() -> None:
    """What was taken back stays so; the failed one and those before it are left."""
    broken = [True]

    @tool(id="give_back")
    def fragile(input: dict[str, Any], output: dict[str, Any]) -> str:
        """Fail for the cup."""
        if input["item"] == "cup" and broken:
            raise ToolFailed("the till is closed")
        DONE.append(f"give back {input['item']}")
        return "given back"

    three = [call("take", item=item) for item in ("tea", "cup", "pot")]
    model = ScriptedModel([*three, say("Done.")])
    async with memory_runtime(model=model, tools=(take, fragile)) as runtime:
        reply = await runtime.chat("Go")
        DONE.clear()
        failed = await runtime.undo(reply.task_id)
        assert DONE == ["give back pot"]
        assert failed.status == "failed"
        assert failed.error is not None
        assert failed.error.message.startswith("'give_back' could not take back 'take' (call ")
        assert [(each.status, each.reason) for each in failed.calls] == [
            ("undone", ""),
            ("ready", "its revert failed: the till is closed"),
            ("ready", ""),
        ]
        broken.clear()
        rest = await runtime.undo(reply.task_id)
        assert DONE == ["give back pot", "give back cup", "give back tea"]
        assert (rest.status, rest.undo_id) == ("succeeded", f"undo_{reply.task_id}.2")


async def test_a_revert_that_needs_approval_waits_for_it() -> None:
    """An undo asks like any write, survives a crash meanwhile, and continues with the answer."""
    asking = tool(id="give_back", requires_approval=True)(give_back.__wrapped__)
    model = ScriptedModel([call("take", item="tea"), say("Done.")])
    async with memory_runtime(model=model, tools=(take, asking)) as runtime:
        reply = await runtime.chat("Go")
        DONE.clear()
        waiting = await runtime.undo(reply.task_id)
        assert (waiting.status, DONE) == ("suspended", [])
        (question,) = waiting.questions
        assert question.tool == "give_back"
        runtime.kill()
        await runtime.reopen()
        await runtime.approve(question.id)
        undo = await runtime.undo(reply.task_id)
        assert (undo.status, undo.undo_id, DONE) == (
            "succeeded",
            waiting.undo_id,
            ["give back tea r-tea"],
        )


async def test_a_rejected_revert_is_left_and_may_be_asked_about_again() -> None:
    asking = tool(id="give_back", requires_approval=True)(give_back.__wrapped__)
    model = ScriptedModel([call("take", item="tea"), say("Done.")])
    async with memory_runtime(model=model, tools=(take, asking)) as runtime:
        reply = await runtime.chat("Go")
        (question,) = (await runtime.undo(reply.task_id)).questions
        await runtime.reject(question, "not today")
        await runtime.requests.wait(question.task_id)
        plan = await runtime.undo(reply.task_id, dry_run=True)
        assert plan.calls[0].status == "ready"
        assert "not today" in plan.calls[0].reason


async def test_what_failed_or_was_cut_is_not_taken_back() -> None:
    """It may have happened in part, and no revert knows which part."""

    @tool(revert="give_back")
    def stumble(item: str) -> dict[str, str]:
        """Fail."""
        raise ToolFailed("no stock", "EMPTY")

    model = ScriptedModel([call("stumble", item="tea"), say("Done.")])
    async with memory_runtime(model=model, tools=(stumble, give_back)) as runtime:
        reply = await runtime.chat("Go")
        undo = await runtime.undo(reply.task_id)
        assert [(each.status, each.reason) for each in undo.calls] == [
            ("impossible", "it ended as EMPTY: a part of it may have happened")
        ]


async def test_a_suspended_task_is_cancelled_before_it_is_undone() -> None:
    @tool
    async def wait(ctx: ToolContext) -> str:
        """Wait for a person."""
        return await ctx.ask("Well?")

    model = ScriptedModel([call("take", item="tea"), call("wait"), say("Done.")])
    async with memory_runtime(model=model, tools=(*TOOLS, wait)) as runtime:
        reply = await runtime.chat("Go")
        assert reply.status == "suspended"
        DONE.clear()
        undo = await runtime.undo(reply.task_id)
        assert (undo.status, DONE) == ("succeeded", ["give back tea r-tea"])
        assert [(each.tool, each.status) for each in undo.calls] == [
            ("wait", "impossible"),
            ("take", "undone"),
        ]
        assert (await runtime.wait(reply)).status == "cancelled"


async def test_calls_inside_calls_are_undone_unless_a_revert_covers_them() -> None:
    """A revert takes back all that its call did; without one the calls inside are taken back."""

    @tool
    async def twice(ctx: ToolContext) -> None:
        """Take two things."""
        await ctx.call("take", {"item": "tea"})
        await ctx.call("take", {"item": "cup"})

    @tool
    def give_all_back(input: dict[str, Any], output: None) -> None:
        """Give all back at once."""
        DONE.append("give all back")

    covered = tool(id="covered", revert=give_all_back)(twice.__wrapped__)
    model = ScriptedModel([call("covered"), call("twice"), say("Done.")])
    tools = (*TOOLS, twice, covered, give_all_back)
    async with memory_runtime(model=model, tools=tools) as runtime:
        reply = await runtime.chat("Go")
        DONE.clear()
        undo = await runtime.undo(reply.task_id)
        assert DONE == ["give back cup r-cup", "give back tea r-tea", "give all back"]
        assert [(each.tool, each.status) for each in undo.calls] == [
            ("twice", "impossible"),
            ("take", "undone"),
            ("take", "undone"),
            ("covered", "undone"),
        ]


async def test_a_secret_in_the_input_of_a_call_is_not_kept_for_its_undo() -> None:
    """The log has `[secret:…]` in its place; a revert with that would take something else back."""

    @tool(effect="read")
    async def sign_in(ctx: ToolContext) -> str:
        """Receive a secret."""
        return await ctx.secret("token")

    place = MemoryStorage()
    await place.vault.set(Scope(ScopeKind.PROFILE, LOCAL), "token", "s3cret-of-ann")
    model = ScriptedModel([call("sign_in"), call("take", item="s3cret-of-ann"), say("Done.")])
    async with memory_runtime(model=model, tools=(*TOOLS, sign_in), place=place) as runtime:
        reply = await runtime.chat("Go")
        (planned,) = (await runtime.undo(reply.task_id, dry_run=True)).calls
        assert (planned.status, planned.reason) == (
            "impossible",
            "its input contained a secret",
        )


@pytest.mark.parametrize(
    ("revert", "message"),
    [
        ("give_bak", "there is no such tool. Did you mean 'give_back'?"),
        ("look_closely", "it needs 'angle'"),
        ("look", "it takes no 'input' and no 'output'"),
        ("by_text", "its 'output' is of type string, and that of the call object"),
    ],
)
async def test_a_revert_that_cannot_work_is_refused_when_the_tool_is_loaded(
    revert: str, message: str
) -> None:
    @tool
    def look_closely(input: dict[str, Any], output: dict[str, Any], angle: int) -> None:
        """Need more than a call has."""

    @tool
    def by_text(input: dict[str, Any], output: str) -> None:
        """Take another type of output."""

    @tool(id="taker", revert=revert)
    def taker(item: str) -> dict[str, str]:
        """Take something."""
        return {}

    with pytest.raises(ConfigError) as refused:
        async with memory_runtime(tools=(*TOOLS, look_closely, by_text, taker)):
            pass
    assert message in str(refused.value)


async def test_a_revert_gets_the_input_that_a_person_edited() -> None:
    """It is what happened; the model's own input is not."""
    careful = tool(id="take", revert=give_back, requires_approval=True)(take.__wrapped__)
    model = ScriptedModel([call("take", item="tea"), say("Done.")])
    async with memory_runtime(model=model, tools=(careful, give_back)) as runtime:
        reply = await runtime.chat("Go")
        await runtime.approve(reply.questions[0], input={"item": "cup"})
        await runtime.wait(reply)
        DONE.clear()
        await runtime.undo(reply.task_id)
        assert DONE == ["give back cup r-cup"]

"""The contract of every State, with and without a log that records the writes."""

from typing import Any

import pytest

from penstock.core.call import CallPath
from penstock.core.call_errors import ToolFailed
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope
from penstock.core.events.events import CallSettled, Entry
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.changes import StateChange, StateOutcome, StateVerb
from penstock.resources.state import State
from penstock.store.logs.log import Log
from penstock.testing.clock import START, FakeClock
from tests.kit.log_entries import ONE, ended, held, started

ANN = Scope(ScopeKind.PROFILE, "ann")
MINE = Scope(ScopeKind.TASK, ONE)
NUMBERS = iter(range(10_000))


def change(verb: StateVerb, key: str = "k", value: Any = None, **more: Any) -> StateChange:
    more = {"scope": ANN, "revision": f"r{next(NUMBERS)}", **more}
    return StateChange(verb=verb, key=key, value=value, **more)


def put(key: str = "k", value: Any = 1, **more: Any) -> StateChange:
    return change(StateVerb.PUT, key, value, **more)


def patch(value: Any, **more: Any) -> StateChange:
    return change(StateVerb.PATCH, "k", value, **more)


def append(value: Any, **more: Any) -> StateChange:
    return change(StateVerb.APPEND, "k", value, **more)


def delete(key: str = "k", **more: Any) -> StateChange:
    return change(StateVerb.DELETE, key, **more)


def recorded(change: StateChange, name: str = "x") -> Entry:
    """The record of a call that makes a change; its outcome is not known yet."""
    settled = CallSettled(tool_id="state.put", envelope=Envelope.success(None), ran=False)
    return Entry(settled, ONE, CallPath(f"task_1/1/state#{name}"), change)


async def value(state: State, key: str = "k", scope: Scope = ANN) -> Any:
    entry = await state.find(scope, key)
    return None if entry is None else entry.value


async def keys(state: State, prefix: str = "", **more: Any) -> list[str]:
    return [each.key for each in (await state.page(ANN, prefix, **more)).entries]


async def test_a_value_is_found_only_under_its_key_and_scope(state: State) -> None:
    made = await state.make(put("a", {"ü": [1, None, "\x00"]}))
    assert made.entry is not None
    assert await state.find(ANN, "a") == made.entry
    assert await value(state, "a") == {"ü": [1, None, "\x00"]}
    assert await value(state, "b") is None
    assert await value(state, "a", Scope(ScopeKind.SHARED, "ann")) is None


async def test_every_write_has_a_revision_of_its_own(state: State) -> None:
    """T5: "`revision` is an opaque string, new with every write"."""
    made = [await state.make(put(value={})), await state.make(patch({})), await state.make(put())]
    assert len({each.entry.revision for each in made if each.entry}) == 3


EXPECTED = [
    (None, (), True, None),
    (None, (None,), True, None),
    (None, ("other",), False, None),
    ("there", (), True, None),
    ("there", (None,), False, "there"),
    ("there", ("other",), False, "there"),
    ("there", ("there",), True, None),
]


@pytest.mark.parametrize(("found", "expected", "ok", "told"), EXPECTED)
async def test_conflicts_are_returned_not_thrown(
    state: State, found: str | None, expected: tuple[str | None, ...], ok: bool, told: str | None
) -> None:
    """T4: absent = always; `null` = must not exist; "a string = must equal the current one"."""
    if found:
        await state.make(put(value="old", revision=found))
    made = await state.make(put(value="new", expected=expected))
    assert (made.ok, made.conflict_revision) == (ok, told)
    assert await value(state) == ("new" if ok else "old" if found else None)


async def test_a_patch_merges_and_begins_with_an_empty_object(state: State) -> None:
    await state.make(patch({"a": {"b": 1, "c": 2}}))
    made = await state.make(patch({"a": {"b": None, "d": [3]}}))
    assert await value(state) == {"a": {"c": 2, "d": [3]}}
    assert made.entry is not None
    assert made.to_wire()["entry"]["value"] == {"a": {"c": 2, "d": [3]}}


async def test_an_append_to_nothing_makes_an_array_of_one(state: State) -> None:
    await state.make(append("a"))
    await state.make(append(["b"]))
    assert await value(state) == ["a", ["b"]]


UNFIT = [
    (append(1), "append requires an array under 'k', found a number; use put to replace it"),
    (patch({}), "patch requires an object under 'k', found a number; use put to replace it"),
]


@pytest.mark.parametrize(("change", "message"), UNFIT)
async def test_a_change_that_does_not_fit_changes_nothing(
    state: State, change: StateChange, message: str
) -> None:
    await state.make(put(value=1))
    with pytest.raises(ToolFailed) as refused:
        await state.make(change)
    assert (str(refused.value), refused.value.code) == (message, "TYPE_ERROR")
    assert await value(state) == 1


async def test_a_value_that_would_be_too_large_is_refused(state: State) -> None:
    await state.make(append("x" * 90))
    with pytest.raises(ToolFailed, match="at most 100 bytes as JSON, 'k' would have"):
        await state.make(append("x" * 90))
    assert await value(state) == ["x" * 90]


async def test_a_delete_reports_whether_the_key_existed(state: State) -> None:
    assert await state.make(delete()) == StateOutcome(ok=False)
    await state.make(put(revision="there"))
    assert await state.make(delete(expected=(None,))) == StateOutcome(ok=False)
    lost = await state.make(delete(expected=("other",)))
    assert lost == StateOutcome(ok=False, conflict_revision="there")
    assert (await state.make(delete(expected=("there",)))).ok
    assert await value(state) is None


async def test_a_change_reports_what_it_replaced(state: State) -> None:
    """For an undo: the revision before and after, and the value that was there."""
    first = (await state.make(put(value="a", revision="r1"))).replaced
    second = (await state.make(put(value="b", revision="r2"))).replaced
    gone = (await state.make(delete())).replaced
    refused = (await state.make(delete())).replaced
    assert [each and (each.left, each.was, each.text) for each in (first, second, gone)] == [
        ("r1", None, None),
        ("r2", "r1", '"a"'),
        (None, "r2", '"b"'),
    ]
    assert refused is None


async def test_expired_values_are_invisible_to_all_readers(state: State, clock: FakeClock) -> None:
    await state.make(put(ttl_seconds=10, revision="first"))
    entry = await state.find(ANN, "k")
    assert entry is not None
    assert entry.expires_at == Moment(START + 10_000)
    clock.advance(10)
    assert (await value(state), await keys(state)) == (None, [])
    assert (await state.make(put(expected=("first",)))).to_wire() == {"ok": False}
    assert (await state.make(delete())).ok is False
    assert (await state.make(put(expected=(None,)))).ok


async def test_patch_and_append_keep_an_expiry_that_put_removes(
    state: State, clock: FakeClock
) -> None:
    await state.make(put(value={}, ttl_seconds=10))
    clock.advance(5)
    await state.make(patch({"a": 1}))
    entry = await state.find(ANN, "k")
    assert entry is not None
    assert entry.expires_at == Moment(START + 10_000)
    await state.make(put(value=[]))
    clock.advance(10)
    assert await value(state) == []


async def test_lists_are_in_the_order_of_bytes(state: State) -> None:
    shared = Scope(ScopeKind.SHARED, "order")
    for key in ("é", "a.b", "Z"):
        await state.make(put(key, scope=shared))
    page = await state.page(shared, "")
    assert [each.key for each in page.entries] == ["Z", "a.b", "é"]


async def test_a_prefix_finds_the_keys_that_begin_with_it(state: State) -> None:
    for key in ("n.a", "n.é", "o"):
        await state.make(put(key))
    assert await keys(state, "n.") == ["n.a", "n.é"]
    assert await keys(state, "x") == []


async def test_a_cursor_stays_good_while_entries_change(state: State) -> None:
    for key in ("a", "b", "c"):
        await state.make(put(key))
    page = await state.page(ANN, "", limit=2)
    assert page.next_cursor == "b"
    await state.make(delete("b"))
    rest = await state.page(ANN, "", limit=2, cursor=page.next_cursor)
    assert ([each.key for each in rest.entries], rest.next_cursor) == (["c"], None)


async def test_a_full_scope_refuses_values_until_some_expire(
    state: State, clock: FakeClock
) -> None:
    await state.make(put("a", ttl_seconds=1))
    await state.make(put("b"))
    await state.make(put("c"))
    with pytest.raises(ToolFailed, match="the state of profile:ann has 3 values") as full:
        await state.make(put("d"))
    assert full.value.details == {"reason": "quota"}
    await state.make(put("c", value=2))
    clock.advance(1)
    await state.make(put("d"))
    assert await keys(state) == ["b", "c", "d"]


# ---- with a log ----------------------------------------------------------------------------------


async def test_a_write_and_its_record_are_one(log: Log, state: State) -> None:
    """`state.put/patch/append/delete`: "in the same transaction as the write: exactly once"."""
    lease = await held(log)
    entries = [started(), recorded(put(value=[1], revision="new"))]
    written = await log.append(lease, entries)
    record = written[-1]
    assert isinstance(record.event, CallSettled)
    assert record.event.envelope.output == {"ok": True, "entry": {"key": "k", "revision": "new"}}
    assert (await log.read(record.log_id))[-1] == record
    assert await value(state) == [1]


async def test_the_log_records_the_conflict_of_a_write(log: Log, state: State) -> None:
    lease = await held(log)
    await state.make(put(value="theirs", revision="there"))
    (record,) = await log.append(lease, [recorded(put(value="ours", expected=(None,)))])
    assert isinstance(record.event, CallSettled)
    assert record.event.envelope.output == {"ok": False, "conflict_revision": "there"}
    assert await value(state) == "theirs"


async def test_a_write_that_cannot_be_made_is_a_failure_in_the_log(log: Log, state: State) -> None:
    lease = await held(log)
    await state.make(put(value=1))
    refused, fine = await log.append(lease, [recorded(append(1)), recorded(put("b"), "y")])
    assert isinstance(refused.event, CallSettled)
    assert refused.event.envelope.error is not None
    assert refused.event.envelope.error.code == "TYPE_ERROR"
    assert isinstance(fine.event, CallSettled)
    assert fine.event.envelope.ok
    assert (await value(state), await value(state, "b")) == (1, 1)
    assert (await log.read(refused.log_id))[-2:] == [refused, fine]


async def test_of_two_writers_with_one_revision_exactly_one_is_ok(log: Log, state: State) -> None:
    """T11: "of two `put` with the same `if_revision` exactly one is ok"."""
    lease = await held(log)
    await state.make(put(value=0, revision="there"))
    tries = [put(value=number, expected=("there",)) for number in (1, 2)]
    first, second = [log.append(lease, [recorded(each)]) for each in tries]
    outcomes = [each[-1].event for each in (await first, await second)]
    ok = [each.envelope.output["ok"] for each in outcomes if isinstance(each, CallSettled)]
    assert ok == [True, False]


async def test_a_holder_that_lost_its_log_writes_nothing(log: Log, state: State) -> None:
    stale = await held(log)
    await log.surrender(stale)
    await log.acquire(stale.log_id, "other")
    with pytest.raises(BaseException, match="another process holds log"):
        await log.append(stale, [recorded(put())])
    assert await value(state) is None


async def test_the_values_of_a_task_are_deleted_with_it(log: Log, state: State) -> None:
    """T3: "task values go with the task"."""
    lease, other = await held(log), Scope(ScopeKind.TASK, f"{ONE}0")
    for scope in (MINE, MINE.part("letter"), other):
        await state.make(put(scope=scope))
    await log.append(lease, [started(), ended()])
    assert await value(state, scope=MINE) is None
    assert await value(state, scope=MINE.part("letter")) is None
    assert await value(state, scope=other) == 1

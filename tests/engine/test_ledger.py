"""The ledger: identities, and what a crash means for calls at any depth."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.core.call import Call, CallPath, frame_above, tools_on
from penstock.core.call_errors import Interrupted
from penstock.core.clock import Moment
from penstock.core.envelope import Envelope, ErrorDetail
from penstock.core.events.child_events import Join
from penstock.core.events.events import (
    CallRetried,
    CallSettled,
    CallStarted,
    NoteEmitted,
    QuestionAnswered,
    QuestionAsked,
    Record,
    StateWritten,
    TaskResumed,
    TaskStarted,
    TaskSuspended,
)
from penstock.core.events.flow_events import RunEnded
from penstock.core.ids import TaskId
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.changes import StateChange, StateVerb
from penstock.core.task import QuestionStatus
from penstock.engine.ledger import Ledger, Occurrences
from penstock.testing.clock import FakeClock, settle
from penstock.testing.log import MemoryLog
from tests.kit.session_events import (
    KEY,
    LOG,
    ONE,
    answered,
    held_log,
    ledger_of,
    outcome,
    path_of,
    question,
)


async def a_ledger() -> Ledger:
    return ledger_of(await held_log(TaskStarted()))


# ---- identity ----------------------------------------------------------------------------------


async def test_a_ledger_counts_the_calls_of_each_entry_from_one() -> None:
    ledger = await a_ledger()
    paths = [
        [seen.path("t", {}) for _ in range(2)]
        for seen in (ledger.occurrences("task/1"), ledger.occurrences("task/1"))
    ]
    assert paths[0] == paths[1] == [paths[0][0], f"{paths[0][0]}.2"]


def test_equal_calls_under_one_parent_are_numbered_from_the_second_on() -> None:
    seen = Occurrences("task/1", KEY)
    first, second, other = (seen.path("t", {"a": a}) for a in (1, 1, 2))
    assert second == f"{first}.2"
    assert other not in {first, second}
    assert first.startswith("task/1/t#")


@pytest.mark.parametrize("name", ["a/b", "a#b", "a~2", "a\x00", "a\n", "\ud83d", "/", "#/"])
def test_a_name_that_a_model_invents_is_one_part_of_a_path(name: str) -> None:
    """Models call what does not exist, such as `functions/add`: the call keeps its place."""
    path = Occurrences("task/step/1/2", KEY).path(name, {})
    assert frame_above(path) == "task/step/1"
    assert len(tools_on(path)) == 1
    assert path.isprintable()
    assert path != Occurrences("task/step/1/2", KEY).path(name.replace("/", "_") + "x", {})


def test_the_order_of_arrival_does_not_count() -> None:
    """L1: the n-th equal call, not the n-th call."""
    inputs = [{"a": 1}, {"a": 2}, {"a": 1}]
    forth, back = Occurrences("p", KEY), Occurrences("p", KEY)
    assert sorted(forth.path("t", each) for each in inputs) == sorted(
        back.path("t", each) for each in reversed(inputs)
    )


def test_a_path_depends_on_the_key_the_tool_and_the_input() -> None:
    def hash_of(key: bytes, tool_id: str, input: Any) -> str:
        return Occurrences("p", key).path(tool_id, input).rpartition("#")[2]

    base = hash_of(b"key", "tool", {})
    assert (len(base), base) == (16, hash_of(b"key", "tool", {}))
    others: list[tuple[bytes, str, Any]] = [
        (b"kez", "tool", {}),
        (b"key", "toom", {}),
        (b"key", "tool", []),
    ]
    assert len({base, *[hash_of(*each) for each in others]}) == 4


def test_a_path_takes_the_text_of_an_input_in_place_of_the_input() -> None:
    texts = [({"b": 1, "a": 2.0}, None), ({}, '{"a":2,"b":1}'), ({}, '{"a":2,')]
    known, given, broken = (Occurrences("p", KEY).path("t", *each) for each in texts)
    assert known == given != broken


def test_a_path_reveals_no_secret_without_the_key() -> None:
    one, other = (Occurrences("p", bytes([n]) * 32).path("t", {"pin": "0000"}) for n in (1, 2))
    assert one != other
    assert "0000" not in one


async def test_an_idempotency_key_is_the_same_after_a_restart() -> None:
    """L10: a hash of the identity."""
    one, other = await a_ledger(), await a_ledger()
    assert one.idempotency_key(path_of("a")) == other.idempotency_key(path_of("a"))
    assert one.idempotency_key(path_of("a")) != one.idempotency_key(path_of("b"))


# ---- what a crash means ------------------------------------------------------------------------

OUTER = CallPath("task/1/tool#a")
INNER = CallPath("task/1/tool#a/tool#b")
DEEP = CallPath("task/1/tool#a/tool#b/tool#c")


async def play(ledger: Ledger, story: str) -> None:
    """Play what the log holds: `+a` starts, `-a` settles, `?a` asks, `!a` answers, `.` resumes."""
    held = ledger.held
    for step in story.split():
        path = {"a": OUTER, "b": INNER, "c": DEEP}.get(step[1:], OUTER)
        match step[0]:
            case "+":
                ledger.add(CallStarted(tool_id="tool", idempotency_key="k"), path)
            case "-":
                done = CallSettled(tool_id="tool", envelope=Envelope.success(1))
                ledger.settle(path, done)
            case "?":
                asked = question(step[1:])
                ledger.add(QuestionAsked(question=_at(asked, path)), path)
            case "!":
                held.add(answered(step[1:], by=None), ONE)
            case _:
                held.add(TaskResumed(crashed=True), ONE)
    await held.commit()


def _at(asked: Any, path: CallPath) -> Any:
    return type(asked)(question_id=asked.question_id, kind=asked.kind, text=asked.text, path=path)


@pytest.mark.parametrize(
    ("story", "path", "runs"),
    [
        ("", OUTER, True),
        ("+a", OUTER, False),
        ("+a .", OUTER, False),
        ("+a . +a", OUTER, False),
        # it waited for a person, inside itself
        ("+a ?b", OUTER, True),
        ("+a ?b . !b", OUTER, True),
        ("+a ?c . !c", OUTER, True),
        # it was entered again, went on with the answer, and was cut
        ("+a ?b . !b . +a", OUTER, False),
        ("+a ?b . !b . +a +b", OUTER, True),
        ("+a ?b . !b . +a +b", INNER, False),
        ("+a ?b . !b . +a +b -b", OUTER, False),
        # two questions, one of them answered, then it waited again
        ("+a ?b ?c . !b . +a . !c", OUTER, True),
        # a crash in the middle of an inner write
        ("+a +b", OUTER, True),
        ("+a +b", INNER, False),
        ("+a +b +c", INNER, True),
        ("+a +b +c", DEEP, False),
        ("+a +b -b", OUTER, False),
        # a question of another call is none of its business
        ("+b ?a", INNER, False),
    ],
)
async def test_a_started_write_runs_again_only_if_it_waited(
    story: str, path: CallPath, runs: bool
) -> None:
    """A write that began is not run again, unless it waits inside itself: its open leaf decides."""
    ledger = await a_ledger()
    await play(ledger, story)
    call = Call(path, "tool", {})
    if runs:
        await ledger.start(call, again=False)
        return
    with pytest.raises(
        Interrupted, match="when the process stopped, or its disk failed: it may or may not have"
    ):
        await ledger.start(call, again=False)


@pytest.mark.parametrize("story", ["+a", "+a +b", "+a . +a . +a"])
async def test_a_frame_or_an_idempotent_write_is_entered_again_with_its_key(story: str) -> None:
    """L3: a script is a frame, not an act, so it is always entered again."""
    ledger = await a_ledger()
    await play(ledger, story)
    before = ledger.held.state.seq
    await ledger.start(Call(OUTER, "tool", {}), again=True)
    assert ledger.held.state.seq == before + 1


async def test_a_write_is_on_disk_as_started_before_it_runs() -> None:
    ledger = await a_ledger()
    before = ledger.held.state.seq
    await ledger.start(Call(OUTER, "tool", {}), again=False)
    assert ledger.held.state.seq == before + 1
    assert OUTER in ledger.task.entered


@pytest.mark.parametrize("is_awaited", [False, True])
async def test_an_outcome_is_written_in_the_background_unless_a_caller_waits_for_the_disk(
    is_awaited: bool,
) -> None:
    log = MemoryLog(FakeClock())
    ledger = ledger_of(await held_log(TaskStarted(), log=log))
    before = await log.head(LOG)
    ledger.settle(path_of("a"), outcome("a"), is_awaited=is_awaited)
    await settle()
    assert (await log.head(LOG) == before) is is_awaited
    assert await ledger.held.commit() == before + 1


async def test_a_settled_call_is_found_by_its_path() -> None:
    ledger = await a_ledger()
    assert ledger.find(OUTER) is None
    await play(ledger, "+a -a")
    found = ledger.find(OUTER)
    assert found
    assert found.envelope == Envelope.success(1)


# ---- questions and values ----------------------------------------------------------------------


async def test_an_answer_belongs_to_the_call_that_asked() -> None:
    ledger = await a_ledger()
    await play(ledger, "?b")
    assert (ledger.is_asked(INNER), ledger.is_asked(OUTER)) == (True, False)
    assert ledger.answer_to(INNER) is None
    await play(ledger, "!b")
    answer = ledger.answer_to(INNER)
    assert answer
    assert answer.status is QuestionStatus.CANCELLED
    assert ledger.answer_to(OUTER) is None


async def test_an_answer_counts_for_a_write_that_is_entered_after_it_came() -> None:
    ledger = await a_ledger()
    await play(ledger, "+a ?b !b")
    assert ledger.answer_to(INNER) is None
    await play(ledger, ". +a")
    assert ledger.answer_to(INNER)


async def test_a_value_counts_until_it_expires() -> None:
    ledger = await a_ledger()
    put = StateWritten(tool_id="t", key="k", value=1, revision=1, expires_at=Moment(100))
    ledger.put(OUTER, put)
    assert ledger.value("t", "k", Moment(99)) is put
    assert ledger.value("t", "k", Moment(100)) is None
    assert ledger.value("t", "other", Moment(1)) is None
    assert ledger.value("u", "k", Moment(1)) is None


async def test_a_change_and_its_call_are_recorded_as_one() -> None:
    """T4: "Conflicts are returned, not thrown"."""
    ledger = await a_ledger()
    scope = Scope(ScopeKind.SHARED, "s")
    settled = CallSettled(tool_id="state.put", envelope=Envelope.success(None), ran=False)
    for name, expected in (
        ("r1", {"ok": True, "entry": {"key": "k", "revision": "r1"}}),
        ("r2", {"ok": False, "conflict_revision": "r1"}),
    ):
        change = StateChange(
            verb=StateVerb.PUT, scope=scope, key="k", revision=name, expected=(None,)
        )
        made = await ledger.change(path_of(name), settled, change)
        assert made.envelope.output == expected
        assert ledger.find(path_of(name)) == made


async def test_entries_are_counted_over_parking_and_crashes() -> None:
    """Entry: one run of a script's entrypoint from its first line. A call has one entry or more."""
    ledger, path, began = (
        await a_ledger(),
        path_of("a"),
        CallStarted(tool_id="a", idempotency_key="k"),
    )
    seen = [ledger.entry(path)]
    for _ in range(2):
        ledger.add(began, path)
        seen.append(ledger.entry(path))
    ledger.park(path, attempt=1, seconds=1)
    ledger.add(began, path)
    assert [*seen, ledger.entry(path), ledger.entry(path_of("b"))] == [1, 1, 2, 3, 1]


async def test_an_attempt_that_waits_is_resumed_with_its_own_time_and_any_other_has_none() -> None:
    ledger, path = await a_ledger(), path_of("a")
    assert ledger.attempt(path) == (1, 0)
    assert (ledger.active_ms(path, 1), ledger.computed_ms(path, 1)) == (0, 0)
    ledger.park(path, attempt=2, seconds=1.5, computed_ms=700)
    ledger.park(path, attempt=2, seconds=0.25, computed_ms=50)
    assert ledger.attempt(path) == (2, 1750)
    assert [ledger.active_ms(path, attempt) for attempt in (1, 2, 3)] == [0, 1750, 0]
    assert [ledger.computed_ms(path, attempt) for attempt in (1, 2, 3)] == [0, 750, 0]
    assert [ledger.entry(each) for each in (path, path_of("b"))] == [3, 1]


async def test_the_random_seed_of_a_call_is_stable_and_its_own() -> None:
    ledger = await a_ledger()
    seeds = [ledger.seed(path) for path in (OUTER, OUTER, INNER)]
    assert [len(each) for each in seeds] == [32, 32, 32]
    assert seeds[0] == seeds[1] != seeds[2]
    assert not seeds[0].hex().startswith(ledger.idempotency_key(OUTER))


async def test_the_answers_to_a_call_and_to_questions_of_its_code_are_newest_first() -> None:
    ledger = await a_ledger()

    def answers(path: CallPath) -> list[str]:
        arrivals = ledger.arrivals(path)
        return [each.question_id for each in arrivals if isinstance(each, QuestionAnswered)]

    found = []
    for story in ("?c", "!c", "?b", "!b", "?a !a"):
        await play(ledger, story)
        found.append(answers(OUTER))
    assert found == [[], [], [], ["q_b"], ["q_a", "q_b"]]
    assert (answers(INNER), answers(path_of("z"))) == (["q_b", "q_c"], [])


async def test_a_wait_for_tasks_that_is_over_arrives_with_the_answers_to_the_call() -> None:
    ledger = await a_ledger()
    run, join = TaskId("task_9"), Join(CallPath(f"{OUTER}/task.wait#1"), (TaskId("task_9"),))
    ledger.add(TaskSuspended(questions=(), runs=(), joins=(join,)))
    assert ledger.arrivals(OUTER) == []
    ledger.add(RunEnded(run_id=run))
    await play(ledger, "?a !a")
    assert [type(each) for each in ledger.arrivals(OUTER)] == [QuestionAnswered, Join]


@pytest.mark.parametrize("attempt", ["~2", "~3"])
async def test_an_answer_to_one_attempt_counts_for_later_attempts(attempt: str) -> None:
    """L9: "answers of people are reused"; an expired question is asked again."""
    ledger = await a_ledger()
    await play(ledger, "?a ?b")
    later = CallPath(f"{OUTER}{attempt}")
    assert ledger.answer_to(later) is None
    ledger.held.add(answered("b", by=None), ONE)
    assert ledger.answer_to(CallPath(f"{INNER}{attempt}")) is None
    ledger.held.add(answered("a"), ONE)
    said = ledger.answer_to(later)
    assert said
    assert said.question_id == "q_a"
    assert ledger.answer_to(path_of("other")) is None
    assert ledger.answer_to(CallPath(f"{path_of('other')}{attempt}")) is None


async def test_characters_of_outcomes_are_counted_also_after_a_restart() -> None:
    ledger = await a_ledger()
    ledger.settle(path_of("a"), outcome("a", context="12345"))
    ledger.settle(path_of("b"), outcome("b", context=None))
    assert ledger.task.outcome_chars == 5
    assert ledger_of(ledger.held).task.outcome_chars == 5


async def test_a_failed_attempt_and_an_author_s_event_are_in_the_log() -> None:
    log = MemoryLog(FakeClock())
    ledger = ledger_of(await held_log(TaskStarted(), log=log))
    failed = CallRetried(tool_id="tool", attempt=1, error=ErrorDetail(code="X", message="m"))
    told = NoteEmitted(event_type="told")
    ledger.retry(OUTER, failed)
    ledger.note(OUTER, told)
    await ledger.held.commit()
    assert [(each.path, each.event) for each in await log.read(LOG)][-2:] == [
        (OUTER, failed),
        (OUTER, told),
    ]
    assert ledger.attempt(OUTER) == (2, 0)


async def test_an_outcome_that_a_script_waits_for_is_sent_a_moment_later() -> None:
    log = MemoryLog(FakeClock())
    ledger = ledger_of(await held_log(TaskStarted(), log=log))
    sent: asyncio.Queue[Sequence[Record]] = asyncio.Queue()
    log.listen(sent.put_nowait)
    ledger.settle(path_of("a"), settled := outcome("a", clock_ms=1))
    (record,) = await asyncio.wait_for(sent.get(), 5)
    assert record.event == settled

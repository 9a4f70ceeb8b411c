"""The loop guard: the whole table of the chat API, row by row."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.agents.agent import ChatSettings
from penstock.agents.loop_guard import LoopGuard, spelling
from penstock.core.call import Effect, ToolCall
from penstock.core.call_errors import LoopDetected
from penstock.core.envelope import Envelope, ErrorDetail, Status
from penstock.core.events.events import CallSettled
from penstock.core.ids import BlobId, CallId

NO_REPEATS = ChatSettings(loop_max_repeats=0)
NO_CYCLES = ChatSettings(loop_max_repeats=0, loop_cycles=False)
DEFAULT = ChatSettings()


def judge(letters: str, settings: ChatSettings = DEFAULT) -> list[str]:
    """Return for each call `-`, or the first letter of the detector that blocked it."""
    guard = LoopGuard(settings)
    said = []
    for number, letter in enumerate(letters):
        guard.begin_round()
        call = made(letter, {})
        verdict = guard.judge(call, spelling(call))
        said.append(verdict.detector[0] if verdict else "-")
        output = Envelope.success(number)
        guard.end_round([call], [outcome(call, output, blocked=verdict is not None)], [Effect.READ])
    return said


def made(name: str, arguments: dict[str, object], text: str | None = None) -> ToolCall:
    return ToolCall(CallId(f"tc_{name}"), name, dict(arguments), text)


def outcome(call: ToolCall, envelope: Envelope, *, blocked: bool) -> CallSettled:
    return CallSettled(
        tool_id=call.name,
        call_id=call.call_id,
        envelope=LoopDetected().envelope() if blocked else envelope,
        detector="identical" if blocked else None,
    )


@pytest.mark.parametrize(
    ("letters", "settings", "expected"),
    [
        ("AAA", DEFAULT, "--i"),
        ("ABACA", DEFAULT, "----i"),
        ("AABCDEFGHIA", DEFAULT, "----------i"),
        ("AABCDEFGHIJA", DEFAULT, "------------"),
        ("AAAA", DEFAULT, "--ii"),
        ("ABABA", DEFAULT, "----i"),
        ("ABABAB", NO_REPEATS, "-----c"),
        ("ABABABAB", NO_REPEATS, "-----c--"),
        ("ABCABCABC", NO_REPEATS, "--------c"),
        ("ABCDEFABCDEFABCDEF", DEFAULT, "-----------------c"),
        ("ABCDEFGABCDEFGABCDEFG", DEFAULT, "---------------------"),
        ("BAABAABAA", NO_REPEATS, "--------c"),
        ("ABABAB", NO_CYCLES, "------"),
        ("AAAAAA", NO_REPEATS, "------"),
        ("AAAAAA", NO_CYCLES, "------"),
        ("ABABA", ChatSettings(loop_max_repeats=1), "--iii"),
        ("AABA", ChatSettings(loop_window=2), "----"),
        ("AAA", ChatSettings(loop_window=2), "--i"),
    ],
)
def test_each_row_of_the_table(letters: str, settings: ChatSettings, expected: str) -> None:
    """One letter is one key; `i` is blocked as identical, `c` as a cycle."""
    assert "".join(judge(letters, settings)) == expected


def test_blocked_calls_do_not_enter_the_window() -> None:
    """After nine blocked repeats the window still holds the first two alone."""
    assert "".join(judge("AA" + "A" * 9 + "BCDEFGHI" + "A")) == "--" + "i" * 9 + "-" * 8 + "i"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}),
        ({"x": -0.0}, {"x": 0}),
        ({"s": "\u00e9"}, {"s": "é"}),
        ({"n": 100000000000000000000}, {"n": 1e20}),
    ],
)
def test_equal_arguments_are_one_key(one: dict[str, object], other: dict[str, object]) -> None:
    assert spelling(made("t", one)) == spelling(made("t", other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"q": "React"}, {"q": "react"}),
        ({"q": "a"}, {"q": "a "}),
        ({"s": "\u00e9"}, {"s": "e\u0301"}),
        ({"q": "a"}, {"q": "a", "limit": None}),
        ({"l": [1, 2]}, {"l": [2, 1]}),
    ],
)
def test_other_arguments_are_another_key(one: dict[str, object], other: dict[str, object]) -> None:
    assert spelling(made("t", one)) != spelling(made("t", other))


def test_arguments_that_did_not_parse_count_by_their_text() -> None:
    guard = LoopGuard(DEFAULT)
    guard.begin_round()
    calls = [made("t", {}, text) for text in ("{", "{", "{ ", "{")]
    verdicts = [guard.judge(call, spelling(call)) for call in calls]
    assert [verdict is not None for verdict in verdicts] == [False, False, False, True]


def test_the_same_name_with_other_arguments_is_another_call() -> None:
    guard = LoopGuard(DEFAULT)
    guard.begin_round()
    calls = [made("t", {"n": number}) for number in range(5)]
    assert [guard.judge(call, spelling(call)) for call in calls] == [None] * 5


def test_a_verdict_reports_the_number_of_calls_and_that_it_was_not_run() -> None:
    guard = LoopGuard(DEFAULT)
    guard.begin_round()
    call = made("search_knowledge", {"query": "x"})
    verdicts = [guard.judge(call, spelling(call)) for _ in range(3)]
    assert verdicts[2]
    assert verdicts[2].message == (
        "search_knowledge was called with these arguments 2 times already; it was not run again."
    )


Rounds = list[tuple[str, object, Effect]]


def progress(rounds: Rounds, settings: ChatSettings = DEFAULT) -> str:
    """Play rounds of one call each, with arguments of their own; say which were blocked."""
    guard = LoopGuard(settings)
    said = []
    for number, (name, output, effect) in enumerate(rounds):
        guard.begin_round()
        call = made(name, {"n": number})
        verdict = guard.judge(call, spelling(call))
        said.append(verdict.detector[0] if verdict else "-")
        envelope = output if isinstance(output, Envelope) else Envelope.success(output)
        guard.end_round([call], [outcome(call, envelope, blocked=verdict is not None)], [effect])
    return "".join(said)


def failed(code: str, message: str) -> Envelope:
    return Envelope(Status.FAILED, error=ErrorDetail(code=code, message=message))


def same(times: int, effect: Effect = Effect.READ) -> Rounds:
    return [("search_knowledge", {"results": []}, effect)] * times


@pytest.mark.parametrize(
    ("rounds", "settings", "expected"),
    [
        (same(6), DEFAULT, "-----n"),
        (same(11), DEFAULT, "-----n----n"),
        ([("a", failed("X", "one"), Effect.READ)] * 6, DEFAULT, "-----n"),
        ([("a", failed(f"X{n}", "one"), Effect.READ) for n in range(6)], DEFAULT, "------"),
        ([("a", failed("X", f"{n}"), Effect.READ) for n in range(6)], DEFAULT, "------"),
        (same(3), ChatSettings(loop_no_progress=1), "--n"),
        (same(20), ChatSettings(loop_no_progress=0), "-" * 20),
        (same(10, Effect.WRITE), DEFAULT, "-" * 10),
        ([("a", 1, Effect.READ), ("b", 1, Effect.READ)] * 3, DEFAULT, "------"),
        (
            [*same(4), ("search_knowledge", {"results": [1]}, Effect.READ), *same(4)],
            DEFAULT,
            "-" * 9,
        ),
        ([*same(4), *same(1, Effect.WRITE), *same(5)], DEFAULT, "---------n"),
        (
            [("t", {"a": 1, "b": 2}, Effect.READ), ("t", {"b": 2.0, "a": 1}, Effect.READ)] * 3,
            DEFAULT,
            "-----n",
        ),
        ([("t", LoopDetected("x").envelope(), Effect.READ)] * 6, DEFAULT, "-----n"),
    ],
)
def test_rounds_that_bring_nothing_new(
    rounds: Rounds, settings: ChatSettings, expected: str
) -> None:
    """`n` is blocked because four rounds before it brought only results the task had seen."""
    assert progress(rounds, settings) == expected


def test_a_clipped_result_is_compared_by_its_whole_text() -> None:
    guard = LoopGuard(ChatSettings(loop_no_progress=1))
    blocked = []
    for number, blob in enumerate(["b1", "b1", "b2"]):
        guard.begin_round()
        call = made("t", {"n": number})
        blocked.append(guard.judge(call, spelling(call)) is not None)
        clipped = CallSettled(
            tool_id="t",
            envelope=Envelope.success("…"),
            context=f"… artifact art_{number}",
            artifact_blob=BlobId(blob),
        )
        guard.end_round([call], [clipped], [Effect.READ])
    assert blocked == [False, False, True]


@given(st.lists(st.sampled_from("ABC"), max_size=40), st.integers(0, 40))
def test_a_verdict_depends_only_on_the_calls_before_it(letters: Sequence[str], cut: int) -> None:
    """A guard that is shown the first calls again, at any cut, says the same of the rest."""
    text = "".join(letters)
    whole = judge(text)
    again = judge(text[:cut])
    assert whole[:cut] == again
    assert judge(text) == whole


def test_in_an_agent_session_only_equal_results_make_a_repetition() -> None:
    """The loop guard of a chat, with one difference: the equal call also had the equal result."""
    guard = LoopGuard(ChatSettings(loop_max_repeats=2), by_result=True)
    for result in ("one", "two", "three"):
        assert judged(guard, "look", result) is None
    assert judged(guard, "look", "three") is None
    assert judged(guard, "look", "three") == "identical"


def test_calls_of_an_exempt_tool_always_pass() -> None:
    guard = LoopGuard(ChatSettings(loop_max_repeats=1), exempt={"finish"})
    assert [judged(guard, "finish", "no") for _ in range(4)] == [None] * 4


def judged(guard: LoopGuard, tool_id: str, result: str) -> str | None:
    """Take one round of one call through the guard; returns the detector that stopped it."""
    call = ToolCall(CallId("c"), tool_id, {})
    guard.begin_round()
    verdict = guard.judge(call, "{}")
    settled = CallSettled(
        tool_id=tool_id,
        envelope=Envelope.success(result),
        detector=verdict.detector if verdict else None,
    )
    guard.end_round([call], [settled], [Effect.READ])
    return verdict.detector if verdict else None

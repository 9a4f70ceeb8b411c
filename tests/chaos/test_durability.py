"""No call lost, none made twice: real processes on a real file, ended at every moment there is."""

import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.harness import (
    Moment,
    Nursery,
    Server,
    Talk,
    effects,
    events,
    place,
    settled,
)

WRITES = {"inner 1", "inner 2", "inner 3", "outer", "plain", "guarded", "asking"}
PAGE = Path(__file__).parents[2] / "docs" / "durability.md"
TOOL = f"(?:{'|'.join(sorted({name.partition(' ')[0] for name in WRITES}))})"
PROMISED = re.compile(rf"each once|`INTERRUPTED`: {TOOL}(?:, {TOOL})*")
TESTS = Path(__file__).parents[1]
KILLED = "chaos/test_durability.py::test_every_moment_is_survived"
CUT = "journeys/test_crash_between_calls.py::test_each_row_of_the_table"
FLOWS = "chaos/test_flows.py::test_every_moment_of_a_flow_is_survived"
BLOCKED = "journeys/test_blocked.py"
FLOWS_BLOCKED = "journeys/test_blocked_flows.py"
SHELL = "test_a_command_that_the_end_of_the_process_cut_runs_again_if_it_may"
SHOWN = {
    "`kill -9` while a model answers": [
        "journeys/test_killed.py::test_a_reply_that_was_cut_begins_again_and_its_log_says_so",
        "server/streams/test_wire.py::test_a_restarted_reply_is_taken_back",
    ],
    "`kill -9` in a tool whose effect is `none` or `read`": [
        "journeys/test_poison.py::test_a_call_that_kills_the_process_fails_its_task_in_the_end"
    ],
    "`kill -9` in a tool whose effect is `write`": [KILLED, CUT],
    "the same, and the tool is `idempotent`": [CUT],
    "`kill -9` after a call was settled": [KILLED, CUT],
    "`kill -9` while a question is open": [
        KILLED,
        "engine/test_activation.py::test_a_parked_task_is_a_row_and_no_work",
    ],
    "an answer, a cancel and the end of its time come at once": [
        "contracts/test_answers.py::test_whatever_comes_together_one_event_closes_a_question",
        "server/routes/test_questions.py::test_no_answer_is_taken_once_the_cancel_was",
    ],
    "a row of the database is lost or does not read back": [
        "journeys/test_damaged_logs.py::test_a_damaged_conversation_hurts_itself_alone",
        "journeys/test_damaged_logs.py::test_a_damaged_run_hurts_itself_alone",
    ],
    "the power goes": [
        "store/test_database.py::test_a_commit_waits_for_the_disk_as_far_as_it_is_told"
    ],
    "a process freezes, another takes over, the first wakes": [
        KILLED,
        "store/test_sql_log.py::test_a_process_that_was_frozen_and_came_back_can_change_nothing",
    ],
    "no file descriptor or thread is left": [
        "engine/test_activation.py::test_a_lack_of_resources_is_no_fault_of_the_task",
        "journeys/test_model_call.py::test_a_model_call_waits_for_a_file_instead_of_failing",
        "chaos/test_burst.py::test_a_burst_beyond_the_files_of_the_process_is_answered",
    ],
    "`kill -9` while a shell command runs, or its call is cancelled": [
        "tools/test_shell.py::test_a_command_that_is_cut_changes_nothing",
        "tools/test_shell.py::test_a_command_whose_penstock_is_killed_changes_nothing_and_ends",
    ],
    "the same, when the command has ended and its changes are taken over": [
        "tools/test_shell.py::test_changes_of_a_call_that_is_cancelled_meanwhile_are_all_taken_over",
        "promises/test_killed_takeover.py::test_a_kill_leaves_each_file_as_it_was_or_as_it_will_be",
    ],
    "a client goes away": [
        "journeys/test_sse.py::test_who_hangs_up_cancels_nothing",
        "journeys/test_transcripts.py::test_coming_back_after_any_frame",
    ],
    "a task crashes its process again and again": [
        "chaos/test_poison.py::test_a_process_that_dies_at_the_same_place_again_and_again",
        "journeys/test_poison.py::test_the_next_message_is_answered_after_a_task_that_failed_so",
    ],
    "the same, beside other tasks": [
        "chaos/test_blame.py::test_the_poison_fails_and_the_innocent_are_done",
        "chaos/test_blame.py::test_two_processes_of_one_database_find_the_poison_together",
    ],
    "`kill -9` again and again, and no task is to blame": [
        "chaos/test_blame.py::test_kills_from_outside_fail_nothing",
    ],
    "another process takes over a task and lacks its agent, its model or a tool it calls": [
        "chat/test_needs.py::test_what_is_missing",
        f"{BLOCKED}::test_a_task_that_was_killed_in_a_tool_is_not_failed_where_its_agent_is_missing",
    ],
    "a question of such a task is answered in such a process": [
        f"{BLOCKED}::test_an_answer_is_kept_until_a_process_has_what_the_task_needs",
    ],
    "another process takes over a flow and lacks an agent of its next steps, or a model or tool "
    "in use": [
        f"{FLOWS_BLOCKED}::test_a_run_waits_for_the_agent_of_its_next_step",
        f"{FLOWS_BLOCKED}::test_an_agent_of_a_flow_that_was_killed_in_a_tool_waits_for",
        f"{FLOWS_BLOCKED}::test_what_needs_nothing_that_is_missing_goes_on_beside_a_blocked_step",
    ],
    "`kill -9` between two steps of a flow, or in one": [
        FLOWS,
        "journeys/test_flow_killed.py::test_killed_at_any_write_the_run_ends_the_same",
    ],
    "the same, in a shell step": [
        FLOWS,
        f"promises/test_flow_outcomes.py::{SHELL}",
    ],
    "the same, in a code step": [
        FLOWS,
        "journeys/test_flow_code_killed.py::test_killed_at_any_write_the_run_ends_the_same",
    ],
}
TITLE = "## Every moment there is"
HEAD = f"""{TITLE}

Generated by `tests/chaos/test_durability.py` (`--write-durability`); do not edit. A conversation
with nested calls, parallel calls, an approval and a question runs on a real server with a real
file. The process is ended at every moment there is: after each commit, before anybody is told of
it, and after each effect of a tool, before anything is noted. It is killed (`SIGKILL`), or frozen
(`SIGSTOP`) until another process has taken over, and then let go on. Another process finishes the
conversation. Each time:

- the task ends with the same answer;
- each of the seven writes happened exactly once, or the model was told `INTERRUPTED` and it
  happened at most once;
- one client that came back with `Last-Event-ID` saw every frame once, in order;
- the process that was frozen wrote nothing to the log when it went on; at most it ended the write
  it was frozen in, which had been reported `INTERRUPTED`.

Which calls are in flight together at a moment depends on the machine, and so does the exact column
of an outcome; what stands above does not.

| moment | killed | frozen |
|---|---|---|
"""


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Where servers come from."""
    opened = Nursery()
    yield opened
    opened.close()


def moments_of(nursery: Nursery, directory: Path) -> list[Moment]:
    """Run the conversation once without a crash, and list the moments it has."""
    with nursery.start(directory, None, signal.SIGKILL) as server:
        talk = Talk()
        talk.go_on(server)
        assert talk.is_over
        check_stream(talk, server)
    lines = (directory / "moments").read_text().splitlines()
    return [Moment(kind, int(number), label) for kind, number, label in map(_parted, lines)]


def survive(nursery: Nursery, directory: Path, moment: Moment, by: signal.Signals) -> str:
    """End a server at the moment, finish on another, and return what became of the writes."""
    talk = Talk()
    with nursery.start(directory, moment, by) as first:
        talk.go_on(first)
        first.leave_the_file(directory)
        with nursery.start(directory, None, by) as second:
            talk.go_on(second)
            assert talk.is_over, f"{moment} was never reached again"
            check_stream(talk, second)
            if by is signal.SIGSTOP and first.is_gone:
                check_thaw(talk, first, second, directory)
            return check_writes(talk, second, directory)


def check_thaw(talk: Talk, frozen: Server, second: Server, directory: Path) -> None:
    """A process that goes on may only end the effect it was frozen in, which was reported cut.

    It is frozen anywhere: also after it made sure of its lease, before the next line, the effect.
    """
    told, happened = events(talk, second), effects(directory)
    frozen.thaw()
    assert events(talk, second) == told
    late = {name.partition(" ")[0] for name in effects(directory)[len(happened) :]}
    assert late <= excused(told)


def check_stream(talk: Talk, server: Server) -> None:
    """The stream over the crash is the stream of one who saw no crash: no gap, no double."""
    ids = [place(event_id) for event_id, _ in talk.frames]
    assert ids == sorted(set(ids))
    whole = Talk(conversation=talk.conversation)
    whole.go_on(server)
    assert settled(talk.frames) == settled(whole.frames)
    assert talk.frames[-1][1]["type"] == "message_complete"
    assert talk.frames[-1][1]["content"] == "All is done."


def check_writes(talk: Talk, server: Server, directory: Path) -> str:
    """Each write once, or reported as interrupted."""
    happened = Counter(effects(directory))
    assert set(happened) <= WRITES
    assert max(happened.values()) == 1
    ended = [each for each in events(talk, server) if each["kind"] == "call_settled"]
    paths = Counter(each["path"] for each in ended)
    assert set(paths.values()) == {1}
    cut = [each["body"]["tool_id"] for each in ended if _is_interrupted(each)]
    failed = [each for each in ended if "error" in each["body"].get("envelope", {})]
    assert all(map(_is_interrupted, failed))
    assert {name.partition(" ")[0] for name in WRITES - set(happened)} <= excused(ended)
    return f"`INTERRUPTED`: {', '.join(cut)}" if cut else "each once"


def excused(told: list[dict[str, Any]]) -> set[str]:
    """Return the tools that the model was told of as cut, and what they call."""
    cut = {each["body"]["tool_id"] for each in told if _is_interrupted(each)}
    return {*cut, "inner"} if "outer" in cut else cut


@pytest.mark.slow("some sixty conversations, each over a crash of a real process", seconds=300)
def test_every_moment_is_survived(
    nursery: Nursery, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Kill and freeze at every commit point; the list of points and outcomes is the page."""
    quiet = tmp_path / "quiet"
    quiet.mkdir()
    rows = []
    for moment in moments_of(nursery, quiet):
        outcomes = []
        for by in (signal.SIGKILL, signal.SIGSTOP):
            directory = tmp_path / f"{moment.kind}-{moment.number}-{by.name}"
            directory.mkdir()
            outcomes.append(survive(nursery, directory, moment, by))
        rows.append(f"| {moment} | {' | '.join(outcomes)} |\n")
    kept, _, told = PAGE.read_text().partition(TITLE)
    if request.config.getoption("--write-durability"):
        PAGE.write_text(kept + HEAD + "".join(rows))
    else:
        check_page(TITLE + told, "".join(rows))
    assert len(rows) >= 20


def test_the_page_tells_every_moment_and_nothing_but_outcomes_that_are_promised() -> None:
    """Page: "happened exactly once, or the model was told `INTERRUPTED`"."""
    _kept, _, told = PAGE.read_text().partition(TITLE)
    page = TITLE + told
    rows = page.removeprefix(HEAD)
    check_page(page, rows)
    first = rows.splitlines(keepends=True)[0]
    for broken in (
        page.replace("each once", "NEVER"),
        page.replace("`INTERRUPTED`: ", "`INTERRUPTED`: nobody, ", 1),
        page.replace("each once |", "", 1),
        page.replace(first, ""),
        page + first.replace("session_opened", "session_forgotten"),
        page.replace("same answer", "other answer"),
    ):
        assert broken != page
        with pytest.raises(AssertionError):
            check_page(broken, rows)


@pytest.mark.parametrize(("row", "shown"), SHOWN.items())
def test_every_row_that_is_written_by_hand_is_shown(row: str, shown: list[str]) -> None:
    """The rows of the first table are those that tests show, each by those that are named here."""
    told = PAGE.read_text().partition(TITLE)[0]
    rows = [_cells(line)[0] for line in told.splitlines() if line.startswith("| ")]
    assert rows[1:] == list(SHOWN)
    assert row in rows
    for each in shown:
        file, _, name = each.partition("::")
        assert f"def {name}(" in (TESTS / file).read_text()


def check_page(page: str, rows: str) -> None:
    """The page says what it is, has the moments of these rows, and each outcome is a promised one.

    How often a moment is there, and which calls it cut, depends on the machine.
    """
    assert page.startswith(HEAD)
    told = [_cells(line) for line in page.removeprefix(HEAD).splitlines()]
    assert {moment for moment, *_ in told} == {_cells(row)[0] for row in rows.splitlines()}
    assert all(len(outcomes) == len(("killed", "frozen")) for _, *outcomes in told)
    assert all(PROMISED.fullmatch(each) for _, *outcomes in told for each in outcomes)


def _is_interrupted(event: dict[str, Any]) -> bool:
    error = event["body"].get("envelope", {}).get("error") or {}
    return bool(error.get("code") == "INTERRUPTED")


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split(" | ")]


def _parted(line: str) -> tuple[str, str, str]:
    kind, number, label = line.split(" ", 2)
    return kind, number, label

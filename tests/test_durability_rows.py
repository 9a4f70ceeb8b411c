"""Every row of the first table in docs/durability.md names a promise that tests show."""

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "durability.md"
TITLE = "## All kill points"
KILLED = "chaos/test_durability.py::test_every_moment_is_survived"
CUT = "journeys/test_crash_between_calls.py::test_each_row_of_the_crash_table_holds"
FLOWS = "chaos/test_flows.py::test_every_moment_of_a_flow_is_survived"
BLOCKED = "journeys/test_blocked.py"
TOOLSETS = "journeys/test_toolsets.py"
FLOWS_BLOCKED = "journeys/test_blocked_flows.py"
UNDO = "journeys/test_undo_http.py"
TICKER = "chat/schedules/test_ticker.py"
SHELL = "test_an_idempotent_command_interrupted_by_a_crash_runs_again"
SHOWN = {
    "`kill -9` while a model answers": [
        "journeys/test_killed.py::test_a_cut_reply_starts_again_and_its_log_records_it",
        "server/streams/test_wire.py::test_a_restarted_reply_is_retracted",
    ],
    "`kill -9` in a tool whose effect is `none` or `read`": [
        "journeys/test_poison.py::test_a_call_that_kills_the_process_eventually_fails_its_task"
    ],
    "`kill -9` in a tool whose effect is `write`": [KILLED, CUT],
    "the same, and the tool is `idempotent`": [CUT],
    "`kill -9` after a call was settled": [KILLED, CUT],
    "`kill -9` while a question is open": [
        KILLED,
        "engine/test_activation.py::test_a_parked_task_is_a_row_and_no_work",
    ],
    "an answer, a cancel and the expiry of a question arrive at the same time": [
        "contracts/test_answers.py::test_one_of_several_simultaneous_events_closes_a_question",
        "server/routes/test_questions.py::test_an_answer_after_a_cancel_is_refused",
    ],
    "a row of the database is lost or cannot be read": [
        "journeys/test_damaged_logs.py::test_a_damaged_conversation_affects_no_other",
        "journeys/test_damaged_logs.py::test_a_damaged_run_affects_no_other",
    ],
    "the power fails": ["store/test_database.py::test_a_commit_syncs_as_configured"],
    "a process freezes, another takes over, the first wakes": [
        KILLED,
        "store/logs/test_sql_log.py::test_a_process_that_was_frozen_and_came_back_can_change_nothing",
    ],
    "no file descriptor or thread is left": [
        "engine/test_activation.py::test_a_lack_of_resources_is_not_blamed_on_the_task",
        "journeys/test_model_call.py::test_a_model_call_waits_for_a_file_descriptor_instead_of_failing",
        "chaos/test_burst.py::test_a_burst_beyond_the_files_of_the_process_is_answered",
    ],
    "`kill -9` while a shell command runs, or its call is cancelled": [
        "tools/test_shell.py::test_a_command_that_is_cut_changes_nothing",
        "tools/test_shell.py::test_a_command_whose_penstock_is_killed_changes_nothing_and_ends",
    ],
    "the same, while the changes of the finished command are applied": [
        "tools/test_shell.py::test_all_changes_of_a_cancelled_call_are_applied",
        "promises/test_killed_takeover.py::test_a_kill_leaves_each_file_as_it_was_or_as_it_will_be",
    ],
    "`kill -9` during `penstock backup`": [
        "store/upkeep/test_backup.py::test_a_backup_that_is_cut_has_no_name",
    ],
    "`kill -9` during `penstock restore`": [
        "chaos/test_backups.py::test_a_killed_restore_leaves_the_old_state_or_the_new",
    ],
    "a backup is made while 100 chats run": [
        "chaos/test_backups.py::test_a_backup_taken_while_100_chats_run_is_whole",
    ],
    "a byte of a backup is changed": [
        "store/upkeep/test_backup_folder.py::test_a_flipped_byte_anywhere_is_found",
        "store/upkeep/test_restore.py::test_a_damaged_backup_changes_nothing",
    ],
    "a [snapshot](long-logs.md#snapshots) has a flipped byte, or other code wrote it": [
        "store/logs/test_sql_snapshots.py::test_a_row_with_a_flipped_byte_is_not_believed",
        "engine/test_cold_folds.py::test_a_snapshot_that_does_not_fit_is_ignored",
    ],
    "`kill -9` during a step of retention": [
        "store/upkeep/test_retention.py::test_the_space_is_overwritten_by_the_next_sweep",
        "store/upkeep/test_retention.py::test_a_kill_between_rows_and_blobs_is_finished_later",
    ],
    "a message arrives while retention deletes its conversation": [
        "store/upkeep/test_retention.py::test_a_message_that_arrives_at_the_same_time_wins",
    ],
    "`kill -9` while old events are [archived](long-logs.md#archive), at any write": [
        "store/logs/test_archive.py::test_a_stop_at_any_write_loses_no_event",
        "store/logs/test_archive.py::test_a_sweep_that_claims_the_bytes_makes_the_part_give_up",
    ],
    "`kill -9` during `penstock move`": [
        "store/upkeep/test_moving.py::test_a_move_that_was_killed_is_repeated_or_ended",
        "chaos/test_backups.py::test_a_killed_move_is_repeated",
    ],
    "a server starts with the settings from before a move": [
        "store/upkeep/test_moving.py::test_everything_moves_to_postgres_and_back",
    ],
    "a client goes away": [
        "journeys/test_sse.py::test_a_client_that_disconnects_cancels_no_task",
        "journeys/test_transcripts.py::test_a_reader_can_resume_after_any_frame",
    ],
    "a task crashes its process repeatedly": [
        "chaos/test_poison.py::test_a_process_that_dies_at_the_same_place_again_and_again",
        "journeys/test_poison.py::test_the_next_message_is_answered_after_such_a_failed_task",
    ],
    "the same, beside other tasks": [
        "chaos/test_blame.py::test_the_poison_fails_and_the_innocent_are_done",
        "chaos/test_blame.py::test_two_processes_of_one_database_find_the_poison_together",
    ],
    "a process has no free slot (`limits.activations`) for a task": [
        "promises/test_lease_renewal.py::test_what_waits_for_a_slot_runs_elsewhere_and_is_no_crash",
        "contracts/test_launcher.py::test_a_log_that_must_wait_for_a_slot_gets_no_lease",
    ],
    "repeated `kill -9` that no task causes": [
        "chaos/test_blame.py::test_kills_from_outside_fail_nothing",
    ],
    "another process takes over a task and lacks its agent, its model or a tool it calls": [
        "chat/test_task_bodies.py::test_missing_parts_of_a_task_are_reported",
        f"{BLOCKED}::test_a_task_killed_in_a_tool_does_not_fail_where_its_agent_is_missing",
    ],
    "a question of such a task is answered in such a process": [
        f"{BLOCKED}::test_an_answer_is_stored_until_a_process_has_the_missing_part",
    ],
    "another process takes over a task, and a toolset of its agent fails there": [
        f"{TOOLSETS}::test_a_toolset_that_fails_later_blocks_the_task_which_keeps_its_answer"
    ],
    "the same, and the toolset no longer returns a tool whose write had started": [
        f"{TOOLSETS}::test_a_started_write_whose_tool_is_gone_may_have_happened"
    ],
    "`kill -9` while one agent hands the conversation off to another": [
        "journeys/test_handoffs.py::test_a_task_killed_at_any_write_is_handed_off_once",
        "journeys/test_handoffs_kept.py::test_two_hand_offs_killed_at_any_write_happen_once",
    ],
    "the same, while an agent works for a call of another": [
        "chat/calls/test_agent_calls.py::test_a_task_killed_at_any_write_ends_the_same",
        "journeys/test_inner_agents.py::test_three_agents_inside_each_other_killed_at_any_write",
    ],
    "another process takes over a flow and lacks an agent of its next steps, or a model or tool "
    "in use": [
        f"{FLOWS_BLOCKED}::test_a_run_waits_for_the_agent_of_its_next_step",
        f"{FLOWS_BLOCKED}::test_an_agent_of_a_flow_killed_in_a_tool_waits_for_that_tool",
        f"{FLOWS_BLOCKED}::test_other_steps_continue_beside_a_blocked_step",
    ],
    "`kill -9` between two steps of a flow, or in one": [
        FLOWS,
        "journeys/test_flow_killed.py::test_a_run_killed_at_any_write_ends_the_same",
    ],
    "the same, in a shell step": [
        FLOWS,
        f"promises/test_flow_outcomes.py::{SHELL}",
    ],
    "the same, in a code step": [
        FLOWS,
        "journeys/test_flow_code_killed.py::test_a_run_killed_at_any_write_ends_the_same",
    ],
    "`kill -9` while a schedule is due, at any write": [
        "chaos/test_schedules.py::test_a_tick_survives_a_kill_at_each_of_its_writes"
    ],
    "`kill -9` while a tool requests [child tasks](tasks.md) or waits for them, at any write": [
        "journeys/test_children_killed.py::test_a_story_killed_at_any_write_has_each_child_once"
    ],
    "`kill -9` at any write, effect or delivery of a story with a schedule, children, a timer, "
    "webhooks and an undo": [
        "chaos/test_shop.py::test_a_story_of_time_is_survived_at_every_moment"
    ],
    "the same, beside another process on the same database, SQLite or Postgres": [
        "chaos/test_shop.py::test_a_story_is_survived_by_one_of_two_servers",
        "journeys/test_two_processes.py::test_a_child_runs_in_another_process_than_its_parent",
        "journeys/test_two_processes.py::test_a_cancel_reaches_a_child_in_another_process",
    ],
    "`kill -9` at any write of an [undo](undo.md) with reverts, an approval, values, files and a "
    "child": [
        "journeys/test_undo_killed.py::test_an_undo_killed_at_any_write_takes_each_call_back_once"
    ],
    "a revert of an undo fails, is rejected, or the undo is cancelled while it waits": [
        f"{UNDO}::test_a_revert_that_fails_leaves_the_rest_to_a_person_and_nothing_runs_twice",
        f"{UNDO}::test_an_undo_that_a_person_ends_leaves_the_rest_for_another",
    ],
    "several processes see the same due time": [
        f"{TICKER}::test_several_processes_start_one_task_for_each_due_time",
        "store/values/test_due_times.py::test_one_due_time_starts_one_task_also_if_it_comes_again",
    ],
    "no process runs while a schedule is due": [
        f"{TICKER}::test_what_was_due_while_nothing_ran_fires_once_or_is_missed"
    ],
    "the clock goes back a day, or was a month ahead": [
        f"{TICKER}::test_a_clock_that_goes_back_a_day_starts_nothing_twice",
        f"{TICKER}::test_a_clock_that_was_a_month_ahead_silences_no_schedule",
    ],
}


@pytest.mark.parametrize(("row", "shown"), SHOWN.items())
def test_every_handwritten_row_has_a_test(row: str, shown: list[str]) -> None:
    """The rows of the first table are the keys here, and each named test exists."""
    first = PAGE.read_text().partition(TITLE)[0]
    rows = [line.split("|")[1].strip() for line in first.splitlines() if line.startswith("| ")]
    assert rows[1:] == list(SHOWN)
    assert row in rows
    for each in shown:
        file, _, name = each.partition("::")
        assert f"def {name}(" in (TESTS / file).read_text()

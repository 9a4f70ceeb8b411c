"""Differences for people and programs."""

from typing import Any

import pytest

from penstock.chat.recorded.replay_report import (
    CHANGES,
    ReplayReport,
    ValueChange,
    around,
    difference,
    shown_path,
)


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        ({"id": "7"}, {"id": 7}, [ValueChange(pointer="/id", was="7", now=7)]),
        ("tea", "ten", [ValueChange(pointer="", was="tea", now="ten", character=2)]),
        ("tea", "teas", [ValueChange(pointer="", was="tea", now="teas", character=3)]),
        (
            {"a/b": 1},
            {"c~": 1},
            [
                ValueChange(pointer="/a~1b", was=1),
                ValueChange(pointer="/c~0", now=1),
            ],
        ),
        ([1, {"x": 2}], [1, {"x": 3}], [ValueChange(pointer="/1/x", was=2, now=3)]),
        ([1], [1, 2], [ValueChange(pointer="", was=[1], now=[1, 2])]),
        (1, True, [ValueChange(pointer="", was=1, now=True)]),
    ],
)
def test_a_difference_lists_single_changes(was: Any, now: Any, expected: list[ValueChange]) -> None:
    found = difference("tool_input", "", seq=1, path="task/1", recorded=was, now=now)
    assert list(found.diff) == expected


def test_long_values_are_cut_around_the_difference() -> None:
    was, now = "x" * 9_000 + "old" + "y" * 9_000, "x" * 9_000 + "new" + "y" * 9_000
    found = difference("prompt", "", seq=1, path="", recorded={"system": was}, now={"system": now})
    assert ("old" in found.recorded["system"], "new" in found.now["system"]) == (True, True)
    assert len(found.recorded["system"]) <= 4_002
    assert (found.diff[0].character, len(found.diff[0].was)) == (9_000, 122)


def test_of_many_changes_the_first_are_listed() -> None:
    found = difference("code", "", seq=1, path="", recorded=[0] * 99, now=[1] * 99)
    assert len(found.diff) == CHANGES


def test_paths_are_shown_without_ids_and_hashes() -> None:
    path = "task_1/3/pay#0123456789abcdef.2/get#fedcba9876543210"
    assert shown_path("task_1", path) == "task/3/pay#2/get#1"


def test_a_text_around_a_place_keeps_its_ends() -> None:
    assert around("abcdefgh", 0, 4) == "abcd…"
    assert around("abcdefgh", 7, 4) == "…efgh"
    assert around("abcd", 2, 4) == "abcd"


def test_the_wire_form_of_a_report_names_what_differs() -> None:
    found = difference("code", "pay differs", seq=7, path="task/1", recorded=1, now=2)
    report = ReplayReport(task_id="task_1", compared_events=3, total_events=9, difference=found)
    wire = report.to_wire()
    assert (wire["equal"], wire["difference"]["diff"]) == (
        False,
        [{"pointer": "", "was": 1, "is": 2}],
    )

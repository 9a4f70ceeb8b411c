"""The benches: every one runs, gives the keys it promises, and refuses a run that did less work."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import harness, report
from bench.harness import Line, Options
from bench.kit import script

DURABLE = {"call_full_ms", "call_normal_ms", "call_full_10_ms", "call_normal_10_ms"}
LOOP = {"turn_us", "parallel_tool_us", "runs_per_cpu_s", "instantiate_us", "marginal_us"}
SSE = {"runs_per_s_200", "cpu_ms_per_run_200", "first_event_p50_ms_200", "synchronous"}
ALONE = {"runs_per_s_1", "runs_per_s_50", "rss_mib"}
FOLD = {"cold_10k_ms", "warm_first_event_ms", "new_first_event_ms"}
FLOW = {"step_us_10", "step_us_1000", "plan_1000_ms", "check_200_ms", "steps_per_s"}
PARKED = {"start_10k_s", "parked_idle_cpu_pct", "wake_ms", "schedules_idle_pct", "burst_1000_s"}
TASKS = {*PARKED, "cold_100k_ms", "cold_1m_ms", "children32_s", "replay_events_s"}
KEYS = [
    ("durable", "raw", {*DURABLE, "bytes_per_call"}),
    ("durable", "penstock", {*DURABLE, "bytes_per_call", "bytes_per_call_300"}),
    ("idle", "penstock", {"streams", "rss_mib", "kib_per_stream"}),
    ("sse", "penstock", {*SSE, *ALONE, *(f"normal_{key}" for key in SSE)}),
    ("sandbox", "penstock", {"warm_ms", "pool_ms", "mib_per_vm", "first_call_ms", "load_1000_s"}),
    ("fold", "penstock", FOLD),
    ("cli", "penstock", {"help_ms"}),
    ("model", "penstock", {"stream_cpu_ms", "stream_share", "paced_share"}),
    ("flow", "penstock", {*FLOW, "resume_1000_s"}),
    ("tasks", "penstock", TASKS),
    ("nested", "penstock", {"nested_us", "all_us", "inv_per_s"}),
    ("loop", "penstock", {*LOOP, *(f"tool_turn_us_{n}" for n in (10, 100, 300, 1000))}),
]
"""Bench, target, and the keys that its line must have."""


@pytest.mark.slow("starts the programs that it measures")
@pytest.mark.parametrize(("name", "target", "keys"), KEYS)
def test_a_bench_prints_one_flat_line(
    name: str, target: str, keys: set[str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", name, "--target", target, "--quick", "--repeat", "1"],
        capture_output=True,
        text=True,
        env=harness.environment(BENCH_HOME=str(tmp_path)),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    line = json.loads(done.stdout)
    assert line.keys() >= keys
    assert not [key for key, value in line.items() if isinstance(value, dict | list)]


@pytest.mark.parametrize(
    ("text", "calls", "expected"),
    [
        ("done", 1, "1 of 2 calls"),
        ("other", 2, "text 'other'"),
    ],
)
def test_a_run_that_did_less_is_refused(text: str, calls: int, expected: str) -> None:
    run = script.start(1, 2)
    for _, arguments in run.next(1)[:calls]:
        run.add(**arguments)
    run.next(3)
    with pytest.raises(AssertionError, match=expected):
        run.check(text)


def test_a_model_that_is_shown_a_cut_history_is_refused() -> None:
    run = script.start(2, 1)
    while asked := run.next(1):
        run.add(**asked[0][1])
    with pytest.raises(AssertionError, match="model saw 1 messages after 2 tool turns"):
        run.check("done")


def test_the_smallest_figures_of_several_repeats_are_kept() -> None:
    figures = iter(
        [{"a": 2.0, "b": {"us": 1.0, "cal_ms": 9.0}}, {"a": 1.0, "b": {"us": 2.0, "cal_ms": 1.0}}]
    )
    kept = harness.repeated(Options(repeat=2), lambda left: next(figures), harness.smallest)
    assert kept == {"a": 1.0, "b": {"us": 1.0, "cal_ms": 9.0}, "repeats": 2}


def test_a_bench_stops_at_its_limit() -> None:
    kept = harness.repeated(Options(repeat=5, limit=0), lambda left: {"a": 1}, harness.smallest)
    assert kept == {"a": 1, "repeats": 1}


def rows_of(lines: list[Line]) -> dict[str, list[str]]:
    """Return the rows of the table by what they are about."""
    drawn = [row for row in report.table(lines).splitlines() if row.startswith("|")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in drawn]
    return {row[0]: row[1:] for row in cells}


def test_the_table_has_the_bar_the_best_peer_and_the_ratio() -> None:
    lines = [
        {"bench": "loop", "target": "penstock", "turn_us": 50.0, "runs_per_cpu_s": 3000},
        {"bench": "loop", "target": "agno", "turn_us": 150.0, "runs_per_cpu_s": 4000},
        {"bench": "loop", "target": "dbos", "turn_us": 100.0, "runs_per_cpu_s": 1000},
    ]
    rows = rows_of(lines)
    assert rows["turn without tools, CPU µs"] == [
        *("≤ 90", "90.0", "50.0", "met", "100 (dbos)", "2.00x"),
    ]
    assert rows["one-tool runs per CPU-second"] == [
        *("≥ 3,600", "3,600", "3,000", "MISSED", "4,000 (agno)", "0.75x, NOT 1x"),
    ]
    assert rows["penstock --help, ms"] == ["≤ 150", "150", "-", "not measured", "-", "-"]


def test_a_bar_follows_the_speed_of_the_machine_but_for_memory() -> None:
    slow = {"quiet_ms": 4.6}
    rows = rows_of(
        [
            {"bench": "loop", "target": "penstock", "turn_us": 170.0, "runs_per_cpu_s": 1900}
            | slow,
            {"bench": "idle", "target": "penstock", "streams": 1000, "rss_mib": 111.0},
        ]
    )
    assert rows["turn without tools, CPU µs"][1:4] == ["180", "170", "met"]
    assert rows["one-tool runs per CPU-second"][1:4] == ["1,800", "1,900", "met"]
    assert rows["server MiB with those streams"][1:4] == ["110", "111", "MISSED"]


@pytest.mark.parametrize(("warm", "expected"), [(2.0, "met"), (2.1, "MISSED")])
def test_a_long_conversation_is_compared_with_a_new_one(warm: float, expected: str) -> None:
    line = {"bench": "fold", "target": "penstock", "cold_10k_ms": 90.0, "new_first_event_ms": 2.0}
    rows = rows_of([line | {"warm_first_event_ms": warm}])
    name = "first event after 10,000 events, as soon as in a new conversation, ms"
    assert rows[name][:4] == ["≤ 2", "2.00", f"{warm:.2f}", expected]


def test_a_streamed_reply_is_compared_with_an_sdk() -> None:
    rows = rows_of([{"bench": "model", "target": "penstock", "stream_share": 0.31}])
    assert rows["streamed chat reply, CPU beside an SDK"][:4] == ["≤ 0.3", "0.30", "0.31", "MISSED"]


def test_a_baseline_of_the_machine_is_not_compared() -> None:
    lines = [
        {"bench": "durable", "target": "penstock", "call_full_ms": 0.5},
        {"bench": "durable", "target": "raw", "call_full_ms": 0.1},
    ]
    assert rows_of(lines)["durable call, ms, FULL"][-2:] == ["-", "-"]


def test_a_slow_moment_is_named() -> None:
    lines = [{"bench": "cli", "target": "penstock", "help_ms": 99.0, "calibration_ratio": 1.6}]
    assert "From slow moments, to be repeated: cli penstock (1.6)." in report.table(lines)


def test_the_last_of_two_lines_for_one_target_counts(tmp_path: Path) -> None:
    kept = tmp_path / "lines.jsonl"
    kept.write_text(
        "".join(json.dumps({"bench": "cli", "target": "x", "n": n}) + "\n" for n in (1, 2))
    )
    assert report.read([kept]) == [{"bench": "cli", "target": "x", "n": 2}]

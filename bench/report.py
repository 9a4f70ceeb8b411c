"""The bars, and where penstock and the best peer stand beside them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.harness import Line

BASELINES = {"bare", "raw"}
"""No engine, so nothing to be ahead of: what the machine itself costs."""
NOTHING = "-"
BUSY = 1.25
"""A calibration ratio above this marks a figure of a slow moment."""
CALIBRATION_MS = 2.3
"""Of the machine that the absolute bars were written on."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One figure: where it is found, what it must reach, and what it says."""

    bench: str
    key: str
    bar: float
    text: str
    higher: bool = False
    """More is better."""
    timed: bool = True
    """It grows with the machine's speed, so the bar does too."""
    ahead: float = 1.0
    """By how much every peer must be behind."""

    def here(self, speed: float) -> float:
        """Return the bar on a machine so many times slower than the one it was written on."""
        if not self.timed:
            return self.bar
        return self.bar / speed if self.higher else self.bar * speed

    def is_met(self, figure: float, speed: float) -> bool:
        """Tell whether the figure reaches the bar."""
        wanted = self.here(speed)
        return figure >= wanted if self.higher else figure <= wanted


BARS = (
    Bar("loop", "turn_us", 90, "turn without tools, CPU µs"),
    Bar("loop", "tool_turn_us_10", 100, "tool turn at 10, CPU µs"),
    Bar("loop", "tool_turn_us_100", 100, "tool turn at 100, CPU µs"),
    Bar("loop", "tool_turn_us_300", 105, "tool turn at 300, CPU µs"),
    Bar("loop", "tool_turn_us_1000", 110, "tool turn at 1,000, CPU µs"),
    Bar("loop", "parallel_tool_us", 45, "extra parallel tool call, CPU µs"),
    Bar("loop", "runs_per_cpu_s", 3600, "one-tool runs per CPU-second", higher=True),
    Bar("loop", "instantiate_us", 8, "making an agent, CPU µs"),
    Bar("sse", "runs_per_s_200", 420, "chat runs/s, 200 at once, FULL", higher=True, ahead=2),
    Bar(
        "sse",
        "normal_runs_per_s_200",
        420,
        "chat runs/s, 200 at once, NORMAL",
        higher=True,
        ahead=2,
    ),
    Bar("sse", "cpu_ms_per_run_200", 2.2, "server CPU ms per run, 200 at once, FULL"),
    Bar("sse", "first_event_p50_ms_200", 80, "first event p50 ms, 200 at once, FULL"),
    Bar("idle", "streams", 1000, "idle streams held open", higher=True, timed=False),
    Bar("idle", "rss_mib", 110, "server MiB with those streams", timed=False),
    Bar("durable", "call_full_ms", 0.8, "durable call, ms, FULL"),
    Bar("durable", "call_normal_ms", 0.3, "durable call, ms, NORMAL"),
    Bar("durable", "call_full_10_ms", 0.15, "durable call, ten at once, each, ms, FULL"),
    Bar("durable", "call_normal_10_ms", 0.1, "durable call, ten at once, each, ms, NORMAL"),
    Bar("fold", "cold_10k_ms", 100, "cold fold of 10,000 events, ms"),
    Bar("tasks", "cold_100k_ms", 25, "next message of a cold log of 100,000 events, ms"),
    Bar("tasks", "cold_1m_ms", 60, "next message of a cold log of 1,000,000 events, ms"),
    Bar("tasks", "start_10k_s", 0.5, "10,000 parked tasks, more to open a project, s"),
    Bar("tasks", "parked_idle_cpu_pct", 0.1, "10,000 parked tasks, more idle CPU, %"),
    Bar("tasks", "wake_ms", 20, "from an answer until its tool runs, ms"),
    Bar("tasks", "schedules_idle_pct", 0.5, "10,000 schedules, idle CPU, %"),
    Bar("tasks", "burst_1000_s", 5, "1,000 schedules due at once, all started, s"),
    Bar("tasks", "children32_s", 0.15, "a call with 32 children, from it to its outcome, s"),
    Bar("tasks", "replay_events_s", 2000, "compared events of a replay, each second", higher=True),
    Bar("nested", "nested_us", 150, "a script's call, one after another, µs"),
    Bar("nested", "all_us", 80, "a script's call, 1,000 at once, each, µs"),
    Bar("nested", "inv_per_s", 350, "script invocations/s, five calls each", higher=True),
    Bar("flow", "step_us_10", 400, "a step of a flow of 10, CPU µs"),
    Bar("flow", "step_us_1000", 400, "a step of a flow of 1,000, CPU µs"),
    Bar("flow", "plan_1000_ms", 50, "plan of 1,000 steps, ms"),
    Bar("flow", "check_200_ms", 50, "check of a flow of 200 steps, ms"),
    Bar("flow", "steps_per_s", 500, "steps/s, 100 flows of 10 at once", higher=True),
    Bar("flow", "resume_1000_s", 0.5, "end of a killed run of 1,000 steps, s"),
    Bar("cli", "help_ms", 150, "penstock --help, ms"),
    Bar("model", "stream_share", 0.3, "streamed chat reply, CPU beside an SDK", timed=False),
    Bar("model", "parse_share", 0.3, "the same above reading its bytes", timed=False),
    Bar("model", "responses_stream_share", 0.3, "streamed Responses reply", timed=False),
    Bar("model", "responses_parse_share", 0.3, "the same above reading its bytes", timed=False),
    Bar("model", "anthropic_stream_share", 0.3, "streamed Anthropic reply", timed=False),
    Bar("model", "anthropic_parse_share", 0.3, "the same above reading its bytes", timed=False),
)
STANDS_BESIDE = {
    "call_normal_ms": "call_full_ms",
    "call_normal_10_ms": "call_full_10_ms",
    "normal_runs_per_s_200": "runs_per_s_200",
}
"""Ours of one setting -> the figure of peers, who have but their own."""


def read(paths: Iterable[Path]) -> list[Line]:
    """Read lines from files; of several for one bench and target, the last one counts."""
    texts = [text for path in paths for text in path.read_text().splitlines() if text.strip()]
    lines = [json.loads(text) for text in texts]
    return list({(line["bench"], line["target"]): line for line in lines}.values())


def table(lines: list[Line]) -> str:
    """Draw a row per bar: the bar, ours, the best peer, and how far we are ahead of it."""
    readings = [line["quiet_ms"] for line in lines if "quiet_ms" in line]
    speed = min(readings, default=CALIBRATION_MS) / CALIBRATION_MS
    rows = [_row(bar, lines, speed) for bar in (*BARS, *_beside_new(lines))]
    rows += _model_rows(lines)
    heads = ["figure", "bar", "bar here", "penstock", "the bar is", "best peer", "ahead by"]
    said = f"Calibration {min(readings, default=0):.2f} ms; bars hold at {CALIBRATION_MS} ms."
    parts = [_markdown(heads, rows), said]
    if slow := [_slow(line) for line in lines if line.get("calibration_ratio", 1) > BUSY]:
        parts.append(f"From slow moments, to be repeated: {', '.join(slow)}.")
    return "\n".join(parts)


def _beside_new(lines: list[Line]) -> list[Bar]:
    """Return that a long conversation answers as soon as a new one, of the same line."""
    text = "first event after 10,000 events, as soon as in a new conversation, ms"
    return [
        Bar("fold", "warm_first_event_ms", new, text, timed=False)
        for line in _of("fold", lines, ours=True)
        if (new := _figure(line, "new_first_event_ms")) is not None
    ]


def _row(bar: Bar, lines: list[Line], speed: float) -> list[str]:
    ours = next((_figure(line, bar.key) for line in _of(bar.bench, lines, ours=True)), None)
    best = _best_peer(bar, lines)
    sign = "≥" if bar.higher else "≤"
    met = ours is not None and bar.is_met(ours, speed)
    ratio = _ratio(bar, ours, best)
    return [
        bar.text,
        f"{sign} {bar.bar:,g}",
        _show(bar.here(speed)),
        _show(ours),
        "met" if met else "not measured" if ours is None else "MISSED",
        f"{_show(best[0])} ({best[1]})" if best else NOTHING,
        _ahead(ratio, bar.ahead),
    ]


def _ahead(ratio: float | None, wanted: float) -> str:
    if ratio is None:
        return NOTHING
    return f"{ratio:.2f}x" if ratio >= wanted else f"{ratio:.2f}x, NOT {wanted:g}x"


def _best_peer(bar: Bar, lines: list[Line]) -> tuple[float, str] | None:
    key = STANDS_BESIDE.get(bar.key, bar.key)
    peers = _of(bar.bench, lines, ours=False)
    found = [(figure, line["target"]) for line in peers if (figure := _figure(line, key))]
    return (max if bar.higher else min)(found, default=None)


def _ratio(bar: Bar, ours: float | None, best: tuple[float, str] | None) -> float | None:
    if not ours or not best:
        return None
    return ours / best[0] if bar.higher else best[0] / ours


def _model_rows(lines: list[Line]) -> list[list[str]]:
    """Ours and the others come in one line there: `stream_cpu_ms`, and the same key with a name."""
    rows = []
    for line in _of("model", lines, ours=True):
        ours = _figure(line, "stream_cpu_ms")
        others = [(value, key) for key, value in line.items() if _is_other_stream(key, value)]
        best = min(others, default=None)
        ratio = best[0] / ours if ours and best else None
        shown = f"{_show(best[0])} ({best[1]})" if best else NOTHING
        measured = [_show(ours), NOTHING, shown, _ahead(ratio, 1)]
        rows.append(["streamed reply, client CPU ms", NOTHING, NOTHING, *measured])
    return rows


def _is_other_stream(key: str, value: Any) -> bool:
    named = key.startswith("stream_cpu_ms_") and key != "stream_cpu_ms_read"
    return named and isinstance(value, int | float)


def _of(bench: str, lines: list[Line], *, ours: bool) -> list[Line]:
    return [
        line
        for line in lines
        if line["bench"] == bench
        and line["target"] not in BASELINES
        and (line["target"] == "penstock") == ours
    ]


def _figure(line: Line, key: str) -> float | None:
    found: float | None = line.get(key)
    return found


def _slow(line: Line) -> str:
    return f"{line['bench']} {line['target']} ({line['calibration_ratio']})"


def _show(value: float | None) -> str:
    if value is None:
        return NOTHING
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _markdown(heads: list[str], rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    drawn = [heads, ["-" * width for width in widths], *rows]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in drawn
    ]
    return "\n".join(lines) + "\n"

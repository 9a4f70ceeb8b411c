"""What durable tasks cost: long cold logs, parked tasks, schedules, children, and replays."""

from bench import harness
from bench.harness import Line, Options


def measure(options: Options) -> Line:
    """Continue long logs, open projects with parked tasks and schedules, split work, and replay."""
    raw = harness.repeated(options, lambda left: _once(options.target, left), harness.smallest)
    return harness.line("tasks", options.target, raw)


def _once(target: str, seconds: float) -> Line:
    folder, figures = str(harness.scratch()), Line()
    for bench in ("cold", "parked", "children", "replay"):
        adapter = harness.adapter(bench, target)
        figures |= harness.child(target, f"{bench}_child", adapter, folder, timeout=seconds)
    return figures

"""What durable tasks cost: long logs that are not in memory, parked tasks, and schedules."""

from bench import harness
from bench.harness import Line, Options


def measure(options: Options) -> Line:
    """Continue long logs; then open a project with parked tasks and schedules."""
    raw = harness.repeated(options, lambda left: _once(options.target, left), harness.smallest)
    return harness.line("tasks", options.target, raw)


def _once(target: str, seconds: float) -> Line:
    folder, figures = str(harness.scratch()), Line()
    for bench in ("cold", "parked"):
        adapter = harness.adapter(bench, target)
        figures |= harness.child(target, f"{bench}_child", adapter, folder, timeout=seconds)
    return figures

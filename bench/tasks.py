"""What durable tasks cost: for now, the next message of a long log that is not in memory."""

from bench import harness
from bench.harness import Line, Options


def measure(options: Options) -> Line:
    """Write logs of 100,000 and 1,000,000 events, then open and continue them."""
    adapter = harness.adapter("cold", options.target)
    folder = str(harness.scratch())
    raw = harness.repeated(
        options,
        lambda left: harness.child(options.target, "cold_child", adapter, folder, timeout=left),
        harness.smallest,
    )
    return harness.line("tasks", options.target, raw)

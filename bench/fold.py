"""The cost of a long conversation: a cold read, and an answer in it compared with a new one."""

from bench import harness
from bench.harness import Line, Options


def measure(options: Options) -> Line:
    """Write one long log, then fold it and time first events beside it, in fresh processes."""
    adapter = harness.adapter("fold", options.target)
    folder = str(harness.scratch())
    raw = harness.repeated(
        options,
        lambda left: harness.child(options.target, "fold_child", adapter, folder, timeout=left),
        harness.smallest,
    )
    return harness.line("fold", options.target, raw)

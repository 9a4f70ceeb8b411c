"""The cost of a flow without its models: a step, a plan, a check, a start after a kill."""

from bench import harness
from bench.harness import Line, Options


def measure(options: Options) -> Line:
    """Run flows of many lengths, in fresh processes, in memory and on disk."""
    adapter = harness.adapter("flow", options.target)
    folder = str(harness.scratch())

    def run(left: float) -> Line:
        return harness.child(options.target, "flow_child", adapter, folder, timeout=left)

    merged = harness.repeated(options, run, harness.smallest)
    rate = 1 / merged.pop("at_once_s")
    return harness.line("flow", options.target, merged | {"steps_per_s": rate})

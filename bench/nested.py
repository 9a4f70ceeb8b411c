"""The cost of a call by a script: in sequence, all at once, and whole invocations."""

from bench import harness
from bench.harness import Line, Options


def measure(options: Options) -> Line:
    """Run scripts that call a tool, in fresh processes, the log on disk."""
    adapter = harness.adapter("nested", options.target)
    folder = str(harness.scratch() / "machine-code")

    def run(left: float) -> Line:
        return harness.child(options.target, "nested_child", adapter, folder, timeout=left)

    merged = harness.repeated(options, run, harness.smallest)
    rate = 1e3 / merged.pop("invocation_ms")
    return harness.line("nested", options.target, merged | {"inv_per_s": rate})

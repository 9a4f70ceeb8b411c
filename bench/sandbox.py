"""What a script costs: warm, through a thread, at rest, and the first one of a process."""

from bench import harness
from bench.harness import Line, Options


def measure(options: Options) -> Line:
    """Run scripts in fresh processes; the native code of the engine is kept between them."""
    adapter = harness.adapter("sandbox", options.target)
    folder = str(harness.scratch() / "machine-code")
    raw = harness.repeated(
        options,
        lambda left: harness.child(options.target, "sandbox_child", adapter, folder, timeout=left),
        harness.smallest,
    )
    return harness.line("sandbox", options.target, raw)

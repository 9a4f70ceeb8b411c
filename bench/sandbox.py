"""The cost of a script: warm, in a thread, idle, the first one of a process, and to load."""

from bench import harness
from bench.harness import Line, Options


def measure(options: Options) -> Line:
    """Run scripts in fresh processes; the native code of the engine is kept between them."""
    adapter = harness.adapter("sandbox", options.target)
    bundle = harness.adapter("bundle", options.target)
    folder = str(harness.scratch() / "machine-code")

    def run(left: float) -> Line:
        figures = harness.child(options.target, "sandbox_child", adapter, folder, timeout=left)
        more = harness.child(options.target, "bundle_child", bundle, folder, timeout=left)
        return more | figures

    return harness.line("sandbox", options.target, harness.repeated(options, run, harness.smallest))

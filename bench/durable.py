"""The cost of one durable call on SQLite: started and settled, each committed at once."""

from bench import harness
from bench.harness import Line, Options

PEERS = ("raw", "dbos", "langgraph")
COUNTS_AS_CALL = {
    "dbos": ("step",),
    "langgraph": ("tool_turn_async", "tool_turn_sync"),
}
"""The better figure of a peer is shown next to a call; all peers wait for the disk, like FULL."""


def measure(options: Options) -> Line:
    """Measure every mode of one target in fresh processes, and keep the best of each figure."""
    adapter = harness.adapter("durable", options.target)
    folder = str(harness.scratch())
    raw = harness.repeated(
        options,
        lambda left: harness.child(options.target, "durable_child", adapter, folder, timeout=left),
        harness.smallest,
    )
    return harness.line("durable", options.target, _figures(options.target, raw))


def _figures(target: str, raw: Line) -> Line:
    modes = raw.pop("modes")
    calls = [modes[name] for name in COUNTS_AS_CALL.get(target, ("full",))]
    best = min(calls, key=lambda mode: mode["step_ms"])
    normal = modes.get("normal", {})
    others = {f"{name}_ms": mode["step_ms"] for name, mode in modes.items()}
    known = {"full_ms", "normal_ms"}
    return {
        "call_full_ms": best["step_ms"],
        "call_normal_ms": normal.get("step_ms"),
        "call_full_10_ms": min(mode["step_10_ms"] for mode in calls),
        "call_normal_10_ms": normal.get("step_10_ms"),
        "call_full_cpu_ms": best["step_cpu_ms"],
        "call_full_p50_ms": best["step_p50_ms"],
        "bytes_per_call": best["bytes_per_step"],
        "bytes_per_call_300": best["bytes_per_step_300"],
        **{name: took for name, took in others.items() if name not in known},
        "cal_ms": max(mode["cal_ms"] for mode in modes.values()),
        **raw,
    }

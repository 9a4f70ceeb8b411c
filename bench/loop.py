"""The cost of the agent loop with a model without latency: CPU time, so waiting is free."""

from bench import harness
from bench.harness import Line, Options

LENGTHS = (10, 100, 300)
"""Run lengths in tool turns; ours go on to 1,000, where a loop that is not flat takes minutes."""
LONG = 1000
PEERS = ("agent-framework", "agno", "pydantic-ai", "langchain", "openai-agents")


def measure(options: Options) -> Line:
    """Measure the loop of one target in fresh processes, and keep the best of each figure."""
    lengths = (*LENGTHS, LONG) if options.target == "penstock" else LENGTHS
    adapter = harness.adapter("loop", options.target)
    turns = ",".join(map(str, lengths))
    raw = harness.repeated(
        options,
        lambda left: harness.child(options.target, "loop_child", adapter, turns, timeout=left),
        harness.smallest,
    )
    return harness.line("loop", options.target, _figures(raw, lengths))


def _figures(raw: Line, lengths: tuple[int, ...]) -> Line:
    windows = raw.pop("windows")
    took = {name: window["us"] for name, window in windows.items()}
    none = took["0x1"]
    flat = {f"tool_turn_us_{n}": (took[f"{n}x1"] - none) / n for n in lengths}
    shorter, longest = lengths[-2:]
    stretch = took[f"{longest}x1"] - took[f"{shorter}x1"]
    return {
        "turn_us": none,
        **flat,
        "marginal_us": stretch / (longest - shorter),
        "parallel_tool_us": (took["1x10"] - took["1x1"]) / 9,
        "runs_per_cpu_s": 1e6 / took["concurrent"],
        "instantiate_us": took["instantiate"],
        "cal_ms": max(window["cal_ms"] for window in windows.values()),
        **raw.pop("meta"),
        **raw,
    }

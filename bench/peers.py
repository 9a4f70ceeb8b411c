"""penstock and its peers in turn, one at a time, in the same hour."""

import subprocess
import sys

from bench import durable, harness, idle, loop, report, sse
from bench.harness import Line, Options

RESULTS = harness.HOME / "peers.jsonl"
IN_TURN = (
    ("loop", loop.PEERS),
    ("durable", durable.PEERS),
    ("sse", sse.PEERS),
    ("idle", idle.PEERS),
    ("fold", ()),
    ("nested", ()),
    ("flow", ()),
    ("cli", ()),
    ("model", ()),
)
"""Bench -> the peers that stand beside penstock in it."""


def measure(options: Options) -> list[Line]:
    """Measure every bench of penstock and of each peer that is set up, and keep the lines."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text("")
    for bench, peers in IN_TURN:
        for target in ("penstock", *filter(_is_set_up, peers)):
            line = _run(bench, target, options)
            with RESULTS.open("a") as kept:
                kept.write(line)
    return report.read([RESULTS])


def missing() -> list[str]:
    """Name the peers that have no environment, and therefore no row."""
    known = {peer for _, peers in IN_TURN for peer in peers}
    return sorted(peer for peer in known if not _is_set_up(peer))


def is_complete(lines: list[Line]) -> bool:
    """Tell whether penstock has its line in every bench."""
    ours = {line["bench"] for line in lines if line["target"] == "penstock"}
    return ours >= {bench for bench, _ in IN_TURN}


def _is_set_up(target: str) -> bool:
    environment = harness.SHARED.get(target, target)
    return target in harness.OURS or (harness.HOME / environment / "bin" / "python").exists()


def _run(bench: str, target: str, options: Options) -> str:
    """Measure in a process of its own, so that no figure is taken beside another's leftovers."""
    harness.progress(f"{bench} {target}")
    command = [sys.executable, "-m", "bench", bench, "--target", target]
    limits = ["--repeat", str(options.repeat), "--limit", str(options.limit)]
    done = subprocess.run([*command, *limits], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        harness.progress(f"{bench} {target}: no line (exit {done.returncode})")
    return done.stdout

"""Measure one thing and print one flat JSON line; progress goes to standard error."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from bench import (
    cli,
    durable,
    flow,
    fold,
    idle,
    library,
    loop,
    nested,
    peers,
    report,
    sandbox,
    sse,
    tasks,
)
from bench.harness import Line, Options

BENCHES = {
    "loop": "CPU cost of the agent loop beside a model without latency",
    "durable": "one durable call on SQLite, FULL and NORMAL",
    "sse": "full chat runs over SSE at 1, 50 and 200 at once",
    "idle": "memory with 1,000 idle streams open",
    "fold": "a conversation of 10,000 events: cold, warm, and beside a new one",
    "sandbox": "one script: warm, through a thread, at rest, the first of a process",
    "nested": "calls that a script makes: in turn, at once, and whole invocations",
    "flow": "flows of agents: a step, many at once, a plan, a check, the end of a killed run",
    "tasks": "long cold logs, 10,000 parked tasks, 10,000 schedules, 32 children, replays",
    "cli": "penstock --help",
    "library": "a Python program: imports, typed output, a stream, a map",
    "model": "client CPU of one streamed reply, beside other clients",
}
MORE = {
    "all": "every bench above, a line each",
    "peers": "penstock and every peer that is set up, in turn; a table of bars and ratios",
    "report": "the same table from files of lines",
}
MEASURES = {
    "loop": loop.measure,
    "durable": durable.measure,
    "sse": sse.measure,
    "idle": idle.measure,
    "fold": fold.measure,
    "sandbox": sandbox.measure,
    "nested": nested.measure,
    "flow": flow.measure,
    "tasks": tasks.measure,
    "cli": cli.measure,
    "library": library.measure,
}


def main() -> int:
    """Measure what was asked for; 1 means that a figure could not be had."""
    args = _parser().parse_args()
    if args.quick:
        os.environ["BENCH_QUICK"] = "1"
    options = Options(target=args.target, repeat=args.repeat, limit=args.limit)
    match args.name:
        case "all":
            return max([_in_turn(name, options) for name in BENCHES])
        case "peers":
            return _peers(options)
        case "report":
            print(report.table(report.read(args.files)))
        case "model":
            _say(_model(options))
        case name:
            _say(MEASURES[name](options))
    return 0


def _parser() -> argparse.ArgumentParser:
    said = BENCHES | MORE
    rows = "\n".join(f"  {name:9}{sentence}" for name, sentence in said.items())
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=f"{__doc__}\n\n{rows}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=said, metavar="NAME", help="one of the above")
    parser.add_argument("files", nargs="*", type=Path, help="of `report`: files of lines")
    parser.add_argument("--target", default="penstock", help="a peer, instead of penstock")
    parser.add_argument("--repeat", type=int, default=3, help="fresh processes, the best counts")
    parser.add_argument("--limit", type=float, default=280, help="seconds per line")
    parser.add_argument(
        "--quick", action="store_true", help="show that it runs; the figures mean nothing"
    )
    return parser


def _in_turn(name: str, options: Options) -> int:
    """Measure in a process of its own, so that no figure is taken beside another's leftovers."""
    limits = ["--repeat", str(options.repeat), "--limit", str(options.limit)]
    done = subprocess.run([sys.executable, "-m", "bench", name, *limits], check=False)
    return int(done.returncode != 0)


def _peers(options: Options) -> int:
    lines = peers.measure(options)
    print(report.table(lines))
    print(f"The lines are in {peers.RESULTS}.")
    if absent := peers.missing():
        print(f"Without a row: {', '.join(absent)} (bench/setup.sh installs them).")
    return 0 if peers.is_complete(lines) else 1


def _model(options: Options) -> Line:
    """Run the model bench, which is a program of its own, and take its line."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.model"],
        stdout=subprocess.PIPE,
        text=True,
        timeout=options.limit,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"the model bench ended with {done.returncode}")
    found: Line = json.loads(done.stdout.splitlines()[-1])
    return {"bench": "model", "target": "penstock"} | found


def _say(line: Line) -> None:
    print(json.dumps(line, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    sys.exit(main())

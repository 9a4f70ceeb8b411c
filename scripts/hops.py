"""Count how often one call or one chat turn moves from file to file inside penstock.

A profiler is set before the project is opened, so it also sees threads that start then, such as the
writer of the store. Each scenario runs once to warm caches, then once more while every function of
the package that is entered is recorded. A resumed coroutine counts as entered again. The ceilings
are in `[tool.shape.hops]` of pyproject.toml; `tests/test_hops.py` holds them.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import threading
import tomllib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import groupby, pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import penstock
from penstock.core.clock import SystemClock
from penstock.models.scripted import ScriptedModel, call, say

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "penstock"
COMPREHENSIONS = {"<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>", "<lambda>"}
"""Code objects that are written inside the function that enters them."""
SUCCESSES = {penstock.Status.SUCCESS, penstock.TaskStatus.SUCCEEDED}
SETTLE_SECONDS = 0.3
"""How long background work of the warm-up, such as releasing its lease, may take to finish."""
RUNS = 5
"""Runs of a scenario, of which the shortest counts: on a busy machine the other thread may end its
work later, and what waits for it is entered once more."""


@dataclass(frozen=True, kw_only=True)
class Hops:
    """One scenario; `path` has the files in the order of their first entry."""

    entries: int
    files: int
    hops: int
    path: tuple[str, ...]
    pairs: tuple[tuple[str, int], ...]


class Recorder:
    """Records which functions of the package are entered, in order, in each thread.

    Moves between files are counted in each thread alone: which of two threads runs first is chance.
    """

    def __init__(self) -> None:
        self._entered: dict[int, list[str]] = {}
        self._places: dict[str, str | None] = {}
        self._is_recording = False

    @contextmanager
    def attach(self) -> Iterator[None]:
        """See this thread, and threads that start in the block, for as long as they live."""
        threading.setprofile(self._enter)
        sys.setprofile(self._enter)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @contextmanager
    def record(self) -> Iterator[None]:
        """Record from an empty list until the block ends."""
        self._entered.clear()
        self._is_recording = True
        try:
            yield
        finally:
            self._is_recording = False

    def hops(self) -> Hops:
        """Summarize what was recorded."""
        entered = [*self._entered.values()]
        visits = [[file for file, _ in groupby(files)] for files in entered]
        pairs = Counter(f"{a} > {b}" for files in visits for a, b in pairwise(files))
        path = tuple(dict.fromkeys(file for files in visits for file in files))
        return Hops(
            entries=sum(map(len, entered)),
            files=len(path),
            hops=sum(map(len, visits)),
            path=path,
            pairs=tuple(pairs.most_common(12)),
        )

    def _enter(self, frame: FrameType, event: str, _: Any) -> None:
        if not self._is_recording or event != "call" or frame.f_code.co_name in COMPREHENSIONS:
            return
        name = frame.f_code.co_filename
        if name not in self._places:
            path = Path(name)
            inside = PACKAGE in path.parents
            self._places[name] = path.relative_to(PACKAGE).as_posix() if inside else None
        if (file := self._places[name]) is not None:
            self._entered.setdefault(threading.get_ident(), []).append(file)


@penstock.tool(direct_call=True)
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def measure() -> Mapping[str, Hops]:
    """Run the scenarios in a new project, and return their hops by name."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder)))


async def _measure(folder: Path) -> Mapping[str, Hops]:
    (folder / "penstock.toml").touch()
    replies = [call("add", a=1, b=2), say("Three.")]
    clerk = penstock.Agent(
        "clerk", instructions="You add.", tools=[add], model=ScriptedModel(replies * (RUNS + 1))
    )
    recorder = Recorder()
    with recorder.attach():
        async with penstock.open(folder, tools=[add], agents=[clerk]) as runtime:
            return {
                "call": await _recorded(recorder, lambda: runtime.call("add", {"a": 1, "b": 2})),
                "chat": await _recorded(
                    recorder, lambda: runtime.chat("Add 1 and 2.", agent="clerk")
                ),
            }


async def _recorded(recorder: Recorder, run: Callable[[], Awaitable[Any]]) -> Hops:
    await run()
    found: list[Hops] = []
    for _ in range(RUNS):
        await SystemClock().sleep(SETTLE_SECONDS)
        with recorder.record():
            outcome = await run()
        if outcome.status not in SUCCESSES:
            raise SystemExit(f"the scenario did not succeed: {outcome}")
        found.append(recorder.hops())
    return min(found, key=lambda each: (each.hops, each.files))


def ceilings() -> Mapping[str, Mapping[str, int]]:
    """Return the ceilings: scenario -> `files` and `hops`."""
    shape = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["shape"]
    return dict(shape["hops"])


def main() -> None:
    """Print each scenario beside its ceilings."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--path", action="store_true", help="print the files and the busiest pairs")
    options = parser.parse_args()
    measured = measure()
    if options.json:
        print(json.dumps({name: asdict(found) for name, found in measured.items()}, indent=2))
        return
    for name, found in measured.items():
        ceiling = ceilings()[name]
        print(
            f"{name:<5} {found.files:>4} files (at most {ceiling['files']})"
            f" {found.hops:>5} hops (at most {ceiling['hops']})"
            f" {found.entries:>5} functions entered"
        )
        if options.path:
            print("  files:", " > ".join(found.path))
            print("  pairs:", ", ".join(f"{pair} ({times})" for pair, times in found.pairs))


if __name__ == "__main__":
    main()

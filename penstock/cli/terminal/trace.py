"""The hops of a call, as they happen: which function of which file, in order."""

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = Path(__file__).parents[2]
HOPS: Mapping[str, str] = {
    "app/runtime.call": "a door hands the call in",
    "chat/inbox.call": "a direct call is a task of its own",
    "store/logs/sql_log.send": "what was asked for is on disk before anything happens",
    "engine/inline.wake": "the log needs a run",
    "engine/activation.run": "takes the lease: nobody else works on this log",
    "engine/state.fold": "the log says what there is to do",
    "chat/direct/calls.work": "this task's work is one call",
    "tools/invoker.call": "the one door of every tool",
    "engine/ledger.find": "replay: settled before? then that, and nothing else",
    "tools/registry.find": "resolve: the tool by its id",
    "tools/access/policy.refused": "permit: may this caller reach it?",
    "core/json_values/schema.problems": "validate: every problem of the input, by path",
    "tools/access/rules.decide": "ask: allow, ask a person, or deny",
    "engine/ledger.start": "a write is noted before it begins",
    "engine/budget.reserve_call": "reserve: the budget of the whole task",
    "tools/python/function.run": "run: the work itself",
    "tools/results/artifacts.show": "settle: clipped and previewed, kept whole",
    "engine/ledger.settle": "settle: the outcome, once and for all",
    "store/logs/sql_log.append": "the outcome is on its way to disk",
    "engine/held_log.commit": "the outcome is on disk",
    "store/logs/sql_log.release": "gives the lease back",
    "app/runtime.outcome_of": "the envelope, for who asked",
}
"""What is watched: file and function, and what happens there."""


class Trace:
    """Watches the hops of this process for a while."""

    def __init__(self) -> None:
        self.hops: list[str] = []
        """What was entered, each hop when it came first."""

    @contextmanager
    def watch(self, *, is_wanted: bool = True) -> Iterator[None]:
        """Note every hop until the block ends; nothing unless it is wanted."""
        if not is_wanted:
            yield
            return
        sys.setprofile(self._enter)
        threading.setprofile(self._enter)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def text(self) -> str:
        """Return the hops as lines."""
        width = max((len(hop) for hop in self.hops), default=0)
        return "\n".join(
            f"{number:>3}  {hop:<{width}}  {HOPS[hop]}" for number, hop in enumerate(self.hops, 1)
        )

    def _enter(self, frame: FrameType, event: str, arg: Any) -> None:
        if event != "call" or frame.f_code.co_filename.startswith("<"):
            return
        path = Path(frame.f_code.co_filename)
        if PACKAGE not in path.parents:
            return
        place = path.relative_to(PACKAGE).with_suffix("").as_posix()
        name = f"{place}.{frame.f_code.co_name}"
        if name in HOPS and name not in self.hops:
            self.hops.append(name)

"""Records the hops of a call: which functions of penstock it enters, in order.

Uses the interpreter's profile hook, so the traced code contains nothing for it. A process that
does not trace pays nothing. Only the functions in `HOPS` are recorded, each at its first entry.
"""

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = Path(__file__).parents[2]
HOPS: Mapping[str, str] = {
    "app/runtime.call": "the runtime receives the call",
    "chat/inbox.call": "a direct call becomes a task",
    "store/logs/sql_log.send": "the request is on disk before anything happens",
    "engine/inline.wake": "the log needs a run",
    "engine/activation.run": "takes the lease: no other process works on this log",
    "engine/state.fold": "the state is folded from the log",
    "chat/direct_calls.work": "the work of this task is one call",
    "tools/invoker.call": "every call of every tool goes through here",
    "engine/ledger.find": "replay: if the call is settled, return that outcome",
    "tools/tool.find": "resolve: the tool by its id",
    "tools/policy.refused": "permit: may this caller use the tool?",
    "core/json_values/schema.problems": "validate: every problem of the input, by path",
    "tools/policy.decide": "ask: allow, ask a person, or deny",
    "engine/ledger.start": "a write is recorded before it starts",
    "engine/budget.reserve_call": "reserve: the budget of the whole task",
    "tools/python/function.run": "run: the function of the tool",
    "tools/artifacts.show": "settle: clip and preview the output, store all of it",
    "engine/ledger.settle": "settle: record the outcome, once",
    "store/logs/sql_log.append": "the outcome is on its way to disk",
    "engine/held_log.commit": "the outcome is on disk",
    "store/logs/sql_log.release": "releases the lease",
    "app/runtime.outcome_of": "the caller receives the envelope",
}
"""The recorded functions, with a description of each hop."""


class Trace:
    """Records hops of this process while `watch` is active."""

    def __init__(self) -> None:
        self.hops: list[str] = []
        """The entered functions, in the order of their first entry."""

    @contextmanager
    def watch(self, *, is_wanted: bool = True) -> Iterator[None]:
        """Record hops until the block ends; do nothing if they are not wanted."""
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

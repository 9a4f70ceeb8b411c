"""The hops of a call, as they happen: which function of which file, in order."""

import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = Path(__file__).parents[1]
HOPS: Mapping[str, str] = {
    "app/runtime.call": "a door hands the call in",
}
"""What is watched, in the order of a plain call: file and function, and what happens there."""


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

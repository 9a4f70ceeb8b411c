"""Runs a blob that parses sources, and reuses one instance of it.

Guarantees that a source is parsed or reported within its time and memory, whatever it contains, and
that the next source is not affected. The memory of an instance never shrinks, and it may keep parts
of earlier sources: so an instance that has grown beyond `kept_bytes` is replaced, and so is one
that timed out or trapped. A source never runs; a hostile one can only use up its time and memory.
Proof: tests/sandbox/compiler/test_blob_reader.py.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

from penstock.core.clock import Clock
from penstock.sandbox.wasm.binding import Engine, Import, Instance

MEMORY_BYTES = 512 << 20
EXHAUSTED = "it is nested too deeply, or needs too much memory to be read"
"""The problem of a source that exhausts its reader."""
Result = TypeVar("Result")
_Result_co = TypeVar("_Result_co", covariant=True)


class Blob(Struct, frozen=True, kw_only=True):
    """A wasm module that parses sources, and how it is used."""

    name: str
    imports: Sequence[Import] = ()
    kept_bytes: int
    """An instance with more memory is not reused."""
    exhausted: str
    """The problem of a source that exhausts it."""


class ReaderInstance(Protocol[_Result_co]):
    """One instance of such a blob.

    Contract: `read` raises what `Instance.call` raises, and is not called again after that.
    """

    @property
    def instance(self) -> Instance:
        """Its memory and its functions."""
        ...

    def read(self, source: str) -> _Result_co:
        """Parse a source."""
        ...


class Reader(Generic[Result]):
    """A blob and its current instance. One thread may use it at a time."""

    def __init__(
        self,
        blob: Blob,
        clock: Clock,
        cache: Path | None,
        *,
        begin: Callable[[Engine], ReaderInstance[Result]],
        failed: Callable[..., Result],
    ) -> None:
        """Start the engine. `begin` creates an instance, `failed` the result of a failed read."""
        self._blob = blob
        self._clock = clock
        self._engine = Engine(blob.name, blob.imports, clock, cache)
        self._begin = begin
        self._failed = failed
        self._guest: ReaderInstance[Result] | None = None

    @property
    def size(self) -> int:
        """Bytes of memory of the instance."""
        return self._guest.instance.size if self._guest is not None else 0

    def read(self, source: str, seconds: float) -> Result:
        """Parse one source within so many seconds; return the problem if that fails."""
        if self.size > self._blob.kept_bytes:
            self._drop()
        if self._guest is None:
            self._guest = self._begin(self._engine)
        try:
            return self._timed(self._guest, source, self._clock.monotonic() + seconds)
        except TimeoutError:
            self._drop()
            problem = f"reading it took longer than {seconds:g} s"
            return self._failed(problem=problem, is_late=True)
        # A trap: the stack or the memory of the blob is used up.
        except RuntimeError:
            self._drop()
            return self._failed(problem=self._blob.exhausted)

    def close(self) -> None:
        """Free the memory and end the thread of the deadline."""
        self._drop()
        self._engine.close()

    def _timed(self, guest: ReaderInstance[Result], source: str, deadline: float) -> Result:
        guest.instance.alarm = lambda: "late" if self._clock.monotonic() > deadline else None
        self._engine.ticker.begin(self)
        try:
            return guest.read(source)
        finally:
            self._engine.ticker.end(self)

    def _drop(self) -> None:
        guest, self._guest = self._guest, None
        if guest is not None:
            guest.instance.close()

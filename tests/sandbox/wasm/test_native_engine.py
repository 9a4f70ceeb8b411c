"""Machine code is cached, and the epoch advances while a guest computes."""

import os
import threading
from pathlib import Path

import pytest
from wasmtime import Engine

from penstock.core.clock import SystemClock
from penstock.sandbox.wasm.native_engine import TICK, Ticker, compiled


class Epochs:
    """Counts epochs, and sets an event when there are enough."""

    def __init__(self, enough: int) -> None:
        self._enough = enough
        self.count = 0
        self.reached = threading.Event()

    def advance(self) -> None:
        self.count += 1
        if self.count >= self._enough:
            self.reached.set()


def test_the_epoch_advances_while_a_guest_computes() -> None:
    epochs = Epochs(10)
    ticker = Ticker(epochs.advance, SystemClock())
    ticker.begin("guest")
    assert epochs.reached.wait(5)
    ticker.end("guest")
    ticker.close()


def test_the_epoch_catches_up_with_the_clock() -> None:
    clock, epochs = SystemClock(), Epochs(40)
    ticker = Ticker(epochs.advance, clock)
    started = clock.monotonic()
    ticker.begin("guest")
    assert epochs.reached.wait(5)
    ticker.close()
    assert clock.monotonic() - started >= 40 * TICK - TICK


def test_without_a_guest_the_epoch_does_not_advance() -> None:
    epochs = Epochs(1)
    ticker = Ticker(epochs.advance, SystemClock())
    assert not epochs.reached.wait(5 * TICK)
    ticker.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_advances_its_own_epoch() -> None:
    epochs = Epochs(5)
    ticker = Ticker(epochs.advance, SystemClock())
    child = os.fork()
    if child == 0:
        ticker.begin("guest")
        os._exit(0 if epochs.reached.wait(5) else 1)
    _, status = os.waitpid(child, 0)
    ticker.close()
    assert os.waitstatus_to_exitcode(status) == 0


def names(cache: Path | None) -> set[str]:
    module = compiled(Engine(), "lexer.wasm", cache)
    return {export.name for export in module.exports}


@pytest.mark.parametrize("content", [b"", b"\x7fELF and then nothing", b"x" * 5000])
def test_damaged_machine_code_is_compiled_again(tmp_path: Path, content: bytes) -> None:
    names(tmp_path / "cache")
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_bytes(content)
    assert "parse" in names(tmp_path / "cache")
    assert len(kept.read_bytes()) > 5000


def test_cached_machine_code_is_loaded(tmp_path: Path) -> None:
    names(tmp_path / "cache")
    (kept,) = (tmp_path / "cache").iterdir()
    before = kept.stat().st_mtime_ns
    assert "parse" in names(tmp_path / "cache")
    assert kept.stat().st_mtime_ns == before


def test_without_a_cache_nothing_is_written() -> None:
    assert "parse" in names(None)


def test_a_read_only_cache_only_costs_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    assert "parse" in names(tmp_path / "file" / "cache")
    assert "lexer.wasm is compiled at every start; the cache cannot be used" in caplog.text

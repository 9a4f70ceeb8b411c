"""An instance of a blob is reused until a source exhausts or stops it."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.core.clock import SystemClock
from penstock.sandbox.compiler.blob_reader import MEMORY_BYTES, Reader
from penstock.sandbox.compiler.javascript import LEXER, EsLexer, Grammar
from penstock.sandbox.compiler.parsers import Findings
from penstock.sandbox.wasm.binding import Engine, Instance


class Copy:
    """A reader that does to its instance what the source says."""

    def __init__(self, engine: Engine, instances: list["Copy"]) -> None:
        self.instance = Instance(engine, self, MEMORY_BYTES)
        self.instance.call("_initialize")
        instances.append(self)

    def read(self, source: str) -> Findings:
        if source == "large":
            self.instance.grow_to(LEXER.kept_bytes + 1)
        if source == "late":
            raise TimeoutError(source)
        if source == "trap":
            raise RuntimeError(source)
        return Findings()


@pytest.fixture
def instances() -> list[Copy]:
    return []


@pytest.fixture
def reader(instances: list[Copy], machine_code: Path) -> Iterator[Reader[Findings]]:
    def begin(engine: Engine) -> Copy:
        return Copy(engine, instances)

    reader = Reader(LEXER, SystemClock(), machine_code, begin=begin, failed=Findings)
    yield reader
    reader.close()


@pytest.mark.parametrize(
    ("source", "count"), [("small", 1), ("large", 2), ("late", 2), ("trap", 2)]
)
def test_an_instance_is_reused_until_it_grows_or_fails(
    reader: Reader[Findings], instances: list[Copy], source: str, count: int
) -> None:
    reader.read(source, 5)
    assert reader.read("small", 5) == Findings()
    assert len(instances) == count


@pytest.mark.parametrize(
    ("source", "result"),
    [
        ("late", Findings(problem="reading it took longer than 2.5 s", is_late=True)),
        ("trap", Findings(problem="it needs too much memory to be read")),
    ],
)
def test_a_source_that_was_not_read_reports_the_reason(
    reader: Reader[Findings], source: str, result: Findings
) -> None:
    assert reader.read(source, 2.5) == result


def test_a_closed_reader_holds_no_memory(reader: Reader[Findings]) -> None:
    assert reader.size == 0
    reader.read("small", 5)
    assert reader.size > 0
    reader.close()
    assert reader.size == 0


@pytest.mark.parametrize("kind", [EsLexer, Grammar])
def test_a_closed_reader_ends_its_thread(
    kind: Callable[[SystemClock, Path], EsLexer | Grammar], machine_code: Path
) -> None:
    before = {*threading.enumerate()}
    blob = kind(SystemClock(), machine_code)
    began = {*threading.enumerate()} - before
    assert began
    blob.close()
    for thread in began:
        thread.join(5)
    assert not any(thread.is_alive() for thread in began)

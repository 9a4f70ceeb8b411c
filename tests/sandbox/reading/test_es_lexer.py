"""The blob is let go of when one source has blown it up."""

from pathlib import Path

from penstock.core.clock import SystemClock
from penstock.sandbox.reading.es_lexer import EsLexer


def test_a_large_source_does_not_stay_in_memory(machine_code: Path) -> None:
    blob = EsLexer(SystemClock(), machine_code)
    assert blob.scan("a;" * 2_000_000, 10).problem is None
    assert blob.scan("import 'a'", 10).statements[0].specifier == "a"
    blob.close()


def test_what_it_needs_too_much_memory_for_is_told(machine_code: Path) -> None:
    blob = EsLexer(SystemClock(), machine_code)
    assert blob.scan("a" * 40_000_000, 10).problem == "it needs too much memory to be read"
    assert blob.scan("a", 10).problem is None
    blob.close()

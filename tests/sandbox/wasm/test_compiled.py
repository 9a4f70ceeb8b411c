"""A blob becomes a module of wasmtime, quickly the second time."""

from pathlib import Path

import pytest
from wasmtime import Engine

from penstock.sandbox.wasm.compiled import compiled


def names(cache: Path | None) -> set[str]:
    module = compiled(Engine(), "lexer.wasm", cache)
    return {export.name for export in module.exports}


@pytest.mark.parametrize("content", [b"", b"\x7fELF and then nothing", b"x" * 5000])
def test_broken_machine_code_is_made_anew(tmp_path: Path, content: bytes) -> None:
    names(tmp_path / "cache")
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_bytes(content)
    assert "parse" in names(tmp_path / "cache")
    assert len(kept.read_bytes()) > 5000


def test_what_was_compiled_is_taken_as_it_is(tmp_path: Path) -> None:
    names(tmp_path / "cache")
    (kept,) = (tmp_path / "cache").iterdir()
    before = kept.stat().st_mtime_ns
    assert "parse" in names(tmp_path / "cache")
    assert kept.stat().st_mtime_ns == before


def test_without_a_cache_nothing_is_kept() -> None:
    assert "parse" in names(None)


def test_a_place_that_cannot_be_written_costs_time_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    assert "parse" in names(tmp_path / "file" / "cache")
    assert "lexer.wasm is compiled at every start; the cache cannot be used" in caplog.text

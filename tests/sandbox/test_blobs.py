"""Blobs match their pins, and only this user can write their machine code."""

import importlib.metadata
import json
import os
import stat
import sys
from pathlib import Path

import pytest

from penstock.core.errors import ConfigError
from penstock.sandbox import blobs
from penstock.sandbox.blobs import blob, check_engine, machine_code, open_cache, pinned, write_whole


@pytest.mark.parametrize("name", json.loads(blobs.PINS.read_text()))
def test_every_blob_is_wasm_with_its_licence_beside_it(name: str) -> None:
    assert blob(name).startswith(b"\0asm")
    assert "opyright" in (blobs.FOLDER / f"{name}.LICENSE").read_text()


def test_the_error_of_a_missing_blob_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        blob("swc.wasm", tmp_path)
    assert str(refused.value) == (
        f"the sandbox needs swc.wasm, which is not in {tmp_path}: run `make setup`"
    )


def test_a_blob_that_does_not_match_its_pin_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lexer.wasm").write_bytes(b"\0asm and more")
    with pytest.raises(ConfigError, match=f"expected SHA-256 {pinned('lexer.wasm')}, found "):
        blob("lexer.wasm", tmp_path)


def test_machine_code_belongs_to_one_blob_and_one_wasmtime(tmp_path: Path) -> None:
    path = machine_code("lexer.wasm", tmp_path / "cache")
    assert path.parent == tmp_path / "cache"
    assert path.name == (
        f"lexer-{pinned('lexer.wasm')[:32]}-{importlib.metadata.version('wasmtime')}.cwasm"
    )


def test_the_cache_folder_belongs_to_its_user_only(tmp_path: Path) -> None:
    open_cache(tmp_path / "a" / "cache")
    assert stat.S_IMODE((tmp_path / "a" / "cache").stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_a_cache_that_others_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    with pytest.raises(ConfigError) as refused:
        machine_code("lexer.wasm", folder)
    assert str(refused.value) == (
        f"{folder} holds machine code, so only you may write to it; found owner "
        f"{os.geteuid()}, mode {mode:o}: make it yours, with mode 700"
    )
    assert list(folder.iterdir()) == []


def test_a_file_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "x").touch()
    with pytest.raises(OSError, match="taken"):
        write_whole(tmp_path / "taken", b"x")
    assert [each.name for each in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "the sandbox needs wasmtime, which is not installed: run `make setup`"),
        (
            ["wasmtime/__init__.py"],
            "scripts cannot run here: the installed wasmtime has no engine for ",
        ),
    ],
    ids=["no package", "a package for any machine"],
)
def test_a_missing_engine_is_reported_with_the_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], message: str
) -> None:
    """On an odd platform pip takes the wheel for any machine, which has no engine."""
    check_engine()  # the one that is installed
    for file in files:
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).touch()
    monkeypatch.delitem(sys.modules, "wasmtime", raising=False)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    with pytest.raises(ConfigError, match=message):
        check_engine()

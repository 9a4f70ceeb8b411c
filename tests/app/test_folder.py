"""What of a project's folder is hidden from agents because the runtime keeps its things there."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from penstock.app.folder import folder_of
from penstock.app.settings import load
from penstock.tools.shell import ShellSettings

IN_USE = (".penstock", ".penstock/secret.key", ".penstock/blobs", ".penstock/penstock.db")


@pytest.mark.parametrize(
    ("chosen", "private"),
    [
        ({}, {*IN_USE}),
        ({"data_dir": "var/lib"}, {f"var/lib{each[9:]}" for each in IN_USE}),
        ({"data_dir": "."}, {each[10:] for each in IN_USE[1:]}),
        ({"data_dir": "/elsewhere"}, set()),
        ({"blobs": "kept", "database_url": "sqlite:///my.db"}, {*IN_USE[:2], "kept", "my.db"}),
        ({"blobs": "s3://bucket/x", "database_url": "postgresql://x/y"}, {*IN_USE[:2]}),
    ],
)
def test_where_data_lies_is_private(
    tmp_path: Path, chosen: dict[str, Any], private: set[str]
) -> None:
    found = folder_of(load(tmp_path, **chosen))
    beside = {"-wal", "-shm"}
    assert {each for each in found.private if each[-4:] not in beside} == private
    assert found.root == tmp_path


def test_the_settings_say_whether_commands_run(tmp_path: Path) -> None:
    (tmp_path / "penstock.toml").write_text("[flows]\nshell = true\n")
    shell = folder_of(load(tmp_path, limits={"shell_commands": 3, "shell_memory_mb": 50})).shell
    assert shell.slots is not None
    assert shell.slots.most == 3
    assert replace(shell, slots=None) == ShellSettings(is_on=True, memory_mb=50)

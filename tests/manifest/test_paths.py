"""Files that manifests name."""

from pathlib import Path

import pytest

from tests.kit.manifests import findings, tool, write

OUTSIDE = [
    "/etc/x.mts",
    "../x.mts",
    "lib/../../x.mts",
    "lib/../x.mts",
    r"lib\x.mts",
    "C:/x.mts",
    "",
    "a\\0.mts",
]


@pytest.mark.parametrize("path", OUTSIDE)
def test_a_path_out_of_the_manifests_folder_is_refused(tmp_path: Path, path: str) -> None:
    """B09: "a relative path under the manifest directory"; absolute, `..`: `path-traversal`.

    B25: `script_file: ../x.mts`: `path-traversal`.
    """
    written = path if "\\0" in path else path.replace("\\", "\\\\")
    value = f'{{type: script, script_file: "{written}"}}'
    shown = written.replace("\\0", "\\u0000")
    assert findings(tmp_path, {"x.mts": "", "web/a.tool.yaml": tool(execution=value)}) == [
        (
            'web/a.tool.yaml:4:40: error path-traversal: "execution.script_file" must be a '
            "relative "
            f'path below the manifest\'s directory, without "..", found "{shown}"'
        )
    ]


def at(tmp_path: Path, path: str) -> list[str]:
    value = f"{{type: script, script_file: {path}}}"
    return findings(tmp_path, {"web/a.tool.yaml": tool(execution=value)})


@pytest.mark.parametrize("link", ["web/a.mts", "web/lib"])
def test_a_symlink_that_leads_out_is_refused(tmp_path: Path, link: str) -> None:
    """B09: symlink out: `path-escape`."""
    write(tmp_path, {"a.mts": "", "web/x": ""})
    path = "a.mts" if link.endswith(".mts") else "lib/a.mts"
    (tmp_path / link).symlink_to(tmp_path / "a.mts" if path == "a.mts" else tmp_path)
    assert at(tmp_path, path) == [
        f'web/a.tool.yaml:4:40: error path-escape: "{path}" leads out of web through a symlink'
    ]


def test_a_symlink_inside_the_folder_is_allowed(tmp_path: Path) -> None:
    write(tmp_path, {"web/lib/a.mts": ""})
    (tmp_path / "web/b.mts").symlink_to("lib/a.mts")
    assert at(tmp_path, "./b.mts") == []


@pytest.mark.parametrize("path", ["a.mts", "folder.mts", "loop.mts", "x" * 300 + ".mts"])
def test_only_a_regular_file_counts_as_existing(tmp_path: Path, path: str) -> None:
    write(tmp_path, {"web/folder.mts/x": ""})
    (tmp_path / "web/loop.mts").symlink_to("loop.mts")
    shown = path if len(path) < 60 else "x" * 59 + "…"
    assert at(tmp_path, path) == [
        (
            'web/a.tool.yaml:4:40: error file-missing: "execution.script_file": '
            f'the file "{shown}" does not exist'
        )
    ]

"""Paths of flow files, and their commands."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from penstock.agents.agent_profile import Tier
from penstock.flows.checking import check_flow
from penstock.flows.checks.context import CheckContext
from penstock.flows.project.files import FlowRoot, command_of, file_at, find_flows, read_flow_file
from tests.flows.texts import TOP, finding_lines

FLOW = TOP + "- {id: a, agent: scout}\n"


def laid(root: Path, paths: Iterable[str], text: str = FLOW) -> Path:
    """Write the same flow to several paths."""
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("flows/research.yaml", "research"),
        ("flows/research.yml", "research"),
        ("flows/dom/apply.yaml", "dom:apply"),
        ("flows/dom/apply/flow.yaml", "dom:apply"),
        ("flows/a/b/c/d/e/f.yaml", "a:b:c:d:e:f"),
        ("flows/a/b/c/d/e/f/flow.yaml", "a:b:c:d:e:f"),
        ("flows/flow.yaml", "flow"),
        ("flows/9-x_Y.yaml", "9-x_Y"),
        (".pi/flows/flows/dom/apply.yaml", "dom:apply"),
        ("flows/.hidden.yaml", None),
        ("flows/.git/x.yaml", None),
        ("flows/handlers/x.yaml", None),
        ("flows/dom/handlers/x/y.yaml", None),
        ("flows/x.json", None),
        ("flows/x.flow.md", None),
        ("flows/a/b/c/d/e/f/g/h.yaml", None),
        ("other/x.yaml", None),
        (".pi/flows/x.yaml", None),
    ],
)
def test_a_path_is_a_command(tmp_path: Path, path: str, command: str | None) -> None:
    """D1, D2, D3: `dom/apply.yaml` is `/dom:apply`; so is `dom/apply/flow.yaml`."""
    files = find_flows(laid(tmp_path, [path]))
    assert [(each.command, each.path, each.tier) for each in files.files.values()] == (
        [(command, path, Tier.LOCAL)] if command else []
    )
    assert files.diagnostics == []


def test_a_folder_that_is_one_flow_is_not_searched_further(tmp_path: Path) -> None:
    """D2: nothing else in it is searched."""
    paths = ["dom/flow.yaml", "dom/other.yaml", "dom/deep/x.yaml", "dom/deep/flow.yaml"]
    files = find_flows(laid(tmp_path, [f"flows/{each}" for each in paths]))
    assert list(files.files) == ["dom"]


@pytest.mark.parametrize(
    ("path", "part", "advice"),
    [
        ("my flow.yaml", "my flow", ""),
        ("_x.yaml", "_x", ""),
        ("a.b.yaml", "a.b", ""),
        ("my.folder/x.yaml", "my.folder", ""),
        ("bad name/flow.yaml", "bad name", ""),
        ("a/b/c/d/e/f/x.yaml", "f", "; namespaces nest up to 5 deep"),
    ],
)
def test_a_path_that_cannot_be_a_command_is_reported(
    tmp_path: Path, path: str, part: str, advice: str
) -> None:
    """D3: `bad-command-name`."""
    files = find_flows(laid(tmp_path, [f"flows/{path}"]))
    assert [str(each) for each in files.diagnostics] == [
        f'flows/{path}:1:1: error bad-command-name: "{part}" cannot be part of a command{advice}'
    ]
    assert files.files == {}


def test_a_name_that_is_not_utf8_is_shown_escaped(tmp_path: Path) -> None:
    (tmp_path / "flows").mkdir()
    Path(os.fsdecode(os.fsencode(tmp_path / "flows") + b"/\xff.yaml")).write_text(FLOW)
    (message,) = find_flows(tmp_path).diagnostics
    assert message.file == "flows/\\xff.yaml"
    assert message.message == '"\\xff" cannot be part of a command'


def test_the_first_of_two_flows_with_one_command_hides_the_other(tmp_path: Path) -> None:
    """D4: `flows/` before `.pi/flows/…`; directory form before flat; then by path."""
    paths = [
        ".pi/flows/flows/x/flow.yaml",
        "flows/x.yaml",
        "flows/x.yml",
        "flows/d.yaml",
        "flows/d/flow.yaml",
    ]
    files = find_flows(laid(tmp_path, paths))
    assert {each.command: each.path for each in files.files.values()} == {
        "d": "flows/d/flow.yaml",
        "x": "flows/x.yaml",
    }
    assert sorted(str(each) for each in files.diagnostics) == [
        'flows/d/flow.yaml:1:1: warning hidden: flow "/d" hides the one in flows/d.yaml',
        (
            'flows/x.yaml:1:1: warning hidden: flow "/x" hides the one in '
            ".pi/flows/flows/x/flow.yaml"
        ),
        'flows/x.yaml:1:1: warning hidden: flow "/x" hides the one in flows/x.yml',
    ]


def test_across_tiers_hiding_is_silent(tmp_path: Path) -> None:
    """D4: A local one hides a package one. Across tiers hiding is deliberate and silent."""
    project = laid(tmp_path / "project", ["flows/x.yaml"])
    package = laid(tmp_path / "package", ["x.yaml", "dom/y.yaml"])
    files = find_flows(project, [package])
    assert set(files.files) == {"x", "dom:y"}
    assert files.files["x"].tier is Tier.LOCAL
    assert files.files["dom:y"].name == f"{package}/dom/y.yaml"
    assert files.diagnostics == []


@pytest.mark.parametrize("name", ["call", "web", "new"])
def test_a_flow_named_like_a_built_in_command_gets_a_warning(tmp_path: Path, name: str) -> None:
    files = find_flows(laid(tmp_path, [f"flows/{name}.yaml", f"flows/a/{name}.yaml"]))
    assert [str(each) for each in files.diagnostics] == [
        (
            f'flows/{name}.yaml:1:1: warning command-reserved: "/{name}" is a built-in command; '
            "in a chat this flow cannot be called"
        )
    ]
    assert set(files.files) == {name, f"a:{name}"}


def test_links_to_folders_or_out_of_the_project_are_not_followed(tmp_path: Path) -> None:
    """D3: links to directories are not followed."""
    outside = laid(tmp_path / "outside", ["x.yaml"])
    project = laid(tmp_path / "project", ["flows/a.yaml"])
    (project / "flows" / "loop").symlink_to(project / "flows")
    (project / "flows" / "out").symlink_to(outside)
    (project / "flows" / "leak.yaml").symlink_to(outside / "x.yaml")
    (project / "flows" / "b.yaml").symlink_to(project / "flows" / "a.yaml")
    (project / ".pi" / "flows").mkdir(parents=True)
    (project / ".pi" / "flows" / "flows").symlink_to(outside)
    files = find_flows(project)
    assert set(files.files) == {"a", "b"}
    assert [str(each) for each in files.diagnostics] == [
        f'{file}:1:1: error path-escape: "{file}" leads out of the project through a symlink; '
        "put a copy in its place"
        for file in (".pi/flows/flows", "flows/leak.yaml")
    ]


@pytest.mark.slow("it writes two thousand files")
def test_at_most_two_thousand_files_are_read(tmp_path: Path) -> None:
    """D8: 2,000 files of each kind."""
    folder = tmp_path / "flows"
    folder.mkdir()
    for number in range(2_003):
        (folder / f"x{number:04}.yaml").touch()
    files = find_flows(tmp_path)
    assert (len(files.files), "x1999" in files.files) == (2_000, True)
    assert [each.code for each in files.diagnostics] == ["too-many-files"]


def test_a_project_without_flows_has_none(tmp_path: Path) -> None:
    files = find_flows(tmp_path / "missing", [tmp_path / "none"])
    assert (files.files, files.diagnostics) == ({}, [])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (FLOW.encode(), []),
        (b"\xff", ["1 error file-encoding: not UTF-8 at byte 0"]),
        (
            b"x" * 1_048_577,
            ["1 error file-too-large: the flow has 1048577 bytes; the limit is 1048576"],
        ),
    ],
    ids=["a flow", "no text", "too large"],
)
def test_any_content_of_a_file_is_read(tmp_path: Path, content: bytes, message: list[str]) -> None:
    """D6: A file with error diagnostics takes no part."""
    laid(tmp_path, ["flows/x.yaml"])
    (tmp_path / "flows" / "x.yaml").write_bytes(content)
    read = read_flow_file(find_flows(tmp_path).files["x"])
    assert finding_lines(read.findings) == message
    assert (read.flow is None) == bool(message)
    assert read.file == "flows/x.yaml"


def test_a_path_without_a_regular_file_is_reported(tmp_path: Path) -> None:
    laid(tmp_path, ["flows/x.yaml"])
    os.mkfifo(tmp_path / "flows" / "y.yaml")
    files = find_flows(tmp_path).files
    (tmp_path / "flows" / "x.yaml").unlink()
    assert [finding_lines(read_flow_file(each).findings) for each in files.values()] == [
        ["1 error file-unreadable: the file cannot be read: No such file or directory"],
        ["1 error file-unreadable: the file cannot be read: it is not a file"],
    ]


def test_flows_and_modules_below_a_folder_are_found(tmp_path: Path) -> None:
    laid(tmp_path, ["p/flows/a.yaml", "p/flows/c.mts", "out.yaml"])
    (tmp_path / "p" / "flows" / "leak.yaml").symlink_to(tmp_path / "out.yaml")
    root = FlowRoot(tmp_path / "p")
    read = root.flow_at("flows/a.yaml")
    assert read is not None
    assert root.flow_at("flows/a.yaml") is read
    refused = ["flows/b.yaml", "../out.yaml", "flows/leak.yaml", "flows/c.mts", "flows", "\0.yaml"]
    assert [root.flow_at(each) for each in refused] == [None] * len(refused)
    assert (root.has_file("flows/c.mts"), root.has_file("flows")) == (True, False)


def test_a_flow_of_a_project_is_checked_at_its_path(tmp_path: Path) -> None:
    laid(tmp_path, ["flows/dom/sub.yaml", "flows/dom/handlers/main/c.mts"])
    steps = "- {id: r, path: sub.yaml}\n- {id: c, type: code}\n- {id: d, type: code}\n"
    laid(tmp_path, ["flows/dom/main.yaml"], TOP + steps)
    file = find_flows(tmp_path).files["dom:main"]
    check_context = FlowRoot(tmp_path).check_context(file, CheckContext())
    assert finding_lines(check_flow(read_flow_file(file), check_context)) == [
        (
            '6 warning handler-missing: no handler for step "d": expected '
            "flows/dom/handlers/main/d.ts; penstock flow generate dom:main"
        )
    ]


@pytest.mark.parametrize(
    ("path", "home", "command"),
    [
        ("flows/research.yaml", "", "research"),
        ("flows/dom/apply.yml", "", "dom:apply"),
        ("flows/dom/apply/flow.yaml", "", "dom:apply"),
        ("flows/dom/apply/flow.yml", "", "dom:apply:flow"),
        (".pi/flows/flows/dom/apply.yaml", "", "dom:apply"),
        ("elsewhere/a.yaml", "", "elsewhere:a"),
        ("dom/apply.yaml", "/srv/package", "dom:apply"),
        ("flows/new.yaml", "builtin", "flows:new"),
    ],
)
def test_a_command_is_derived_from_the_path(path: str, home: str, command: str) -> None:
    """D1, D2: a folder of a package is a folder of flows."""
    assert command_of(path, home) == command


@pytest.mark.parametrize(
    ("home", "tier"), [("", Tier.LOCAL), ("builtin", Tier.BUILT_IN), ("/srv/p", Tier.PACKAGE)]
)
def test_a_file_named_by_a_run_is_the_file_that_was_found(home: str, tier: Tier) -> None:
    file = file_at("a/b.yaml", Path("/srv/p"), home)
    assert (file.command, file.tier, file.home) == ("a:b", tier, home)

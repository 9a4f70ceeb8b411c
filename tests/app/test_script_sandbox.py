"""The engines of scripts: loaded when needed, chosen by tool, reported if missing."""

import importlib.metadata
import logging
from pathlib import Path
from typing import Any

import pytest

from penstock.app.project import load_project
from penstock.app.script_sandbox import ProjectSandbox, missing_engine
from penstock.app.settings import load
from penstock.app.settings_sections import Engine, SandboxSection
from penstock.core.call_errors import Cancelled
from penstock.core.errors import ConfigError
from penstock.sandbox.script import Bounds
from penstock.testing.bridge import FakeBridge
from tests.kit.project import ProjectFolder
from tests.kit.scripts import script_of

ADD = script_of("export const run = ({ a }) => a + 1;")


async def added(sandbox: ProjectSandbox) -> Any:
    try:
        return await sandbox.run(ADD, {"a": 1}, FakeBridge(), Bounds(seconds=20))
    finally:
        await sandbox.close()


@pytest.fixture
def no_deno(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine where Deno is not installed."""
    real = importlib.metadata.version

    def version(package: str) -> str:
        if package == "deno":
            raise importlib.metadata.PackageNotFoundError(package)
        return real(package)

    monkeypatch.setattr("importlib.metadata.version", version)


async def test_a_script_runs_in_the_engine_of_this_process(machine_code: Path) -> None:
    assert await added(ProjectSandbox(machine_code)) == 2


@pytest.mark.programs
@pytest.mark.slow("a process of Deno begins")
async def test_the_project_chooses_an_engine(machine_code: Path) -> None:
    assert await added(ProjectSandbox(machine_code, SandboxSection(engine="deno"))) == 2


async def test_a_sandbox_that_never_ran_is_closed(tmp_path: Path) -> None:
    await ProjectSandbox(tmp_path / "cache").close()
    assert not (tmp_path / "cache").exists()


async def test_a_closed_sandbox_runs_nothing(machine_code: Path) -> None:
    sandbox = ProjectSandbox(machine_code)
    await added(sandbox)
    with pytest.raises(Cancelled):
        await added(sandbox)


@pytest.mark.programs
@pytest.mark.slow("a process of Deno begins")
async def test_the_engine_of_a_manifest_wins_over_the_project(project: ProjectFolder) -> None:
    """`execution.engine`: the tool's wish; stronger than the project's."""
    source = "export const run = () => new Error().stack.startsWith('Error');"
    project.tool("plain", source)
    project.tool("quick", source)
    wish = "{type: script, script_file: quick.mts, engine: deno}"
    text = (project.root / "tools/quick.tool.yaml").read_text()
    project.write(
        "tools/quick.tool.yaml", text.replace("{type: script, script_file: quick.mts}", wish)
    )
    async with project.opened() as runtime:
        outputs = [(await runtime.call(name, {})).output for name in ("plain", "quick")]
    assert outputs == [False, True]


def test_an_engine_that_is_not_allowed_breaks_the_tool(project: ProjectFolder) -> None:
    """A wish outside it: diagnostic `engine-not-allowed`, the tool is broken."""
    project.tool("quick", "export const run = () => 1;")
    text = (project.root / "tools/quick.tool.yaml").read_text()
    project.write(
        "tools/quick.tool.yaml", text.replace("type: script,", "type: script, engine: deno,")
    )
    settings = load(project.root, cache_dir=str(project.cache), sandbox={"allow": ["wasm"]})
    [finding] = load_project(settings).diagnostics
    assert (finding.code, finding.file) == ("engine-not-allowed", "tools/quick.tool.yaml")


@pytest.mark.parametrize(
    ("only", "wish", "engine"),
    [
        (None, None, "wasm"),
        (None, "deno", "deno"),
        ("deno", None, "deno"),
        ("wasm", "deno", "wasm"),
    ],
)
def test_an_engine_for_all_scripts_wins_over_manifests(
    tmp_path: Path, only: Engine | None, wish: str | None, engine: str
) -> None:
    """`--engine` overrides for that command."""
    assert ProjectSandbox(tmp_path, only=only).engine_for(wish) == engine


@pytest.mark.usefixtures("no_deno")
async def test_a_missing_engine_is_a_warning_and_calls_name_what_to_install(
    project: ProjectFolder,
) -> None:
    """The warning `engine-missing` with the extra; a call answers `NOT_CONFIGURED`."""
    project.tool("quick", "export const run = () => 1;")
    async with project.opened(settings={"sandbox": {"engine": "deno"}}) as runtime:
        envelope = await runtime.call("quick", {})
    assert envelope.error is not None
    assert envelope.error.code == "NOT_CONFIGURED"
    assert "pip install 'penstock[deno]'" in envelope.error.message


def test_an_engine_without_its_library_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "pdp11")
    assert "no engine for" in missing_engine("wasm")


LACKING = {"namespaces": "Operation not permitted", "landlock": "", "seccomp": ""}


async def test_hardened_does_not_start_where_a_layer_is_missing(
    tmp_path: Path,
) -> None:
    """`true`: a layer the kernel lacks stops the start and is named."""
    sandbox = ProjectSandbox(tmp_path, SandboxSection(hardened=True), layers=LACKING)
    with pytest.raises(ConfigError, match="lacks namespaces: Operation not permitted"):
        sandbox.check()
    with pytest.raises(ConfigError, match="lacks namespaces"):
        await added(sandbox)


def test_hardened_auto_reports_missing_layers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        sandbox = ProjectSandbox(tmp_path, SandboxSection(hardened="auto"), layers=LACKING)
        sandbox.check()
    assert sandbox.confinement == LACKING
    assert ProjectSandbox(tmp_path, SandboxSection()).confinement == {}
    [message] = caplog.messages
    assert message.startswith("scripts are confined by landlock, seccomp; this machine lacks names")


@pytest.mark.programs
@pytest.mark.slow("a worker begins, and reads its engine")
async def test_hardened_scripts_run_confined(machine_code: Path) -> None:
    assert await added(ProjectSandbox(machine_code, SandboxSection(hardened="auto"))) == 2

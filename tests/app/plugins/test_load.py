"""Plugins: those that a program brings and those that are installed, each called once."""

from pathlib import Path
from typing import Any

import pytest

from penstock.app.plugins.api import PluginApi
from penstock.app.plugins.load import load_plugins
from penstock.chat.message import NewRun
from penstock.core.errors import ConfigError
from penstock.models.scripted import ScriptedModel
from tests.kit.flows import finish
from tests.kit.project import ProjectFolder

AGENT = "---\nname: scout\ndescription: d\ntools:\nskills: atlas\n---\nYou look.\n"
FLOW = "name: F\ndescription: d\nsteps:\n  - {id: a, agent: scout, task: go}\n"
MODULE = """
import pathlib

def plug(api):
    here = pathlib.Path(__file__).parent
    api.register_agents_dir(here / "pack" / "agents")
    api.register_flows_dir(here / "pack" / "flows")
    api.register_skills_dir(here / "pack" / "skills")
    api.register_card("plugged")

def broken(api):
    raise RuntimeError("no licence")
"""


class Installed:
    """A folder of distributions on sys.path."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, name: str, text: str) -> None:
        place = self.root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def install(self, name: str, points: str) -> None:
        """Install a distribution with these entry points."""
        self.write(f"{name}-1.0.dist-info/METADATA", f"Name: {name}\nVersion: 1.0\n")
        self.write(f"{name}-1.0.dist-info/entry_points.txt", f"[penstock.plugins]\n{points}\n")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    folder = Installed(tmp_path / "site")
    folder.write("plugged_by_test.py", MODULE)
    folder.write("pack/agents/scout.md", AGENT)
    folder.write("pack/flows/dom/look.yaml", FLOW)
    folder.write("pack/skills/atlas/SKILL.md", "---\nname: atlas\n---\nWhere things lie.\n")
    monkeypatch.syspath_prepend(str(folder.root))
    return folder


async def test_an_installed_plugin_brings_agents_flows_and_handbooks(
    project: ProjectFolder, installed: Installed
) -> None:
    """An entry point of group `penstock.plugins` is called once with `api`."""
    installed.install("plugged", "atlas = plugged_by_test:plug")
    model = ScriptedModel([finish("found")])
    settings = {"models": {"default": "scripted"}}
    async with project.opened(models=[model], settings=settings) as runtime:
        envelope = await runtime.run_flow(NewRun(command="dom:look", task="t"))
        handbooks = runtime.parts.materials.handbooks.names
    assert envelope.ok, envelope
    assert "Where things lie." in model.requests[0].system
    assert {"atlas", "flow-authoring"} <= set(handbooks)


async def test_a_project_hides_what_a_package_brings(
    project: ProjectFolder, installed: Installed
) -> None:
    """D4: a local one hides a package one. D5: the project's handbooks come first."""
    installed.install("plugged", "atlas = plugged_by_test:plug")
    project.write("flows/dom/look.yaml", FLOW.replace("task: go", "task: mine"))
    project.write("agents/scout.md", AGENT.replace("You look.", "You look twice."))
    project.write("handbooks/atlas/SKILL.md", "---\nname: atlas\n---\nOur own map.\n")
    model = ScriptedModel([finish("found")])
    settings = {"models": {"default": "scripted"}}
    async with project.opened(models=[model], settings=settings) as runtime:
        await runtime.run_flow(NewRun(command="dom:look", task="t"))
    request = model.requests[0]
    assert "You look twice." in request.system
    assert "Our own map." in request.system
    assert "mine" in str(request.messages)


@pytest.mark.parametrize(
    ("point", "said"),
    [
        ("x = plugged_by_test:broken", "the plugin 'x' (plugged) failed: RuntimeError: no licence"),
        ("x = plugged_by_test:gone", "the plugin 'x' (plugged) failed: AttributeError"),
        ("x = not_installed_here:plug", "the plugin 'x' (plugged) failed: ModuleNotFoundError"),
    ],
)
def test_a_plugin_that_fails_is_named(installed: Installed, point: str, said: str) -> None:
    installed.install("plugged", point)
    with pytest.raises(ConfigError) as refused:
        load_plugins()
    assert said in str(refused.value)


def test_plugins_of_a_program_come_first_and_share_what_they_register(
    installed: Installed,
) -> None:
    installed.install("plugged", "atlas = plugged_by_test:plug")
    calls: list[PluginApi] = []
    api = load_plugins([calls.append, lambda each: each.register_card("ours")])
    assert calls == [api]
    assert api.cards == ["ours", "plugged"]


async def later(api: Any) -> None:
    """Do nothing, but as a coroutine."""


def test_a_plugin_is_a_plain_function() -> None:
    with pytest.raises(ConfigError, match="'later' is a coroutine: make it a plain function"):
        load_plugins([later])


async def test_plugins_are_called_once_for_all_editions(project: ProjectFolder) -> None:
    calls: list[PluginApi] = []
    folder = project.root / "more"
    project.write("more/helper.md", AGENT.replace("scout", "mover"))
    async with project.opened(plugins=[calls.append]) as runtime:
        [api] = calls
        api.register_agents_dir(folder)
        assert runtime.parts.agents.find("mover") is not None
        api.unregister_agents_dir(folder)
        assert runtime.parts.agents.find("mover") is None
    assert len(calls) == 1

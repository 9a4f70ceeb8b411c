"""What plugins can register, and the events that do the same."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.app.plugins.api import PluginApi, load_plugins
from penstock.chat.requests import NewRun
from penstock.core.errors import ConfigError, NameTaken
from penstock.models.scripted import ScriptedModel
from tests.kit.flows import finish
from tests.kit.project import ProjectFolder


def tool(name: str) -> Any:
    schema = {"type": "object"}
    return SimpleNamespace(id=name, description="d", input_schema=schema, run=lambda *_: name)


def test_the_first_of_two_tools_with_one_name_is_kept(caplog: pytest.LogCaptureFixture) -> None:
    """First one of a name wins, the second gives a warning."""
    api, first = PluginApi(), tool("stamp")
    api.register_tool(first)
    with caplog.at_level(logging.WARNING):
        api.emit("flow:register-tool", {"tool": tool("stamp")})
    assert api.tools["stamp"].tool is first
    assert caplog.messages == ["a second tool 'stamp' of a plugin is left out"]


@pytest.mark.parametrize("name", ["read", "finish", "bash", "flow_write"])
def test_the_name_of_a_built_in_tool_is_refused(name: str) -> None:
    """A built-in's name is an error."""
    with pytest.raises(NameTaken, match="is a built-in tool"):
        PluginApi().register_tool(tool(name))


@pytest.mark.parametrize("noun", ["agents", "flows", "skills"])
def test_folders_are_absolute_and_keep_their_order(noun: str, tmp_path: Path) -> None:
    api = PluginApi()
    with pytest.raises(ConfigError, match="by absolute paths, found 'here'"):
        api.emit(f"flow:register-{noun}-dir", {"dir": "here"})
    for each in ("b", "a", "b"):
        api.emit(f"flow:register-{noun}-dir", {"dir": str(tmp_path / each)})
    assert getattr(api, f"{noun}_dirs") == [tmp_path / "b", tmp_path / "a"]


@pytest.mark.parametrize("noun", ["agents", "flows"])
def test_folders_can_be_unregistered(noun: str, tmp_path: Path) -> None:
    api = PluginApi()
    api.emit(f"flow:register-{noun}-dir", {"dir": tmp_path})
    api.emit(f"flow:unregister-{noun}-dir", {"dir": tmp_path / "other"})
    api.emit(f"flow:unregister-{noun}-dir", {"dir": tmp_path})
    assert getattr(api, f"{noun}_dirs") == []


def test_cards_and_segments_for_displays_are_kept() -> None:
    api = PluginApi()
    api.emit("flow:register-card", {"card": {"type": "map"}})
    api.emit("flow:register-workflow", {"workflow": "w"})
    api.emit("flow:register-footer-segment", {"segment": "s"})
    assert (api.cards, api.workflows, api.footer_segments) == ([{"type": "map"}], ["w"], ["s"])


@pytest.mark.parametrize(
    ("event", "body", "expected"),
    [
        ("flow:register-tol", {}, "Did you mean 'flow:register-tool'?"),
        ("flow:prompt-request", {}, "there is no event 'flow:prompt-request'."),
        ("run", {}, "there is no event 'run'."),
        ("flow:abort", {}, "'flow:abort' takes run_id: missing a required argument"),
        ("flow:rediscover", {"x": 1}, "'flow:rediscover' takes nothing: got an unexpected"),
        ("flow:register-hooks", {"hooks": 1}, "must be instances of Hooks, found 1"),
        ("flow:register-gate", {}, "there is no event 'flow:register-gate'."),
    ],
)
def test_a_wrong_event_is_refused_with_the_reason(event: str, body: Any, expected: str) -> None:
    """An unknown name is an error with the nearest one."""
    with pytest.raises(ConfigError) as refused:
        PluginApi().emit(event, body)
    assert expected in str(refused.value)


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


async def test_an_installed_plugin_adds_agents_flows_and_handbooks(
    project: ProjectFolder, installed: Installed
) -> None:
    """An entry point of group `penstock.plugins` is called once with `api`."""
    installed.install("plugged", "atlas = plugged_by_test:plug")
    model = ScriptedModel([finish("found")])
    settings = {"models": {"default": "scripted"}}
    async with project.opened(models=[model], settings=settings) as runtime:
        envelope = await runtime.run_flow(NewRun(command="dom:look", task="t"))
        handbooks = runtime.parts.flows.materials.handbooks.names
    assert envelope.ok, envelope
    assert "Where things lie." in model.requests[0].system
    assert {"atlas", "flow-authoring"} <= set(handbooks)


async def test_files_of_the_project_hide_those_of_a_package(
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
    ("point", "expected"),
    [
        ("x = plugged_by_test:broken", "the plugin 'x' (plugged) failed: RuntimeError: no licence"),
        ("x = plugged_by_test:gone", "the plugin 'x' (plugged) failed: AttributeError"),
        ("x = not_installed_here:plug", "the plugin 'x' (plugged) failed: ModuleNotFoundError"),
    ],
)
def test_a_failing_plugin_is_named(installed: Installed, point: str, expected: str) -> None:
    installed.install("plugged", point)
    with pytest.raises(ConfigError) as refused:
        load_plugins()
    assert expected in str(refused.value)


def test_plugins_of_a_program_come_first_and_share_what_they_register(
    installed: Installed,
) -> None:
    installed.install("plugged", "atlas = plugged_by_test:plug")
    calls: list[PluginApi] = []
    api = load_plugins([calls.append, lambda each: each.register_card("ours")])
    assert calls == [api]
    assert api.cards == ["ours", "plugged"]


async def later(api: Any) -> None:
    """Do nothing, as a coroutine."""


def test_a_plugin_that_is_a_coroutine_is_refused() -> None:
    with pytest.raises(ConfigError, match="'later' is a coroutine: make it a plain function"):
        load_plugins([later])


async def test_plugins_are_called_once_for_all_editions(project: ProjectFolder) -> None:
    calls: list[PluginApi] = []
    folder = project.root / "more"
    project.write("more/helper.md", AGENT.replace("scout", "mover"))
    async with project.opened(plugins=[calls.append]) as runtime:
        [api] = calls
        api.register_agents_dir(folder)
        assert runtime.parts.chat.agents.find_in_files("mover") is not None
        api.unregister_agents_dir(folder)
        assert runtime.parts.chat.agents.find_in_files("mover") is None
    assert len(calls) == 1

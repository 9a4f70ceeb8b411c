"""What plugins may register, and events that do the same."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.app.plugins.api import PluginApi
from penstock.core.errors import ConfigError, NameTaken


def tool(name: str) -> Any:
    schema = {"type": "object"}
    return SimpleNamespace(id=name, description="d", input_schema=schema, run=lambda *_: name)


def test_of_two_tools_with_one_name_the_first_counts(caplog: pytest.LogCaptureFixture) -> None:
    """First one of a name wins, the second gives a warning."""
    api, first = PluginApi(), tool("stamp")
    api.register_tool(first)
    with caplog.at_level(logging.WARNING):
        api.emit("flow:register-tool", {"tool": tool("stamp")})
    assert api.tools["stamp"].tool is first
    assert caplog.messages == ["a second tool 'stamp' of a plugin is left out"]


@pytest.mark.parametrize("name", ["read", "finish", "bash", "flow_write"])
def test_the_name_of_a_built_in_tool_is_taken(name: str) -> None:
    """A built-in's name is an error."""
    with pytest.raises(NameTaken, match="is a built-in tool"):
        PluginApi().register_tool(tool(name))


@pytest.mark.parametrize("noun", ["agents", "flows", "skills"])
def test_folders_are_absolute_and_stand_in_their_order(noun: str, tmp_path: Path) -> None:
    api = PluginApi()
    with pytest.raises(ConfigError, match="by absolute paths, found 'here'"):
        api.emit(f"flow:register-{noun}-dir", {"dir": "here"})
    for each in ("b", "a", "b"):
        api.emit(f"flow:register-{noun}-dir", {"dir": str(tmp_path / each)})
    assert getattr(api, f"{noun}_dirs") == [tmp_path / "b", tmp_path / "a"]


@pytest.mark.parametrize("noun", ["agents", "flows"])
def test_folders_can_be_left_out_again(noun: str, tmp_path: Path) -> None:
    api = PluginApi()
    api.emit(f"flow:register-{noun}-dir", {"dir": tmp_path})
    api.emit(f"flow:unregister-{noun}-dir", {"dir": tmp_path / "other"})
    api.emit(f"flow:unregister-{noun}-dir", {"dir": tmp_path})
    assert getattr(api, f"{noun}_dirs") == []


def test_what_displays_may_show_is_kept() -> None:
    api = PluginApi()
    api.emit("flow:register-card", {"card": {"type": "map"}})
    api.emit("flow:register-workflow", {"workflow": "w"})
    api.emit("flow:register-footer-segment", {"segment": "s"})
    assert (api.cards, api.workflows, api.footer_segments) == ([{"type": "map"}], ["w"], ["s"])


@pytest.mark.parametrize(
    ("event", "body", "said"),
    [
        ("flow:register-tol", {}, "Did you mean 'flow:register-tool'?"),
        ("flow:prompt-request", {}, "there is no event 'flow:prompt-request'."),
        ("run", {}, "there is no event 'run'."),
        ("flow:abort", {}, "'flow:abort' takes run_id: missing a required argument"),
        ("flow:rediscover", {"x": 1}, "'flow:rediscover' takes nothing: got an unexpected"),
        ("flow:register-guard-extension", {"factory": 1}, "must be a function, found 1"),
        ("flow:register-gate", {"name": "g", "check": 1, "flows": "*", "message": ""}, "a gate"),
    ],
)
def test_what_is_wrong_with_an_event_is_told(event: str, body: Any, said: str) -> None:
    """An unknown name is an error with the nearest one."""
    with pytest.raises(ConfigError) as refused:
        PluginApi().emit(event, body)
    assert said in str(refused.value)


async def test_a_gate_of_one_flow_may_be_named_by_its_command_with_the_slash() -> None:
    """§20: `register_gate(name, check, flows, message)`: by place, or by name."""
    api = PluginApi()
    api.register_gate("g", lambda: True, flows="/dom:apply", message="never said")
    api.register_gate("h", lambda: False, "/dom:apply", "no")
    assert await api.gates.refusal("dom:apply") == "no"
    assert await api.gates.refusal("d") is None
    api.gates.close()

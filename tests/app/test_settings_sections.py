"""The sections of penstock.toml: their valid values, and what is made of them."""

import tomllib
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from penstock.app.settings_sections import (
    FlowSection,
    LocalSection,
    ModelEntry,
    ModelSection,
    ModelSettingsSection,
    NotificationEntry,
    RateSection,
    RuleEntry,
    ServerSection,
    ToolSection,
)
from penstock.core.profile import ADMIN, LOCAL_PROFILE
from penstock.models.settings import ModelSettings
from penstock.resources.channels import Channel, ChannelKind
from penstock.tools.policy import Action, Rule
from penstock.tools.shell import OFF, ShellSettings

SECTIONS = [ModelEntry, RuleEntry, ServerSection, RateSection, ToolSection]
RULE: dict[str, Any] = {"tool": "send_*", "action": "deny"}


def test_a_rule_of_the_settings_becomes_a_rule_of_the_invoker() -> None:
    more: dict[str, Any] = {"agent": "clerk", "labels": ("mail",), "when": {"required": ["to"]}}
    rule = RuleEntry(**RULE, **more).rule()
    assert (rule.tool, rule.action, rule.agent) == ("send_*", Action.DENY, "clerk")
    assert rule.labels == {"mail"}
    assert rule.when is not None
    assert not rule.when.problems({"to": 1})
    assert rule.when.problems({})


def test_a_rule_with_two_words_applies_to_every_call() -> None:
    assert RuleEntry(**RULE).rule() == Rule(tool="send_*", action=Action.DENY)


def test_models_are_found_by_their_names() -> None:
    text = 'default = "a"\n[a]\nprovider = "openai"\n[b]\nprovider = "offline"\n'
    section = ModelSection.model_validate(tomllib.loads(text))
    assert section.default == "a"
    assert {name: entry.provider for name, entry in section.entries.items()} == {
        "a": "openai",
        "b": "offline",
    }
    assert ModelSection().entries == {}


@pytest.mark.parametrize(
    ("section", "values"),
    [
        (ModelEntry, {}),
        (ModelEntry, {"provider": ""}),
        (ModelEntry, {"provider": "openai", "context_tokens": 0}),
        (ModelEntry, {"models": ("a", "b"), "provider": "openai"}),
        (ModelEntry, {"models": ("a",)}),
        (ModelEntry, {"provider": "openai", "input_price": -1.0}),
        (ModelEntry, {"provider": "openai", "output_price": float("nan")}),
        (ModelSection, {"fast": {"model": "no provider"}}),
        (RuleEntry, {"tool": "a"}),
        (RuleEntry, {"tool": "", "action": "ask"}),
        (RuleEntry, {"tool": "a", "action": "maybe"}),
        (RuleEntry, RULE | {"when": {"type": 5}}),
        (ServerSection, {"port": -1}),
        (ServerSection, {"port": 65_536}),
        (ServerSection, {"request_wait_seconds": 0}),
        (ServerSection, {"blob_url_seconds": 0}),
        (RateSection, {"chat": -1}),
        (RateSection, {"bulk": 1.5}),
        (ToolSection, {"python": "yes"}),
    ],
)
def test_invalid_values_are_refused(section: type[BaseModel], values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        section.model_validate(values)


@pytest.mark.parametrize("section", SECTIONS)
def test_an_unknown_key_is_refused(section: type[BaseModel]) -> None:
    whole = {"provider": "openai"} if section is ModelEntry else {}
    whole = RULE if section is RuleEntry else whole
    assert section.model_validate(whole).model_dump()
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        section.model_validate(whole | {"other": 1})


def test_settings_of_zero_and_false_are_settings() -> None:
    given = {"temperature": 0.0, "seed": 0, "parallel_calls": False, "top_p": 0.0}
    entry = ModelEntry.model_validate({"provider": "openai", **given})
    assert entry.model_settings == ModelSettings(
        temperature=0.0, seed=0, parallel_calls=False, top_p=0.0
    )


def test_a_rate_of_zero_means_no_limit() -> None:
    assert RateSection(chat=0, bulk=0, general=0).chat == 0


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({}, "http://127.0.0.1:8000"),
        ({"host": "::1", "port": 9}, "http://[::1]:9"),
        ({"public_url": "https://penstock.example/x"}, "https://penstock.example/x"),
    ],
)
def test_links_to_the_page_begin_with_the_public_url(given: dict[str, Any], url: str) -> None:
    assert ServerSection(**given).web_url == url


def test_an_invalid_address_of_the_server_is_refused() -> None:
    with pytest.raises(ValidationError):
        ServerSection(public_url="penstock.example")


def test_a_notification_becomes_a_channel() -> None:
    channel = NotificationEntry(kind="slack", webhook="ops_hook").channel("ops")
    assert channel == Channel(name="ops", kind=ChannelKind.SLACK, vault_key="ops_hook")
    with pytest.raises(ValidationError):
        NotificationEntry(kind="slack", webhook="https://hooks.test/the-address-itself")


@pytest.mark.parametrize(
    ("values", "settings"),
    [
        ("", OFF),
        ("shell = true", ShellSettings(is_on=True)),
        (
            'shell = true\nshell_network = true\nshell_sandbox = "off"',
            ShellSettings(is_on=True, has_network=True, is_enclosed=False),
        ),
    ],
)
def test_shell_commands_are_off_and_enclosed_by_default(
    values: str, settings: ShellSettings
) -> None:
    """§12.3: "Off unless `shell = true` under `[flows]`"."""
    assert FlowSection(**tomllib.loads(values)).shell_settings == settings


def test_an_unknown_sandbox_for_commands_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"'auto' or 'off'"):
        FlowSection(shell_sandbox="on")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "holds"),
    [({}, True), ({"permissions": ()}, False), ({"permissions": ("p.send",)}, True),
     ({"permissions": (ADMIN,)}, True)],
)  # fmt: skip
def test_local_work_holds_the_named_permissions(given: dict[str, Any], holds: bool) -> None:
    """`local.permissions`: permissions of the profile `local` when auth is off."""
    profile = LocalSection(**given).profile
    assert profile.profile_id == LOCAL_PROFILE.profile_id
    assert profile.holds("p.send") is holds
    assert all(map(profile.holds, ("read", "chat", "approve", "manage")))


def test_a_model_takes_every_setting_of_requests_from_the_file_and_leaves_unset_ones_open() -> None:
    assert {*ModelSettingsSection.model_fields} == {*ModelSettings.__struct_fields__}
    assert ModelSettingsSection().model_settings == ModelSettings()
    assert ModelEntry(provider="offline").model_settings == ModelSettings()

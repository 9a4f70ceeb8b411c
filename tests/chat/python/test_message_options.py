"""Hashes of messages; tests of conversations cover what is refused."""

from typing import Any

import pytest

from penstock.chat.python.message_options import (
    MessageOptions,
    check_options,
    hash_of,
    metadata_of,
    settings_of,
)
from penstock.chat.requests import NewMessage
from penstock.core.errors import RuntimeMisuse
from penstock.models.settings import ModelSettings


@pytest.mark.parametrize(
    "other",
    [
        NewMessage(content="B"),
        NewMessage(content="A", agent="clerk"),
        NewMessage(content="A", session_id="conv_1"),
        NewMessage(content="A", model="m"),
        NewMessage(content="A", model_settings={"seed": 1}),
        NewMessage(content="A", metadata={"shop": "Oslo"}),
        NewMessage(content="A", output_schema={"type": "integer"}),
    ],
)
def test_a_hash_depends_on_all_of_a_message(other: NewMessage) -> None:
    assert hash_of(other) != hash_of(NewMessage(content="A"))
    assert hash_of(NewMessage(content="A")) == hash_of(NewMessage(content="A"))


def test_no_metadata_are_not_stored() -> None:
    assert metadata_of(MessageOptions()) is None
    assert metadata_of({"metadata": {}}) is None


def test_only_the_settings_that_are_set_are_stored() -> None:
    assert settings_of(MessageOptions()) is None
    assert settings_of({"model_settings": ModelSettings()}) is None
    given = ModelSettings(temperature=0.0, stop=("END",))
    assert settings_of({"model_settings": given}) == {"temperature": 0.0, "stop": ["END"]}


def test_a_profile_is_no_name() -> None:
    wrong: Any = "ann"
    with pytest.raises(RuntimeMisuse, match=r"such as Profile\(profile_id='ann'\), found 'ann'"):
        check_options({"profile": wrong})


def test_settings_of_another_kind_are_refused_with_what_to_write() -> None:
    with pytest.raises(RuntimeMisuse, match="must be ModelSettings, found"):
        settings_of({"model_settings": {"temperature": 1}})  # type: ignore[typeddict-item]

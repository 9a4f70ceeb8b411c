"""Hashes of messages; tests of conversations cover what is refused."""

import pytest

from penstock.chat.python.message_options import MessageOptions, hash_of, metadata_of
from penstock.chat.requests import NewMessage


@pytest.mark.parametrize(
    "other",
    [
        NewMessage(content="B"),
        NewMessage(content="A", agent="clerk"),
        NewMessage(content="A", session_id="conv_1"),
        NewMessage(content="A", model="m"),
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

"""Replies as values: what they show in a notebook, and how they compare."""

from typing import Any

import pytest

from penstock.core.envelope import Envelope, ErrorDetail
from penstock.core.reply import Question, Reply, ReplyStatus, ToolCall
from penstock.testing.runtime import memory_runtime

LOST = ErrorDetail(code="MODEL_REFUSED", message="no key")


class Nothing:
    """A task of which nothing is recorded."""

    records = ()

    def calls(self) -> tuple[ToolCall, ...]:
        return ()

    def messages(self) -> tuple[Any, ...]:
        return ()

    def output(self, reply: Reply[Any]) -> Any:
        return reply.content

    def check(self, reply: Reply[Any]) -> None:
        """Accept every reply."""


def reply(status: ReplyStatus, **members: Any) -> Reply[str]:
    return Reply(
        status=status,
        agent="clerk",
        session="conv_1",
        task_id="task_1",
        recorded=Nothing(),
        **members,
    )


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (reply("succeeded", content="**Hi.**"), "**Hi.**"),
        (reply("failed", error=LOST), "**failed**: no key"),
        (reply("cancelled"), "**cancelled**"),
        (
            reply(
                "suspended",
                questions=(Question(id="q_1", kind="choice", text="Where?", options=("A", "B")),),
            ),
            "**waiting for an answer**: Where? (A, B) `q_1`",
        ),
    ],
)
def test_a_notebook_shows_the_answer_or_what_is_missing(shown: Reply[str], expected: str) -> None:
    assert shown._repr_markdown_() == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (ToolCall(id="tc_1", tool="t", input={}), ("suspended", None, None)),
        (
            ToolCall(id="tc_1", tool="t", input={}, envelope=Envelope.success(3)),
            ("success", 3, None),
        ),
    ],
)
def test_a_call_shows_its_outcome(call: ToolCall, expected: tuple[Any, ...]) -> None:
    assert (call.status, call.output, call.error) == expected


async def test_a_reply_outlives_its_runtime() -> None:
    async with memory_runtime() as runtime:
        kept = await runtime.chat("Hello")
    assert kept.output == kept.messages[1].text
    assert kept.raise_for_status() is kept

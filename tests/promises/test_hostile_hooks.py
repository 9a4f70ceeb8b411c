"""Hooks that raise, hang, return something else, or change what they may not."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from penstock import (
    Ask,
    Envelope,
    Refuse,
)
from penstock.models.scripted import ScriptedReply, say
from tests.kit.hooks import REFUND, Method, Shop, hanging, hook, raising, told

CALL_HOOKS = ["before_call", "after_call"]


def wrong(value: Any) -> Method:
    async def returned(*_: Any) -> Any:
        return value

    return returned


@pytest.mark.parametrize(
    ("method", "deed", "said"),
    [
        ("before_call", raising, "failed in before_call: ValueError: no list. The call was not"),
        ("before_call", wrong(None), "it may not return NoneType. The call was not made."),
        ("before_call", wrong(7), "it may not return int"),
        ("before_call", wrong(Refuse("")), "a refusal or a question needs a text, found ''"),
        ("before_call", wrong(Ask(7)), "needs a text, found 7"),  # type: ignore[arg-type]
        ("after_call", raising, "ValueError: no list. The call was made; its outcome is withheld."),
        ("after_call", wrong(Refuse("no")), "it may not return Refuse. The call was made"),
        ("after_call", wrong(Envelope("odd")), "the hook 'watch' failed"),  # type: ignore[arg-type]
    ],
)
async def test_a_hook_that_misbehaves_refuses_the_call_by_its_name(
    method: str, deed: Method, said: str
) -> None:
    shop = Shop(hook("watch", **{method: deed}))
    reply, model = await shop.chat(REFUND, say("Sorry."))
    assert reply.content == "Sorry."
    assert "the hook 'watch' failed" in told(model)
    assert said in told(model)
    assert shop.refunds == ([] if method == "before_call" else [120])


async def another(each: Any) -> Any:
    return replace(each, tool="mail")


async def no_json(each: Any) -> Any:
    return replace(each, input={"amount": object()})


@pytest.mark.parametrize("deed", [another, no_json])
async def test_a_hook_may_change_the_input_of_a_call_alone(deed: Method) -> None:
    shop = Shop(hook(before_call=deed))
    _, model = await shop.chat(REFUND, say("Sorry."))
    assert "the hook 'watch' failed in before_call" in told(model)
    assert shop.refunds == []


@pytest.mark.parametrize("method", ["on_input", "on_output"])
@pytest.mark.parametrize(("deed", "why"), [(raising, "ValueError: no list"), (wrong(7), "int")])
async def test_a_hook_that_misbehaves_elsewhere_fails_the_task_by_its_name(
    method: str, deed: Method, why: str
) -> None:
    reply, _ = await Shop(hook("watch", **{method: deed})).chat(say("Done."))
    assert reply.error is not None
    assert reply.error.code == "HOOK_FAILED"
    assert f"the hook 'watch' failed in {method}: " in reply.error.message
    assert why in reply.error.message


@pytest.mark.parametrize(
    ("method", "replies"),
    [
        *((each, [REFUND]) for each in CALL_HOOKS),
        *((each, [say("Done.")]) for each in ("on_input", "before_model", "after_reply")),
        ("on_output", [say("Done.")]),
    ],
)
async def test_a_hook_that_never_returns_ends_the_task_when_its_time_is_up(
    method: str, replies: Iterable[ScriptedReply]
) -> None:
    """Even if it swallows its cancellation."""
    shop = Shop(hook("watch", **{method: hanging}), budget_seconds=0.05)
    reply, _ = await shop.chat(*replies)
    assert reply.error is not None
    assert (reply.status, reply.error.code) == ("failed", "HOOK_FAILED")
    assert reply.error.message == (
        f"the hook 'watch' did not return from {method} within the time of the task"
    )

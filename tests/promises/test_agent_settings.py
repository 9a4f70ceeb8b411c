"""The `settings` of an agent file take effect in its chats."""

from pathlib import Path

import pytest

from penstock.core.task import TaskStatus
from penstock.models.scripted import ScriptedModel, call, say
from penstock.program.opening import open as open_project
from tests.kit.asking import ask
from tests.kit.tools import Act, echo

AGENT = "---\nname: clerk\ndescription: Works.\ntools: [look]\nsettings: {settings}\n---\nWork.\n"
MANY = [call("look", text="x" * 600, n=number) for number in range(3)]


async def one_chat(root: Path, settings: str) -> tuple[TaskStatus, str | None, list[str]]:
    """Return how a task ended, and what the model read last."""
    (root / "agents").mkdir()
    (root / "agents" / "clerk.md").write_text(AGENT.format(settings=settings))
    model = ScriptedModel([*MANY, say("Done.")])
    options = {"models": {"default": "scripted"}, "synchronous": "NORMAL"}
    tools = [Act("look", echo)]
    async with open_project(root, tools=tools, models=[model], settings=options) as runtime:
        reply = await ask(runtime, "Look", agent="clerk")
    return reply.status, reply.finish_reason, [each.content for each in model.requests[-1].messages]


@pytest.mark.parametrize(
    ("settings", "status", "finish"),
    [
        ("{}", TaskStatus.SUCCEEDED, "stop"),
        ("{max_iterations: 2}", TaskStatus.SUCCEEDED, "max_iterations"),
        ("{budget_tool_calls: 2}", TaskStatus.SUCCEEDED, "budget_exceeded"),
        ("{tool_permissions: {look: ask}}", TaskStatus.SUSPENDED, None),
        ("{context_max_tokens: 1000, result_max_chars: 500}", TaskStatus.SUCCEEDED, "stop"),
    ],
)
async def test_a_setting_of_a_file_holds(
    tmp_path: Path, settings: str, status: TaskStatus, finish: str | None
) -> None:
    """The page: the keys and ranges of section 12."""
    ended, reason, read = await one_chat(tmp_path, settings)
    assert (ended, reason or None) == (status, finish)
    assert (max(map(len, read)) == 500) == ("500" in settings)

"""The architect in a project on disk, started from a chat; the test scripts its calls."""

from collections.abc import Iterable
from typing import Any

from penstock.core.envelope import Envelope
from penstock.core.events.events import CallSettled, Event
from penstock.core.ids import LogId
from penstock.models.model import ModelRequest
from penstock.models.scripted import ScriptedModel, ScriptedReply, call, say
from penstock.tools.tool import Tool
from tests.kit.flows import finish
from tests.kit.project import ProjectFolder

_DEPTH_OF_CHAT = 2
SETTINGS = {"models": {"default": "scripted"}, "tools": {"builtin": ["agents"]}}
"""A project without agents of its own: its chats are not offered `subagent` by themselves."""


class AtWork:
    """The outcomes of the calls of one agent session."""

    def __init__(self, model: ScriptedModel, happened: list[tuple[str, Event]]) -> None:
        self.model = model
        self.happened = happened
        """Events by path."""

    @property
    def outcomes(self) -> list[tuple[str, Envelope]]:
        """The calls inside the session, in the order of the log."""
        settled = [
            (event.tool_id, event.envelope)
            for path, event in self.happened
            if isinstance(event, CallSettled) and event.call_id is not None
            if path.count("/") > _DEPTH_OF_CHAT
        ]
        return [each for each in settled if each[0] != "finish"]

    @property
    def by_tool(self) -> dict[str, Envelope]:
        """The first outcome of each tool, `finish` too."""
        settled = [event for _, event in self.happened if isinstance(event, CallSettled)]
        inside = [each for each in settled if each.tool_id != "subagent" or not each.envelope.ok]
        return {each.tool_id: each.envelope for each in reversed(inside)}

    def outputs(self) -> list[Any]:
        """Return the outputs of those calls."""
        return [envelope.output for _, envelope in self.outcomes]

    @property
    def offered(self) -> list[str]:
        """The names of the tools that the session was offered."""
        return [tool.name for tool in self.sessions[0].tools]

    @property
    def sessions(self) -> list[ModelRequest]:
        """The requests of agent sessions to their model."""
        return [each for each in self.model.requests if is_session(each)]


def is_session(request: ModelRequest) -> bool:
    """Whether a request comes from an agent session, not from the chat."""
    return any(tool.name == "finish" for tool in request.tools)


async def at_work(
    project: ProjectFolder,
    *replies: ScriptedReply,
    agent: str = "flow-architect",
    tools: Iterable[Tool] = (),
    **opening: Any,
) -> AtWork:
    """Have an agent make these replies, and finish; `opening` is how the project is opened."""
    left = [*replies, finish("done")]
    chat = [call("subagent", agent=agent, task="t"), say("Done.")]
    model = ScriptedModel(lambda request: (left if is_session(request) else chat).pop(0))
    opening = {"models": [model], "tools": tools, "settings": SETTINGS} | opening
    async with project.opened(**opening) as runtime:
        reply = await runtime.chat("Go")
        records = await runtime.parts.storage.log.read(LogId(reply.session))
    return AtWork(model, [(each.path or "", each.event) for each in records])

"""A workbench with files in it, and the outcomes of calls on it."""

from typing import Any

from msgspec.structs import replace

from penstock.core.envelope import Envelope, Status
from penstock.core.ids import LogId
from penstock.core.scopes import parse_path
from penstock.resources.workspace import Workspace
from penstock.testing.invocation import Workbench, open_workbench
from penstock.tools.tool import Tool


class Desk:
    """Tools, and the workspace of their task."""

    def __init__(self, bench: Workbench) -> None:
        self.bench = bench

    @property
    def files(self) -> Workspace:
        """The workspace, as the tools see it."""
        bench, task_id = self.bench, self.bench.ledger.task.task_id
        workspace = bench.resources.workspace(LogId(task_id), task_id, bench.world.limits)
        assert workspace is not None
        return workspace

    async def put(self, uri: str, content: bytes | str) -> None:
        """Put a file where no tool did."""
        data = content.encode() if isinstance(content, str) else content
        await self.files.make(await self.files.write(parse_path(uri), data))

    async def get(self, uri: str) -> bytes:
        """Return the bytes of a file."""
        return await self.files.read(parse_path(uri), most=2**30)

    async def call(self, tool_id: str, **input: Any) -> Envelope:
        """Call a tool, as code does: nothing is clipped."""
        code = replace(self.bench.model, clip_at=None)
        return await self.bench.call(tool_id, input, caller=code)

    async def made(self, tool_id: str, **input: Any) -> Any:
        """Return the output of a call that succeeds."""
        envelope = await self.call(tool_id, **input)
        assert envelope.error is None, envelope.error
        return envelope.output

    async def refusal(self, tool_id: str, **input: Any) -> str:
        """Return why a call did not succeed: its reason, or the code of its error."""
        envelope = await self.call(tool_id, **input)
        return refusal_of(envelope)


async def open_desk(*tools: Tool, **more: Any) -> Desk:
    """Return a desk with these tools."""
    return Desk(await open_workbench(*tools, **more))


def refusal_of(envelope: Envelope) -> str:
    """Return why a call did not succeed."""
    error = envelope.error
    assert error is not None, envelope.output
    if envelope.status is Status.VALIDATION_ERROR:
        return "invalid"
    return str((error.details or {}).get("reason", error.code))

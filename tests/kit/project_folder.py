"""A project folder on disk, with its tools behind the real Invoker."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from penstock.core.envelope import Envelope
from penstock.core.limits import Limits
from penstock.resources.project.access import OPEN, Access
from penstock.testing.invocation import Workbench, open_workbench
from penstock.tools.policy import Action, Rule
from penstock.tools.resources import ProjectFolder
from penstock.tools.tool import Tool

G = Access(
    agent="g",
    read=("src/**", "docs/*.md"),
    write=("src/gen/**",),
    deny=("rm -rf *", "curl", "git push*"),
)
"""The agent of the table of refusals."""
FILES = ("src/a.py", "src/a/b.py", "docs/x.md", "docs/sub/x.md", "README.md", "tests/t.py", ".env")


class Folder:
    """A project, and the outcomes of calls of its tools."""

    def __init__(self, root: Path, bench: Workbench) -> None:
        self.root = root
        self.bench = bench

    async def call(self, tool_id: str, access: Access = OPEN, **input: Any) -> Envelope:
        """Call a tool as the model of an agent does; nothing is clipped."""
        caller = replace(self.bench.model, access=access, clip_at=None)
        return await self.bench.call(tool_id, input, caller=caller)

    async def output(self, tool_id: str, access: Access = OPEN, **input: Any) -> Any:
        """Return the output of a call that succeeds."""
        envelope = await self.call(tool_id, access, **input)
        assert envelope.ok, envelope
        return envelope.output

    async def refusal(self, tool_id: str, access: Access = OPEN, **input: Any) -> tuple[str, str]:
        """Return the code and the message of a call that fails."""
        envelope = await self.call(tool_id, access, **input)
        assert envelope.error is not None, envelope
        return envelope.error.code, envelope.error.message

    async def reason(self, tool_id: str, **input: Any) -> str:
        """Return the reason of a failure."""
        envelope = await self.call(tool_id, **input)
        assert envelope.error is not None, envelope
        assert envelope.error.details is not None, envelope
        reason: str = envelope.error.details["reason"]
        return reason


async def open_folder(
    root: Path, *tools: Tool, limits: Limits | None = None, **message: Any
) -> Folder:
    """Return a project with some links, and some files whose content is their own name.

    Its files change without approval.
    """
    for name in FILES:
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{name}\n")
    (root / "src/gen").mkdir()
    (root / "src/l").symlink_to("../docs/sub/x.md")
    (root / "src/out").symlink_to("/etc/hosts")
    folder = ProjectFolder(root=root, **message)
    rules = [Rule(tool=each, action=Action.ALLOW) for each in ("write", "edit", "bash")]
    bench = await open_workbench(*tools, rules=rules, project=folder, limits=limits)
    return Folder(root, bench)

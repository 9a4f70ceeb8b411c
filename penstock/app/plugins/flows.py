"""The functions with which plugins list, start and end the flows of an open project."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from penstock.agents.catalog import catalog_entries
from penstock.app.run_feed import run_result
from penstock.app.runtime import Runtime
from penstock.chat.message import NewRun, Reply
from penstock.core.envelope import Json
from penstock.core.errors import NotFound, NotReady
from penstock.core.ids import TaskId
from penstock.core.task import TaskStatus
from penstock.flows.project.authoring import remove_flow
from penstock.flows.project.files import FlowFile
from penstock.flows.project.flows import ProjectFlows
from penstock.flows.project.library import unknown_flow
from penstock.tools.resources import NO_PROJECT

NOTHING: Mapping[str, Any] = MappingProxyType({})
Tell = Callable[[str, Json], None]


class PluginFlows:
    """The flows of the project; usable once the project is open."""

    def __init__(self, tell: Tell) -> None:
        self._runtime: Runtime | None = None
        self._tell = tell

    def open(self, runtime: Runtime) -> None:
        """Record that the project is open."""
        self._runtime = runtime

    async def run(
        self,
        command: str,
        task: str = "",
        inputs: Mapping[str, Any] = NOTHING,
        autonomous: bool | None = None,  # noqa: FBT001  its fourth place is public
    ) -> Json:
        """Run a flow, and return its FlowResult once it has ended, even after questions.

        Raises NotFound for an unknown command.
        """
        run_id = TaskId(await self.start(command, task, inputs, autonomous))
        return run_result(run_id, command.removeprefix("/"), await self._end(run_id))

    async def start(
        self,
        command: str,
        task: str = "",
        inputs: Mapping[str, Any] = NOTHING,
        autonomous: bool | None = None,  # noqa: FBT001  its fourth place is public
    ) -> str:
        """Start a run, and return its id at once. Raises NotFound for an unknown command."""
        command = command.removeprefix("/")
        self._file(command)
        run = NewRun(command=command, task=task, inputs=dict(inputs), autonomous=autonomous)
        return await self._open.start_flow(run)

    async def abort(self, run_id: str) -> None:
        """Abort a run. Raises NotFound, or TaskOver if it has ended."""
        await self._open.cancel(TaskId(run_id))

    def delete(self, command: str) -> None:
        """Delete the file of a flow. Raises NotFound, or ReadOnly for a flow of another folder."""
        remove_flow(self._file(command.removeprefix("/")))
        self.rediscover()

    def agents(self) -> Sequence[Json]:
        """Return the agents that flows can name."""
        return catalog_entries(self._open.parts.chat.agents)

    def list(self) -> Sequence[Json]:
        """Return the flows, by command."""
        return [
            {
                "command": each.file.command,
                "description": each.description,
                "source": each.file.tier.value,
                "errors": each.errors,
            }
            for each in self._files.list()
        ]

    def rediscover(self) -> Json:
        """Read agents and flows again; return the body of `flow_rediscovered`."""
        authoring = self._open.parts.flows.authoring
        if authoring is None:
            raise NotReady(NO_PROJECT)
        return authoring.rediscover()

    def set_autonomous(self, enabled: bool) -> None:  # noqa: FBT001  as its event has it
        """Set the default for `autonomous` of later runs."""
        work = self._open.parts.flows.work
        work.settings = replace(work.settings, is_autonomous=enabled)
        self._tell("flow_autonomous_mode_changed", {"enabled": enabled})

    def _file(self, command: str) -> FlowFile:
        files = self._files.files().files
        if command not in files:
            raise unknown_flow(command, files)
        return files[command]

    async def _end(self, run_id: TaskId) -> Reply:
        parts = self._open.parts
        while True:
            reply = await self._open.wait(run_id)
            if reply is None:
                raise NotFound(f"the run {run_id!r} is gone")
            if reply.status is not TaskStatus.SUSPENDED:
                return reply
            await parts.world.clock.sleep(parts.world.limits.poll_seconds)

    @property
    def _open(self) -> Runtime:
        if self._runtime is None:
            raise NotReady(
                "the project is not open yet: call this from a listener, tool or gate, "
                "not while registering"
            )
        return self._runtime

    @property
    def _files(self) -> ProjectFlows:
        files = self._open.parts.flows.files
        if files is None:
            raise NotReady(NO_PROJECT)
        return files

"""`flo.fs`: files of the workspace, read whole."""

from typing import Any

from penstock.core.call import CallPath, Effect
from penstock.core.call_errors import CallError
from penstock.core.state import FilePath, parse_path
from penstock.sandbox.bridge import HostCallResult
from penstock.tools.invocation import Invocation
from penstock.tools.scripts.arguments import text
from penstock.tools.scripts.host import Answer
from penstock.tools.scripts.recording import Recording

READ = "fs.readBytes"


class FileCalls:
    """`fs.readBytes`."""

    def __init__(self, invocation: Invocation, recording: Recording) -> None:
        self._invocation = invocation
        self._recording = recording

    def read_bytes(self, arguments: Any) -> Answer:
        """Return what a file holds."""
        uri = text(arguments, "path")
        try:
            file = parse_path(uri)
        except ValueError as error:
            raise TypeError(str(error)) from None
        path = self._recording.place(READ, uri, Effect.READ)
        found = self._recording.find(path, has_bytes=True)
        return found or self._recording.live(path, self._read(path, file))

    async def _read(self, path: CallPath, file: FilePath) -> HostCallResult:
        most = self._invocation.inside.world.limits.read_bytes
        try:
            content = await self._invocation.workspace.read(file, most=most)
        except CallError as error:
            return self._recording.refuse(path, READ, error)
        return self._recording.settle_read(path, READ, content)

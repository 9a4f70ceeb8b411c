"""Where the scripts of a project run; the engine is loaded when the first of them does."""

from pathlib import Path
from typing import Any

from penstock.core.clock import SystemClock
from penstock.core.envelope import Json
from penstock.core.late import late
from penstock.sandbox.blobs import check_engine
from penstock.sandbox.bridge import Bridge
from penstock.sandbox.script import Bounds, Sandbox, Script


class ProjectSandbox:
    """The Sandbox of a project: QuickJS in this process."""

    def __init__(self, cache: Path) -> None:
        self._cache = cache
        self._engine: Sandbox | None = None

    async def run(self, script: Script, input: Json, bridge: Bridge, bounds: Bounds) -> Any:
        """Enter the script from its top; returns its output, which is JSON."""
        if self._engine is None:
            check_engine()
            make = late("penstock.sandbox.quickjs:QuickJs")
            self._engine = make(SystemClock(), self._cache)
        return await self._engine.run(script, input, bridge, bounds)

    async def close(self) -> None:
        """End whatever still runs."""
        if self._engine is not None:
            await self._engine.close()

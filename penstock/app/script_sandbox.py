"""The sandbox of a project's scripts; an engine is loaded when a script first needs it."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from penstock.app.settings_sections import Engine, SandboxSection
from penstock.core.call_errors import ToolNotConfigured
from penstock.core.clock import SystemClock
from penstock.core.diagnostics import Diagnostic, Severity
from penstock.core.envelope import Json
from penstock.core.errors import ConfigError
from penstock.core.late import late
from penstock.manifest.bundle import Bundle
from penstock.sandbox.blobs import check_engine
from penstock.sandbox.bridge import Bridge
from penstock.sandbox.processes.process_slots import ProcessSlots
from penstock.sandbox.script import Bounds, Sandbox, Script

log = logging.getLogger(__name__)
Layers = Mapping[str, str]
DENO = "deno"
DEFAULT = SandboxSection()


class ProjectSandbox:
    """The Sandbox of a project: runs each script in its manifest's engine or the default one."""

    def __init__(
        self,
        cache: Path,
        chosen: SandboxSection = DEFAULT,
        *,
        only: Engine | None = None,
        processes: int = 0,
        layers: Layers | None = None,
    ) -> None:
        """`only` is the engine of every script, whatever its manifest names.

        `layers` are the layers of confinement, each with the reason if this machine lacks it; None
        detects them. `processes` limits the processes of all engines together; 0 means what the
        machine can have.
        """
        self._processes = processes
        self._slots: ProcessSlots | None = None
        self._cache = cache
        self._chosen = chosen
        self._only = only
        self._engines: dict[str, Sandbox] = {}
        self._layers = layers
        self._report: Callable[[str], None] | None = None
        self._port = 0

    def check(self) -> None:
        """Log how scripts will be confined.

        Raises ConfigError if the settings require a layer that this machine lacks.
        """
        if not self._chosen.hardened:
            return
        missing_layers: Callable[[Layers], str] = late(
            "penstock.sandbox.processes.process:missing_layers"
        )
        missing = missing_layers(self.layers)
        if missing and self._chosen.hardened != "auto":
            raise ConfigError(
                f"[sandbox] hardened is true, and this machine lacks {missing}. "
                'Provide it, or set hardened to "auto" to use the other layers.'
            )
        names = ", ".join(_available(self.layers)) or "nothing"
        if missing:
            log.warning("scripts are confined by %s; this machine lacks %s", names, missing)
        else:
            log.info("scripts are confined by %s", names)

    def debug(self, report: Callable[[str], None], port: int = 0) -> None:
        """Run every script under a debugger at this port; report where to attach."""
        self._report, self._port = report, port

    def engine_for(self, requested: str | None) -> str:
        """Return the engine for the engine that a manifest names, or for None."""
        return DENO if self._report else self._only or requested or self._chosen.engine

    @property
    def layers(self) -> Layers:
        """Return the layers of confinement, each with the reason if this machine lacks it."""
        if self._layers is None:
            find: Callable[[], Layers] = late("penstock.sandbox.processes.process:found_layers")
            self._layers = find()
        return self._layers

    @property
    def confinement(self) -> Layers:
        """Return the requested layers; none if the settings do not confine scripts."""
        return self.layers if self._chosen.hardened else {}

    async def run(self, script: Script, input: Json, bridge: Bridge, bounds: Bounds) -> Any:
        """Run the script; return its output, which is JSON."""
        engine = self._engine(self.engine_for(script.engine))
        return await engine.run(script, input, bridge, bounds)

    async def close(self) -> None:
        """Stop all running scripts."""
        for engine in self._engines.values():
            await engine.close()

    def _engine(self, name: str) -> Sandbox:
        if name not in self._engines:
            if missing := missing_engine(name):
                raise ToolNotConfigured(missing)
            self._engines[name] = self._opened(name)
        return self._engines[name]

    @property
    def _shared_slots(self) -> ProcessSlots:
        """Return the slots that all engines share."""
        if self._slots is None:
            self._slots = ProcessSlots(self._processes)
        return self._slots

    def _opened(self, name: str) -> Sandbox:
        clock, cache = SystemClock(), self._cache
        if self._report:
            debugged: Sandbox = late("penstock.sandbox.processes.deno:DebugSandbox")(
                clock, cache, self._report, port=self._port
            )
            return debugged
        if self._chosen.hardened:
            self.check()
        layers = _available(self.layers) if self._chosen.hardened else []
        if name == DENO:
            opened: Sandbox = late("penstock.sandbox.processes.deno:open_deno")(
                clock, cache, layers, self._shared_slots
            )
        elif layers:
            opened = late("penstock.sandbox.processes.wasm_process:open_wasm_process")(
                clock, cache, layers, self._shared_slots
            )
        else:
            opened = late("penstock.sandbox.wasm.quickjs:QuickJs")(clock, cache)
        return opened


def missing_engine(name: str) -> str:
    """Return why an engine cannot run on this machine, or an empty text."""
    if name == DENO:
        missing: Callable[[], str] = late("penstock.sandbox.processes.deno:missing_deno")
        return missing()
    try:
        check_engine()
    except ConfigError as error:
        return str(error)
    return ""


def with_engines(bundle: Bundle, sandbox: ProjectSandbox) -> Bundle:
    """Return the bundle with a warning for every tool whose engine cannot run here."""
    findings = {
        tool_id: [
            Diagnostic(
                code="engine-missing",
                message=f"the tool cannot run here: {missing}",
                file=manifest.file,
                line=manifest.execution.script_at.line,
                column=manifest.execution.script_at.column,
                severity=Severity.WARNING,
            )
        ]
        for tool_id, manifest in bundle.tools.items()
        if (missing := missing_engine(sandbox.engine_for(manifest.execution.engine)))
    }
    return bundle.with_findings(findings) if findings else bundle


def _available(layers: Layers) -> list[str]:
    available: Callable[[Layers], list[str]] = late(
        "penstock.sandbox.processes.process:available_layers"
    )
    return available(layers)

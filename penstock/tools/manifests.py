"""The script tools of a bundle: each manifest with its modules, ready to run or known as broken."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.core.diagnostics import Diagnostic, Severity
from penstock.manifest.bundle import Bundle
from penstock.manifest.tool import ToolManifest
from penstock.sandbox.folder import Folder
from penstock.sandbox.modules import Inline, Wanted, load
from penstock.sandbox.scan import Scanner
from penstock.sandbox.script import Sandbox, Script
from penstock.tools.policy import SCRIPT
from penstock.tools.script import Bindings, ScriptTool
from penstock.tools.spec import ANY_INPUT, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedBundle:
    """A bundle and the scripts of its tools."""

    bundle: Bundle
    """With the findings in scripts; what they break is broken."""
    scripts: Mapping[str, Script]
    """Of the tools that can be called, by id."""

    def tools(self, sandbox: Sandbox, runtime_config: Mapping[str, str]) -> list[ScriptTool]:
        """Return every tool of the bundle; one that is broken says so when it is called."""
        bundle = self.bundle
        tools = [
            ScriptTool(
                spec_of(manifest),
                self.scripts[tool_id],
                bindings=bindings_of(manifest, runtime_config),
                sandbox=sandbox,
            )
            for tool_id, manifest in bundle.tools.items()
        ]
        broken = [
            ScriptTool(broken_spec(tool_id), errors(found), bindings=Bindings(), sandbox=sandbox)
            for tool_id, found in bundle.broken_tools.items()
        ]
        return tools + broken


def load_scripts(bundle: Bundle, root: Path, scanner: Scanner) -> LoadedBundle:
    """Read, strip and check the modules of every tool; none of their code runs."""
    scripts: dict[str, Script] = {}
    findings: dict[str, Sequence[Diagnostic]] = {}
    for tool_id, manifest in bundle.tools.items():
        loaded = load(_wanted(manifest, root), scanner)
        if loaded.script is not None:
            scripts[tool_id] = loaded.script
        if loaded.problems:
            findings[tool_id] = loaded.problems
    return LoadedBundle(bundle=bundle.with_findings(findings), scripts=scripts)


def spec_of(manifest: ToolManifest) -> ToolSpec:
    """Return what callers may know of a manifest tool."""
    approval = manifest.requires_approval
    return ToolSpec(
        tool_id=manifest.tool_id,
        description=manifest.description,
        input_schema=manifest.input_schema,
        output_schema=manifest.output_schema,
        timeout_ms=manifest.timeout_ms,
        effect=manifest.effect,
        idempotent=manifest.idempotent,
        is_frame=True,
        is_offered=False,
        direct_call=manifest.direct_call,
        script_tools=frozenset(manifest.script_tools),
        requires_permissions=frozenset(manifest.requires_permissions),
        requires_approval=approval if isinstance(approval, bool) else approval["when"],
        retry=manifest.retry_policy,
        labels=manifest.labels,
        kind=SCRIPT,
    )


def bindings_of(manifest: ToolManifest, runtime_config: Mapping[str, str]) -> Bindings:
    """Return what the script of a manifest may reach."""
    limits = manifest.limits
    return Bindings(
        memory_mb=limits.memory_mb, log_bytes=limits.log_bytes, runtime_config=runtime_config
    )


def broken_spec(tool_id: str) -> ToolSpec:
    """Return the face of a tool that cannot be called."""
    return ToolSpec(
        tool_id=tool_id,
        description="This tool is broken: `penstock check` says why.",
        input_schema=ANY_INPUT,
        is_frame=True,
        is_offered=False,
        kind=SCRIPT,
    )


def errors(found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return what breaks a tool."""
    return [each for each in found if each.severity is Severity.ERROR]


def _wanted(manifest: ToolManifest, root: Path) -> Wanted:
    execution, folder = manifest.execution, manifest.folder
    entry: str | Inline = execution.script_file or ""
    if execution.script is not None:
        at = execution.script_at
        entry = Inline(text=execution.script, file=manifest.file, line=at.line, column=at.column)
    return Wanted(
        files=Folder(root / folder),
        folder="" if folder == "." else folder,
        entry=entry,
        entrypoint=execution.entrypoint,
    )

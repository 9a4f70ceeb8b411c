"""The script tools of a bundle: each manifest with its modules, ready to run or known as broken."""

import posixpath
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from penstock.core.clock import SystemClock
from penstock.core.diagnostics import Diagnostic, errors_of
from penstock.manifest.bundle import Bundle
from penstock.manifest.prompts import PromptResolver, Prompts
from penstock.manifest.tool import ToolManifest
from penstock.resources.hosts import read_patterns
from penstock.sandbox.reading.folder import Folder, TrackedFiles
from penstock.sandbox.reading.modules import InlineScript, ScriptReference, load
from penstock.sandbox.reading.parsers import Lexer, TypeScript
from penstock.sandbox.reading.scan import Scanner
from penstock.sandbox.script import Sandbox, Script
from penstock.tools.policy import SCRIPT
from penstock.tools.scripts.bindings import Bindings
from penstock.tools.scripts.script import ScriptTool
from penstock.tools.spec import ANY_INPUT, ToolSpec


class ScriptTools:
    """Makes the tools of a bundle."""

    def __init__(self, sandbox: Sandbox, usual: Bindings) -> None:
        self._sandbox = sandbox
        self._usual = usual
        """What holds for every manifest, or for those that say nothing else."""

    def of(self, bundle: Bundle, scripts: Mapping[str, Script]) -> list[ScriptTool]:
        """Return every tool of the bundle; one that is broken says so when it is called."""
        return [
            *(self._tool(each, scripts[name]) for name, each in bundle.tools.items()),
            *(
                self._broken(
                    name, found, [each for each in bundle.every_tool if each.tool_id == name]
                )
                for name, found in bundle.broken_tools.items()
            ),
        ]

    def _tool(self, manifest: ToolManifest, script: Script) -> ScriptTool:
        bindings = bindings_of(manifest, self._usual)
        spec = spec_of(manifest, timeout_ms=self._usual.timeout_ms)
        return ScriptTool(spec, script, bindings=bindings, sandbox=self._sandbox)

    def _broken(
        self, tool_id: str, found: Sequence[Diagnostic], manifests: Sequence[ToolManifest]
    ) -> ScriptTool:
        spec = broken_spec(tool_id, manifests)
        return ScriptTool(spec, errors_of(found), bindings=Bindings(), sandbox=self._sandbox)


def open_scanner(cache: Path | None) -> Scanner:
    """Return what reads scripts; what it made of them is kept in the cache."""
    clock = SystemClock()
    return Scanner(TypeScript(clock, cache), Lexer(clock, cache), cache)


def load_tools(
    bundle: Bundle, root: Path, tools: ScriptTools, cache: Path | None
) -> tuple[Bundle, list[ScriptTool]]:
    """Return the bundle as it is with its scripts, and every tool of it."""
    bundle, scripts = load_scripts(bundle, root, open_scanner(cache))
    return bundle, tools.of(bundle, scripts)


def load_prompt_script(
    prompts: Prompts, resolver: PromptResolver, root: Path, cache: Path | None
) -> tuple[Script | None, Sequence[Diagnostic], set[str]]:
    """Return the script that is asked for a part of the prompt, what is wrong, and its files."""
    folder = prompts.folder
    wanted, asked = noted(
        ScriptReference(
            files=Folder(root / folder),
            folder="" if folder == "." else folder,
            entry=resolver.script_file,
            entrypoint=resolver.entrypoint,
        )
    )
    loaded = load(wanted, open_scanner(cache))
    return loaded.script, (*loaded.problems, *loaded.warnings), asked()


def load_scripts(bundle: Bundle, root: Path, scanner: Scanner) -> tuple[Bundle, dict[str, Script]]:
    """Read, strip and check the modules of every tool; none of their code runs.

    Returns the bundle with what is wrong with them, and the scripts of the tools that are whole.
    """
    scripts: dict[str, Script] = {}
    findings: dict[str, Sequence[Diagnostic]] = {}
    reached = {*bundle.reached}
    for tool_id, manifest in bundle.tools.items():
        wanted, asked = noted(_wanted(manifest, root))
        loaded = load(wanted, scanner)
        reached.update(asked())
        if loaded.script is not None:
            execution = manifest.execution
            file = posixpath.join(manifest.folder, execution.script_file or "").removeprefix("./")
            scripts[tool_id] = replace(
                loaded.script,
                engine=execution.engine,
                file=file if execution.script_file else manifest.file,
            )
        if found := (*loaded.problems, *loaded.warnings):
            findings[tool_id] = found
    return replace(bundle.with_findings(findings), reached=frozenset(reached)), scripts


def noted(wanted: ScriptReference) -> tuple[ScriptReference, Callable[[], set[str]]]:
    """Return the script to read, and what tells afterwards which files of the project it asked for.

    The entry is among them, also where its name is no script's.
    """
    files, entry = TrackedFiles(wanted.files), wanted.entry

    def asked() -> set[str]:
        first = [entry] if isinstance(entry, str) else []
        return {
            posixpath.normpath(f"{wanted.folder}/{each}").lstrip("/")
            for each in (*files.asked, *first)
        }

    return replace(wanted, files=files), asked


def spec_of(manifest: ToolManifest, *, timeout_ms: int = 60_000) -> ToolSpec:
    """Return what callers may know of a manifest tool; the timeout is the project's."""
    return ToolSpec(
        tool_id=manifest.tool_id,
        description=manifest.description,
        input_schema=manifest.input_schema,
        output_schema=manifest.output_schema,
        timeout_ms=manifest.timeout_ms or timeout_ms,
        effect=manifest.effect,
        idempotent=manifest.idempotent,
        is_frame=True,
        is_offered=False,
        direct_call=manifest.direct_call,
        script_tools=frozenset(manifest.script_tools),
        requires_permissions=frozenset(manifest.requires_permissions),
        requires_approval=manifest.requires_approval,
        retry=manifest.retry_policy,
        labels=manifest.labels,
        kind=SCRIPT,
    )


def bindings_of(manifest: ToolManifest, usual: Bindings) -> Bindings:
    """Return what the script of a manifest may reach."""
    limits, own = manifest.limits, manifest.egress
    return replace(
        usual,
        vault=manifest.vault,
        state=manifest.state,
        egress=usual.egress if own is None else read_patterns(own),
        memory_mb=limits.memory_mb,
        log_bytes=limits.log_bytes,
        nested_calls=limits.nested_calls,
    )


def broken_spec(tool_id: str, manifests: Sequence[ToolManifest] = ()) -> ToolSpec:
    """Return the face of a tool that says what is wrong with it when it is called.

    Who may call it is known, as far as its manifests can be read: there may be several.
    """
    needed = (each.requires_permissions for each in manifests)
    return ToolSpec(
        tool_id=tool_id,
        description="This tool is broken: `penstock check` says why.",
        input_schema=ANY_INPUT,
        is_frame=True,
        is_offered=False,
        is_broken=True,
        direct_call=any(each.direct_call for each in manifests),
        requires_permissions=frozenset().union(*needed),
        kind=SCRIPT,
    )


def _wanted(manifest: ToolManifest, root: Path) -> ScriptReference:
    execution, folder = manifest.execution, manifest.folder
    entry: str | InlineScript = execution.script_file or ""
    if execution.script is not None:
        at = execution.script_at
        entry = InlineScript(
            text=execution.script,
            file=manifest.file,
            line=at.line,
            column=at.column,
            is_verbatim=execution.is_verbatim,
        )
    return ScriptReference(
        files=Folder(root / folder),
        folder="" if folder == "." else folder,
        entry=entry,
        entrypoint=execution.entrypoint,
    )

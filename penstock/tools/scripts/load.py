"""The script tools of a bundle: each manifest with its modules, ready to run or broken.

Guarantees that every manifest becomes a tool. A tool whose manifest or script has errors is broken:
a call of it fails with its diagnostics, and other tools are not affected. No code of a script runs
here. Proof: tests/tools/scripts/test_load.py.
"""

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
from penstock.sandbox.compiler.load_script import InlineScript, ScriptReference, load
from penstock.sandbox.compiler.parsers import Lexer, TypeScript
from penstock.sandbox.compiler.scanner import Scanner
from penstock.sandbox.compiler.script_files import Folder, TrackedFiles
from penstock.sandbox.script import Sandbox, Script
from penstock.tools.policy import SCRIPT
from penstock.tools.scripts.bindings import Bindings
from penstock.tools.scripts.script import ScriptTool
from penstock.tools.spec import ANY_INPUT, ToolSpec


class ScriptToolLoader:
    """Creates the tools of a bundle."""

    def __init__(self, sandbox: Sandbox, defaults: Bindings) -> None:
        self._sandbox = sandbox
        self._defaults = defaults
        """The bindings of a manifest that sets none itself."""

    def load(self, bundle: Bundle, scripts: Mapping[str, Script]) -> list[ScriptTool]:
        """Return every tool of the bundle. A call of a broken one fails with its diagnostics."""
        return [
            *(self._tool(manifest, scripts[name]) for name, manifest in bundle.tools.items()),
            *(
                self._broken(
                    name, problems, [tool for tool in bundle.every_tool if tool.tool_id == name]
                )
                for name, problems in bundle.broken_tools.items()
            ),
        ]

    def _tool(self, manifest: ToolManifest, script: Script) -> ScriptTool:
        bindings = bindings_of(manifest, self._defaults)
        spec = spec_of(manifest, timeout_ms=self._defaults.timeout_ms)
        return ScriptTool(spec, script, bindings=bindings, sandbox=self._sandbox)

    def _broken(
        self, tool_id: str, problems: Sequence[Diagnostic], manifests: Sequence[ToolManifest]
    ) -> ScriptTool:
        spec = broken_spec(tool_id, manifests)
        return ScriptTool(spec, errors_of(problems), bindings=Bindings(), sandbox=self._sandbox)


def open_scanner(cache: Path | None) -> Scanner:
    """Return a scanner of scripts. Its results are kept in the cache folder, if there is one."""
    clock = SystemClock()
    return Scanner(TypeScript(clock, cache), Lexer(clock, cache), cache)


def load_tools(
    bundle: Bundle, root: Path, loader: ScriptToolLoader, cache: Path | None
) -> tuple[Bundle, list[ScriptTool]]:
    """Return the bundle with the findings in its scripts, and all of its tools."""
    bundle, scripts = load_scripts(bundle, root, open_scanner(cache))
    return bundle, loader.load(bundle, scripts)


def load_prompt_script(
    prompts: Prompts, resolver: PromptResolver, root: Path, cache: Path | None
) -> tuple[Script | None, Sequence[Diagnostic], set[str]]:
    """Return the script that resolves a prompt, its diagnostics, and its files."""
    folder = prompts.folder
    reference, files = tracked(
        ScriptReference(
            files=Folder(root / folder),
            folder="" if folder == "." else folder,
            entry=resolver.script_file,
            entrypoint=resolver.entrypoint,
        )
    )
    loaded = load(reference, open_scanner(cache))
    return loaded.script, (*loaded.problems, *loaded.warnings), files()


def load_scripts(bundle: Bundle, root: Path, scanner: Scanner) -> tuple[Bundle, dict[str, Script]]:
    """Read and check the modules of every tool; none of their code runs.

    Returns the bundle with the diagnostics, and the scripts of the tools that have no errors.
    """
    scripts: dict[str, Script] = {}
    findings: dict[str, Sequence[Diagnostic]] = {}
    reached = {*bundle.reached}
    for tool_id, manifest in bundle.tools.items():
        reference, files = tracked(_reference(manifest, root))
        loaded = load(reference, scanner)
        # Also files that do not exist: when one is created, the bundle must be read again.
        reached.update(files())
        if loaded.script is not None:
            execution = manifest.execution
            file = posixpath.join(manifest.folder, execution.script_file or "").removeprefix("./")
            scripts[tool_id] = replace(
                loaded.script,
                engine=execution.engine,
                file=file if execution.script_file else manifest.file,
            )
        if diagnostics := (*loaded.problems, *loaded.warnings):
            findings[tool_id] = diagnostics
    return replace(bundle.with_findings(findings), reached=frozenset(reached)), scripts


def tracked(reference: ScriptReference) -> tuple[ScriptReference, Callable[[], set[str]]]:
    """Return a reference that tracks its reads, and a function that returns the files read.

    The files are relative to the project. The entry is among them even if it was never read.
    """
    files, entry = TrackedFiles(reference.files), reference.entry

    def names() -> set[str]:
        first = [entry] if isinstance(entry, str) else []
        return {
            posixpath.normpath(f"{reference.folder}/{name}").lstrip("/")
            for name in (*files.asked, *first)
        }

    return replace(reference, files=files), names


def spec_of(manifest: ToolManifest, *, timeout_ms: int = 60_000) -> ToolSpec:
    """Return the specification of a manifest tool. `timeout_ms` is the default of the project."""
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
        revert=manifest.revert or "",
        kind=SCRIPT,
    )


def bindings_of(manifest: ToolManifest, defaults: Bindings) -> Bindings:
    """Return the bindings of a manifest."""
    limits, own = manifest.limits, manifest.egress
    return replace(
        defaults,
        vault=manifest.vault,
        state=manifest.state,
        # An empty list in a manifest denies all hosts; only an absent one means the default.
        egress=defaults.egress if own is None else read_patterns(own),
        memory_mb=limits.memory_mb,
        log_bytes=limits.log_bytes,
        nested_calls=limits.nested_calls,
    )


def broken_spec(tool_id: str, manifests: Sequence[ToolManifest] = ()) -> ToolSpec:
    """Return the specification of a broken tool.

    Its permissions are those of all manifests with this id, as far as they can be read.
    """
    needed = (manifest.requires_permissions for manifest in manifests)
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


def _reference(manifest: ToolManifest, root: Path) -> ScriptReference:
    execution, folder = manifest.execution, manifest.folder
    entry: str | InlineScript = execution.script_file or ""
    if execution.script is not None:
        start = execution.script_at
        entry = InlineScript(
            text=execution.script,
            file=manifest.file,
            line=start.line,
            column=start.column,
            is_verbatim=execution.is_verbatim,
        )
    return ScriptReference(
        files=Folder(root / folder),
        folder="" if folder == "." else folder,
        entry=entry,
        entrypoint=execution.entrypoint,
    )

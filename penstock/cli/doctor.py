"""Reports what is installed, what is unreachable, and what is misconfigured.

Every check returns findings instead of raising, so that one broken part does not hide the others: a
database that cannot be opened, a corrupt log and an unreachable model appear in one report. The
checks change nothing, except that `--rebuild` writes the derived lists again from the logs.
"""

import asyncio
import platform
import shutil
import socket
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.text import Text

from penstock.app.script_sandbox import missing_engine
from penstock.cli.operations.findings import Finding, FindingLevel, upkeep_findings
from penstock.cli.options import ProjectFolder
from penstock.cli.project import ReadProject, find
from penstock.cli.terminal.output import AsJson, clean, print_json
from penstock.core.clock import SystemClock
from penstock.core.diagnostics import Severity
from penstock.core.errors import ConfigError, PenstockError, StoreCorrupt
from penstock.core.limits import MIB
from penstock.core.task import TaskStatus, names_of
from penstock.core.text import count
from penstock.store.blobs import Blobs, open_blobs
from penstock.store.database import Database, open_database
from penstock.store.logs.quarantine import QuarantinedLog
from penstock.store.logs.sql_log import SqlLog
from penstock.store.projections import Page, TasksOf
from penstock.store.repair import (
    Check,
    check,
    damaged_logs,
    gaps,
    mismatched_rows,
    probe,
    read_back,
    rebuild,
    space_problem,
)
from penstock.store.rows import REBUILD
from penstock.store.sql_projections import SqlProjections

Rebuild = Annotated[
    bool,
    typer.Option(
        "--rebuild", help="Rebuild the lists of tasks, conversations and questions from the logs."
    ),
]
Fix = Annotated[
    bool,
    typer.Option(
        "--fix",
        help="Mend what is safe beside a server: --rebuild, end leases in the future that are not"
        " renewed, delete blobs that no row names.",
    ),
]
EXTRAS = {
    "deno": ("deno",),
    "speed": ("uvloop", "httptools"),
    "postgres": ("psycopg",),
    "s3": ("obstore",),
    "sheets": ("openpyxl",),
    "docs": ("pypdf",),
    "images": ("pillow",),
    "google": ("pydantic_ai_slim", "google-genai"),
    "openai": ("pydantic_ai_slim", "openai"),
}
"""The distributions that each extra of penstock installs."""
_CONNECT_SECONDS = 2.0
MAX_LOGS = 200
"""Limit of the unfinished logs that are read completely: reading is linear in their length."""


_STYLES = {
    FindingLevel.FINE: ("✓", "green"),
    FindingLevel.NOTE: ("·", "yellow"),
    FindingLevel.WRONG: ("✗", "bold red"),
}


def doctor(
    *,
    rebuilt: Rebuild = False,
    fix: Fix = False,
    project: ProjectFolder = None,
    as_json: AsJson = False,
) -> None:
    """Report what is installed, unreachable or misconfigured. Exit code 1 if anything is wrong."""
    findings = [*_installed()]
    try:
        read = find(project)
    except ConfigError as error:
        findings.append(Finding(FindingLevel.WRONG, "project", str(error)))
    else:
        findings += [*_project(read), *_models(read), *_scripts(read), *_disk(read)]
        findings += asyncio.run(_database(read, rebuilt=rebuilt or fix, fixes=fix))
    _print(findings, as_json=as_json)
    raise typer.Exit(int(any(each.mark is FindingLevel.WRONG for each in findings)))


def _print(findings: Sequence[Finding], *, as_json: bool) -> None:
    if as_json:
        rows = [{"mark": f.mark.value, "about": f.about, "said": f.text} for f in findings]
        print_json(
            {"findings": rows, "ok": all(f.mark is not FindingLevel.WRONG for f in findings)}
        )
        return
    console = Console(highlight=False)
    for finding in findings:
        sign, style = _STYLES[finding.mark]
        text = clean(f"{sign} {finding.about}: {finding.text}")
        console.print(Text(text, style=style), soft_wrap=True)


def _installed() -> Iterator[Finding]:
    text = f"{version('penstock')} on Python {platform.python_version()}"
    yield Finding(FindingLevel.FINE, "penstock", text)
    for extra, packages in EXTRAS.items():
        missing = [name for name in packages if not _has(name)]
        if missing:
            text = f"not installed, {', '.join(missing)} missing: pip install 'penstock[{extra}]'"
            yield Finding(FindingLevel.NOTE, f"extra {extra}", text)
        else:
            yield Finding(FindingLevel.FINE, f"extra {extra}", "installed")


def _has(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


def _project(read: ReadProject) -> Iterator[Finding]:
    project = read.project
    agents = ", ".join(agent.name for agent in project.agents) or "the built-in assistant"
    text = f"{project.root}: {agents}; {count(len(project.tools), 'tool')} of its own"
    yield Finding(FindingLevel.FINE, "project", text)
    if silent := [each.spec.tool_id for each in project.tools if each.spec.has_default_effect]:
        text = (
            f"{', '.join(silent)}: write (default). A crash may interrupt its calls, and they are "
            'not repeated; write @tool(effect="read") if it changes nothing'
        )
        yield Finding(FindingLevel.FINE, "tools", text)
    for diagnostic in project.diagnostics:
        mark = FindingLevel.WRONG if diagnostic.severity is Severity.ERROR else FindingLevel.NOTE
        yield Finding(mark, "file", str(diagnostic))


def _models(read: ReadProject) -> Iterator[Finding]:
    settings = read.settings
    models = settings.find_models()
    names = {settings.models.default, *settings.models.entries}
    names |= {agent.model for agent in read.project.agents if isinstance(agent.model, str)}
    for name in sorted(names):
        is_default = " (the default)" if name == settings.models.default else ""
        try:
            card = models.get(name).card
        except ConfigError as error:
            yield Finding(FindingLevel.WRONG, f"model {name}", str(error))
        else:
            text = f"{card.provider} {card.name}{is_default}"
            entry = settings.models.entries.get(name)
            silent = _unreachable(entry.base_url) if entry and entry.base_url else ""
            mark = FindingLevel.WRONG if silent else FindingLevel.FINE
            yield Finding(mark, f"model {name}", text + silent)


def _unreachable(base_url: str) -> str:
    """Return why no server accepts connections at an address; empty if one does."""
    parts = urlsplit(base_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), _CONNECT_SECONDS).close()
    except OSError as error:
        return f"; cannot connect to {base_url}: {error.strerror or error}"
    return ""


def _scripts(read: ReadProject) -> Iterator[Finding]:
    """Report the engines of scripts and how the operating system confines them."""
    chosen, sandbox = read.settings.sandbox, read.project.sandbox
    for engine in chosen.allow:
        missing = missing_engine(engine)
        is_default = engine == chosen.engine
        mark = FindingLevel.WRONG if is_default else FindingLevel.NOTE
        text = missing or ("ready (the default)" if is_default else "ready")
        yield Finding(mark if missing else FindingLevel.FINE, f"engine {engine}", text)
    if not chosen.hardened or sandbox is None:
        text = "the operating system does not confine scripts: [sandbox] hardened is false"
        yield Finding(FindingLevel.NOTE, "hardened", text)
        return
    yield from confining(
        sandbox.layers, lacks=FindingLevel.NOTE if chosen.hardened == "auto" else FindingLevel.WRONG
    )


def confining(layers: Mapping[str, str], *, lacks: FindingLevel) -> Iterator[Finding]:
    """Report for each layer of confinement whether this machine supports it, or why not."""
    for layer, why in layers.items():
        text = f"not available on this machine: {why}" if why else "confines scripts"
        yield Finding(lacks if why else FindingLevel.FINE, f"hardened {layer}", text)


def _disk(read: ReadProject) -> Iterator[Finding]:
    place = read.settings.data_path
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place) as probe:
            probe.write(b"x" * 4096)
    except OSError as error:
        text = f"cannot write to {place}: {error.strerror}"
        yield Finding(FindingLevel.WRONG, "disk", text)
        return
    if little := space_problem([place], read.settings.limits.free_bytes):
        yield Finding(FindingLevel.WRONG, "disk", f"{place}: {little}")
    else:
        free = shutil.disk_usage(place).free // MIB
        yield Finding(FindingLevel.FINE, "disk", f"{place} is writable, {free:,} MiB free")


async def _database(read: ReadProject, *, rebuilt: bool, fixes: bool) -> list[Finding]:
    place = read.settings.database_shown
    try:
        async with AsyncExitStack() as closing:
            return await _database_findings(read, closing, rebuilt=rebuilt, fixes=fixes)
    except PenstockError as error:
        return [Finding(FindingLevel.WRONG, "database", f"{place}: {error}")]


async def _database_findings(
    read: ReadProject, closing: AsyncExitStack, *, rebuilt: bool, fixes: bool
) -> list[Finding]:
    settings = read.settings
    place = settings.database_shown
    database = await open_database(
        settings.database, synchronous=settings.synchronous, limits=settings.limits
    )
    closing.push_async_callback(database.close)
    health = await check(database)
    if health.problems:
        return [Finding(FindingLevel.WRONG, "database", f"{place}: {'; '.join(health.problems)}")]
    sizes = f"{count(health.logs, 'log')}, {count(health.events, 'event')}"
    text = f"{place}: revision {health.revision}, {sizes}"
    blobs = open_blobs(settings.blob_place)
    findings = [Finding(FindingLevel.FINE, "database", text), *await _events(database, blobs)]
    findings += _ready(await probe(database, blobs))
    log = SqlLog(database, blobs, SystemClock())
    findings += await _tasks(log, SqlProjections(database, blobs))
    if rebuilt:
        made = await rebuild(database, log)
        findings.append(
            Finding(FindingLevel.FINE, "lists", f"rebuilt from {count(made.logs, 'log')}")
        )
        findings += [
            Finding(FindingLevel.WRONG, "lists", f"not rebuilt: {why}") for why in made.left
        ]
    findings += await _lists(database, rebuilt=rebuilt)
    return findings + await upkeep_findings(database, blobs, SystemClock(), fixes=fixes)


async def _lists(database: Database, *, rebuilt: bool) -> list[Finding]:
    """Report rows of lists that differ from their logs, and logs whose content is inconsistent."""
    advice = "" if rebuilt else f". {REBUILD}"
    mismatched = await mismatched_rows(database)
    unfit = [Finding(FindingLevel.WRONG, "lists", text + advice) for text in mismatched]
    erase = ". Restore the database from a backup, or: penstock erase --log LOG --yes"
    damaged = await damaged_logs(database)
    odd = [Finding(FindingLevel.WRONG, "logs", text + erase) for text in damaged]
    fine = [] if rebuilt else [Finding(FindingLevel.FINE, "lists", "all rows match their logs")]
    return [*(unfit or fine), *odd]


def _ready(checks: Sequence[Check]) -> list[Finding]:
    """Return the checks that a server reports at `/api/ready`."""
    failed = [Finding(FindingLevel.WRONG, each.name, each.why) for each in checks if each.why]
    names = ", ".join(each.name for each in checks)
    return failed or [Finding(FindingLevel.FINE, "ready", f"{names}: all work")]


async def _tasks(log: SqlLog, projections: SqlProjections) -> list[Finding]:
    """Report blocked tasks, unfinished tasks whose log is corrupt, and quarantined logs."""
    findings = [_suspect(each) for each in await log.suspects()]
    of = TasksOf(status=TaskStatus.BLOCKED)
    for task in (await projections.tasks(of=of, page=Page(limit=MAX_LOGS)))[0]:
        text = (
            f"{task.task_id} is blocked until a process has {names_of(task.blocked_on)}; "
            f"to cancel it: penstock tasks cancel {task.task_id}"
        )
        findings.append(Finding(FindingLevel.NOTE, "tasks", text))
    for pending in await log.pending(limit=MAX_LOGS):
        try:
            await log.read(pending.log_id)
        except StoreCorrupt as error:
            records, _ = await projections.tasks(log_id=pending.log_id, page=Page(limit=MAX_LOGS))
            waiting = [each.task_id for each in records if not each.status.is_final]
            text = f"{', '.join(waiting) or 'an unfinished task'} cannot continue: {error}"
            findings.append(Finding(FindingLevel.WRONG, "tasks", text))
    return findings or [
        Finding(FindingLevel.FINE, "tasks", "the logs of all unfinished tasks are readable")
    ]


def _suspect(suspect: QuarantinedLog) -> Finding:
    state = "is running under watch" if suspect.is_at_work else "waits for its turn to run"
    text = (
        f"{suspect.log_id} is quarantined: the process died {suspect.deaths} times in a row while "
        f"it ran, {count(suspect.alone, 'time')} without another suspect running; it {state}"
    )
    return Finding(FindingLevel.NOTE, "tasks", text)


async def _events(database: Database, blobs: Blobs) -> list[Finding]:
    read, broken = await read_back(database, blobs)
    missing = await gaps(database)
    advice = (
        " Restore the database from a backup, or delete these logs: penstock erase --log LOG --yes"
    )
    findings = []
    if broken:
        text = f"{', '.join(broken)}: unreadable, among the newest {read}."
        findings.append(Finding(FindingLevel.WRONG, "events", text + advice))
    if missing:
        findings.append(
            Finding(FindingLevel.WRONG, "events", f"missing: {'; '.join(missing)}.{advice}")
        )
    return findings or [Finding(FindingLevel.FINE, "events", f"the newest {read} are readable")]

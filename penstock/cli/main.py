"""The table of commands: name, summary, and the module that is loaded when the command runs.

Guarantees that `penstock --help` stays fast: it prints this table and loads no command, so no
database, server or provider is imported (150 ms is the limit). Only this file knows every command.
Also the one place where an error becomes an exit code and a line on stderr.

Relies on `late`, the only function that imports by name. An import of a command at the top of this
file would load it for every other command.

Proof: tests/cli/test_main.py, and `make bench` for the time.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, cast

import typer
from msgspec import Struct
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from penstock.cli.terminal.exit_codes import FAILED, FINE, WRONG_USAGE
from penstock.cli.terminal.output import clean_logs, note
from penstock.core.errors import PenstockError
from penstock.core.exhaustion import is_full
from penstock.core.late import late

NAME = "penstock"


class Command(Struct, frozen=True):
    """One row of the table."""

    name: str
    sentence: str
    load: Callable[[], Any]
    """Returns the command's function, or a mapping from sub-command names to functions.

    The function of the empty name runs if no sub-command is given.
    """
    default: str | None = None
    """The sub-command that takes arguments which name none; None refuses them."""


COMMANDS = (
    Command(
        "init", "Create a project that runs.", lambda: late("penstock.cli.authoring.init:init")
    ),
    Command(
        "new",
        "Create a tool or a skill that runs.",
        lambda: late("penstock.cli.authoring.new:COMMANDS"),
    ),
    Command(
        "serve", "Serve the project over HTTP.", lambda: late("penstock.cli.serve.serve:serve")
    ),
    Command("chat", "Chat with an agent in this terminal.", lambda: late("penstock.cli.chat:chat")),
    Command(
        "check",
        "Report all errors and warnings in the project's files.",
        lambda: late("penstock.cli.authoring.check:check"),
    ),
    Command(
        "types",
        "Write flo.d.ts, the types of scripts, for editors.",
        lambda: late("penstock.cli.tools.types:types"),
    ),
    Command(
        "run-tool",
        "Run one tool with mocked secrets, tools and servers.",
        lambda: late("penstock.cli.tools.run_tool:run_tool"),
    ),
    Command(
        "flow",
        "List, check, run or draw flows; list and end their runs.",
        lambda: late("penstock.cli.flow.group:COMMANDS"),
    ),
    Command(
        "call",
        "Call one tool directly, as the HTTP API does.",
        lambda: late("penstock.cli.tools.call:call"),
    ),
    Command(
        "debug", "Call one tool under a debugger.", lambda: late("penstock.cli.tools.debug:debug")
    ),
    Command(
        "tools",
        "List tools, show one, or show which callers may use it.",
        lambda: late("penstock.cli.tools.group:COMMANDS"),
    ),
    Command(
        "tasks",
        "List, show, follow, cancel or retry tasks.",
        lambda: late("penstock.cli.tasks:COMMANDS"),
        default="list",
    ),
    Command(
        "schedules",
        "List, show, run, pause or resume schedules; print due times.",
        lambda: late("penstock.cli.schedules.group:COMMANDS"),
    ),
    Command(
        "undo",
        "Take back what a task did.",
        lambda: late("penstock.cli.recorded.undo:undo"),
    ),
    Command(
        "answer", "List open questions, or answer one.", lambda: late("penstock.cli.answer:answer")
    ),
    Command(
        "doctor",
        "Report what is installed, unreachable or misconfigured.",
        lambda: late("penstock.cli.doctor:doctor"),
    ),
    Command(
        "models",
        "List models and their prices, or use newer prices.",
        lambda: late("penstock.cli.models:COMMANDS"),
    ),
    Command(
        "keys",
        "Create, list or revoke API keys.",
        lambda: late("penstock.cli.accounts.keys:COMMANDS"),
    ),
    Command(
        "vault",
        "Set, list, delete or re-encrypt secrets for tools.",
        lambda: late("penstock.cli.accounts.vault:COMMANDS"),
    ),
    Command(
        "erase",
        "Erase all data of a profile, or one conversation, call or run.",
        lambda: late("penstock.cli.accounts.erase:erase"),
    ),
    Command(
        "backup",
        "Copy the database and the blobs while they are in use.",
        lambda: late("penstock.cli.operations.backup:backup"),
    ),
    Command(
        "restore",
        "Put a backup in the place of the database and the blobs.",
        lambda: late("penstock.cli.operations.backup:restore"),
    ),
    Command(
        "archive",
        "Move old bodies of long logs into compressed blobs.",
        lambda: late("penstock.cli.operations.archive:archive"),
    ),
    Command(
        "webhooks",
        "List webhooks and their deliveries; send one again.",
        lambda: late("penstock.cli.operations.webhooks:COMMANDS"),
    ),
    Command(
        "move",
        "Move the database from SQLite to Postgres, or back.",
        lambda: late("penstock.cli.operations.move:move"),
    ),
    Command(
        "retain",
        "Delete what the rules of retention match.",
        lambda: late("penstock.cli.operations.retain:retain"),
    ),
    Command(
        "compact",
        "Give the space of deleted rows back to the disk.",
        lambda: late("penstock.cli.operations.retain:compact"),
    ),
    Command(
        "fork",
        "Continue a copy of a task from an event in its middle.",
        lambda: late("penstock.cli.recorded.fork:fork"),
    ),
    Command(
        "replay",
        "Run a task again in memory, and report the first difference.",
        lambda: late("penstock.cli.recorded.replay:replay"),
    ),
    Command(
        "eval",
        "Evaluate an agent with a file of cases, and compare models and runs.",
        lambda: late("penstock.cli.recorded.eval:COMMANDS"),
        default="run",
    ),
    Command("version", "Print the version.", lambda: late("penstock.cli.version:version")),
)

NEXT_STEPS = {"TOOL_NOT_FOUND": " Run `penstock tools list` to see all tools."}
"""By error code: a next step for people. The message itself also goes to models and programs."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return one of `exit_codes`.

    A PenstockError becomes one line on stderr and FAILED. Any other exception is a defect and
    keeps its traceback.
    """
    clean_logs()
    try:
        root()(args=arguments, prog_name=NAME)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else FAILED
    except PenstockError as error:
        note(f"Error: {error}{NEXT_STEPS.get(error.code, '')}")
        return FAILED
    except OSError as error:
        if not is_full(error):
            raise
        note(f"Error: cannot write: {error.strerror}")
        return FAILED
    except UnicodeEncodeError:
        # Python turns argument bytes that are not UTF-8 into lone surrogates, and the first print
        # of one fails. Any other text that cannot be encoded is a defect and is raised.
        undecodable = [each for each in arguments or sys.argv[1:] if not _is_text(each)]
        if not undecodable:
            raise
        note(f"Error: an argument must be UTF-8 text, found {undecodable[0]!r}")
        return WRONG_USAGE
    return FINE


@cache
def root() -> TyperGroup:
    """Return the root command. Its sub-commands are not loaded yet."""
    app = typer.Typer(
        cls=LateGroup,
        help="Agents whose tool calls are durable.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(_root)
    group: Any = get_command(app)
    for row in COMMANDS:
        group.add_command(TyperCommand(row.name, help=row.sentence))
    return cast("TyperGroup", group)


class LateGroup(TyperGroup):
    """A group that lists its commands from the table and loads only the chosen one."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Load and return the chosen command."""
        name, _, rest = super().resolve_command(ctx, args)
        row = next((each for each in COMMANDS if each.name == name), None)
        return name, row and _loaded(row), rest


def _is_text(argument: str) -> bool:
    """Whether an argument has no lone surrogates, which represent bytes that are not UTF-8."""
    return argument == argument.encode(errors="replace").decode()


@cache
def _loaded(row: Command) -> Any:
    part = row.load()
    is_group = isinstance(part, Mapping)
    has_default = is_group and "" in part
    app = typer.Typer(
        cls=_group_with(row.default),
        help=row.sentence,
        add_completion=False,
        no_args_is_help=not has_default,
        rich_markup_mode=None,
    )
    if is_group:
        app.callback(invoke_without_command=has_default)(part.get("", _nothing))
    functions = part if is_group else {row.name: part}
    for name, function in functions.items():
        if not name:
            continue
        full_name = f"{row.name} {name}" if is_group else name
        app.command(name, epilog=examples_of(full_name))(function)
    return get_command(app)


def _group_with(default: str | None) -> type[TyperGroup]:
    """Return a group that takes `eval FILE` as `eval run FILE`, `tasks --watch` with `list`."""

    class DefaultGroup(TyperGroup):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            """Add the default sub-command where none is named."""
            known = {*self.commands, *self.get_help_option_names(ctx)}
            if default and args and args[0] not in known:
                # A mistyped name stays one, unless the default itself takes names.
                takes = "argument" in [
                    each.param_type_name for each in self.commands[default].params
                ]
                if takes or args[0].startswith("-"):
                    args = [default, *args]
            return super().parse_args(ctx, args)

    return DefaultGroup


def _print_version(is_requested: bool) -> None:  # noqa: FBT001  as typer calls it
    if is_requested:
        late("penstock.cli.version:version")()
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version."),
]


def _root(*, version: Version = False) -> None:
    """Agents whose tool calls are durable."""


def _nothing() -> None:
    """Declare that a group has no options of its own."""


EXAMPLES: Mapping[str, Sequence[str]] = {
    "init": ("penstock init trip",),
    "new tool": ("penstock new tool weather",),
    "serve": ("penstock serve --port 8080 --watch",),
    "chat": (
        "penstock chat",
        'penstock chat "What is the weather in Lisbon?" --agent scout',
        "git diff | penstock chat - --json",
    ),
    "check": ("penstock check --strict", "penstock check --github"),
    "types": ("penstock types --check",),
    "run-tool": (
        'penstock run-tool weather --input \'{"city": "Lisbon"}\' --mocks mocks.json',
        "penstock run-tool deploy --answer approve",
    ),
    "flow check": ("penstock flow check dom:apply --dry-run",),
    "flow run": (
        'penstock flow run guide "Three days in Lisbon"',
        "penstock flow run morning --input first=Tokyo --auto --json",
    ),
    "flow graph": ("penstock flow graph guide --svg --output guide.svg",),
    "flow answer": ("penstock flow answer q_1 Short --note 'one page'",),
    "call": (
        "penstock call hello name=Ann",
        "penstock call hello --input @input.json --trace",
    ),
    "debug": ('penstock debug weather --input \'{"city": "Lisbon"}\'',),
    "tools grants": ("penstock tools grants weather --skill trips --origin model",),
    "tasks list": ("penstock tasks list --status running --status blocked --watch",),
    "tasks show": ("penstock tasks show task_1 --tree",),
    "tasks retry": ("penstock tasks retry task_1", "penstock tasks retry task_1 --resume"),
    "tasks events": ("penstock tasks events task_1 --follow",),
    "schedules run": ("penstock schedules run sched_1",),
    "schedules next": ("penstock schedules next --count 20", "penstock schedules next sched_1"),
    "undo": (
        "penstock undo task_1 --dry-run",
        "penstock undo task_1 --call 12",
    ),
    "answer": (
        "penstock answer",
        "penstock answer q_1 approve",
        "penstock answer q_1 reject --note 'not on a Friday'",
    ),
    "models update": ("penstock models update prices.json --user",),
    "keys create": ("penstock keys create ci --permission read --permission chat --days 90",),
    "vault set": ('printf %s "$TOKEN" | penstock vault set profile weather_token',),
    "backup": ("penstock backup backups/monday",),
    "restore": ("penstock restore backups/monday --project trip",),
    "move": ("penstock move --to $DATABASE_URL",),
    "retain": ("penstock retain --dry-run",),
    "fork": ("penstock fork task_1 --at 12", "penstock fork task_1 --edit"),
    "archive": ("penstock archive --days 90", "penstock archive --days 90 --dry-run"),
    "replay": (
        "penstock replay task_1",
        "penstock replay task_1 --system-prompt brief.md --live",
        "penstock replay task_1 --save tasks/refund.json",
        "penstock replay --check tasks/*.json",
    ),
    "eval run": (
        "penstock eval run evals/triage.yaml --repeat 3",
        "penstock eval run evals/triage.yaml --model fast --model strong",
        "penstock eval run evals/triage.yaml --only-failed --min-pass 0.9 --junit report.xml",
    ),
    "eval add": ("penstock eval add task_1 --name refund",),
}
"""By command. A test parses each line with its command."""


def examples_of(command: str) -> str | None:
    """Return the examples of a command as help text; None if it has none."""
    lines = EXAMPLES.get(command)
    return (
        None if lines is None else "\n".join(["\b", "Examples:", *(f"  {each}" for each in lines)])
    )

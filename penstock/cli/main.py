"""The table of commands: a name, a sentence, a file that is loaded when the command is chosen."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, cast

import typer
from msgspec import Struct
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from penstock.cli.arguments.examples import examples_of
from penstock.cli.exit_codes import FAILED, FINE, WRONG_USAGE
from penstock.cli.terminal.output import clean_logs, note
from penstock.core.errors import PenstockError
from penstock.core.late import late

NAME = "penstock"


class Command(Struct, frozen=True):
    """One row of the table."""

    name: str
    sentence: str
    load: Callable[[], Any]
    """Returns the function that does it; or several, by the name of the sub-command."""


COMMANDS = (
    Command("init", "Make a new project that works.", lambda: late("penstock.cli.init:init")),
    Command(
        "new", "Begin a tool or a skill that works.", lambda: late("penstock.cli.new:COMMANDS")
    ),
    Command(
        "serve", "Serve the project over HTTP.", lambda: late("penstock.cli.listening.serve:serve")
    ),
    Command("chat", "Talk with an agent in this terminal.", lambda: late("penstock.cli.chat:chat")),
    Command(
        "check",
        "Say everything that is wrong with the project's files.",
        lambda: late("penstock.cli.check:check"),
    ),
    Command(
        "types",
        "Write flo.d.ts: what scripts may rely on, for editors.",
        lambda: late("penstock.cli.tools.types:types"),
    ),
    Command(
        "run-tool",
        "Try one tool out, in a world of mocks.",
        lambda: late("penstock.cli.tools.run_tool:run_tool"),
    ),
    Command(
        "flow",
        "List, check, run or draw flows; look at their runs.",
        lambda: late("penstock.cli.flow.group:COMMANDS"),
    ),
    Command(
        "call", "Call one tool, as a program would.", lambda: late("penstock.cli.tools.call:call")
    ),
    Command(
        "debug", "Call one tool under a debugger.", lambda: late("penstock.cli.tools.debug:debug")
    ),
    Command(
        "tools",
        "List tools, show one, or say who may call it.",
        lambda: late("penstock.cli.tools.group:COMMANDS"),
    ),
    Command(
        "tasks",
        "List, show, follow or cancel tasks.",
        lambda: late("penstock.cli.tasks:COMMANDS"),
    ),
    Command(
        "answer", "List open questions, or answer one.", lambda: late("penstock.cli.answer:answer")
    ),
    Command(
        "doctor",
        "Say what is installed, reachable, misconfigured.",
        lambda: late("penstock.cli.doctor:doctor"),
    ),
    Command("keys", "Make, list or revoke API keys.", lambda: late("penstock.cli.keys:COMMANDS")),
    Command(
        "vault",
        "Set, list, delete or re-encrypt the secrets of tools.",
        lambda: late("penstock.cli.vault:COMMANDS"),
    ),
    Command(
        "erase",
        "Erase a profile and all that is kept of it.",
        lambda: late("penstock.cli.erase:erase"),
    ),
    Command("version", "Print the version.", lambda: late("penstock.cli.version:version")),
)

NEXT_STEPS = {"TOOL_NOT_FOUND": " `penstock tools list` lists those there are."}
"""What to do after an error whose message is for models and programs, too."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; return one of `exit_codes`."""
    clean_logs()
    try:
        root()(args=arguments, prog_name=NAME)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else FAILED
    except PenstockError as error:
        note(f"Error: {error}{NEXT_STEPS.get(error.code, '')}")
        return FAILED
    except UnicodeEncodeError:
        odd = [each for each in arguments or sys.argv[1:] if not _is_text(each)]
        if not odd:
            raise
        note(f"Error: an argument must be text in UTF-8, found {odd[0]!r}")
        return WRONG_USAGE
    return FINE


@cache
def root() -> TyperGroup:
    """Return the command line as one command, its parts not loaded yet."""
    app = typer.Typer(
        cls=LateGroup,
        help="Agents whose every call is durable.",
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
    """Knows names and sentences of its commands, and loads the one that is chosen."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the chosen command, loaded."""
        name, _, rest = super().resolve_command(ctx, args)
        row = next((each for each in COMMANDS if each.name == name), None)
        return name, row and _loaded(row), rest


def _is_text(argument: str) -> bool:
    """Whether an argument has no bytes that are no UTF-8, for which it holds half characters."""
    return argument == argument.encode(errors="replace").decode()


@cache
def _loaded(row: Command) -> Any:
    part = row.load()
    app = typer.Typer(
        help=row.sentence,
        add_completion=False,
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    is_group = isinstance(part, Mapping)
    if is_group:
        app.callback()(_nothing)
    for name, function in (part if is_group else {row.name: part}).items():
        whole = f"{row.name} {name}" if is_group else name
        app.command(name, epilog=examples_of(whole))(function)
    return get_command(app)


def _say_version(is_asked: bool) -> None:  # noqa: FBT001  as typer calls it
    if is_asked:
        late("penstock.cli.version:version")()
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", is_eager=True, callback=_say_version, help="Print the version."),
]


def _root(*, version: Version = False) -> None:
    """Agents whose every call is durable."""


def _nothing() -> None:
    """Take no options of its own."""

"""Chats with an agent in a terminal. No server is needed."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Struct
from rich.console import Console

from penstock.agents.attachments.content import Attachment
from penstock.app.runtime import Runtime
from penstock.app.runtime_parts import EngineParts, Storage
from penstock.chat.calls.direct_calls import COMMANDS
from penstock.chat.calls.direct_tools import DirectTools
from penstock.cli.completion import Words, agents, command_completer, sessions
from penstock.cli.interaction.asking import ask_here
from penstock.cli.interaction.conversation import Conversation, Frame
from penstock.cli.interaction.loop_thread import Background
from penstock.cli.options import ProjectFolder, SkillNames, taking
from penstock.cli.project import opened, selected
from penstock.cli.terminal.exit_codes import FINE, INTERRUPTED
from penstock.cli.terminal.keyboard import IsOver, read_line
from penstock.cli.terminal.output import AsJson, note, print_json, say
from penstock.cli.terminal.render import Screen
from penstock.core.errors import NotFound, PenstockError
from penstock.core.ids import ASSISTANT, LogId, SessionId
from penstock.core.profile import LOCAL
from penstock.flows.project.flows import ProjectFlows
from penstock.store.projections import Page

LEAVING = ("/exit", "/quit")
HELP = (
    "/call lists and calls tools, /new starts a new conversation, /web opens it in a browser, "
    "/model NAME switches the model, /back undoes a hand-off to another agent, /exit or Ctrl-D "
    "quits, Tab completes"
)


class Options(Struct, frozen=True, kw_only=True):
    """Options of `penstock chat`."""

    message: Annotated[
        str | None,
        typer.Argument(
            metavar="MESSAGE",
            help="The message to send; - reads stdin. Without it you chat turn by turn.",
        ),
    ] = None
    agent: Annotated[
        str,
        typer.Option(
            "--agent", "-a", metavar="NAME", help="The agent to chat with.", autocompletion=agents
        ),
    ] = ASSISTANT
    session: Annotated[
        str | None,
        typer.Option(
            "--session",
            "-s",
            metavar="ID",
            help="Continue this conversation (its id).",
            autocompletion=sessions,
        ),
    ] = None
    go_on: Annotated[
        bool, typer.Option("--continue", "-c", help="Continue the newest conversation.")
    ] = False
    attach: Annotated[
        list[Path] | None,
        typer.Option(
            "--attach",
            metavar="FILE",
            help="Send this file with the first message; repeat it for more.",
            exists=True,
            dir_okay=False,
        ),
    ] = None
    skills: SkillNames = None
    project: ProjectFolder = None
    as_json: AsJson = False


@taking(Options)
def chat(options: Options) -> None:
    """Chat with an agent. With a MESSAGE, send it, print the answer, and exit.

    `--skill` selects skills for every message. Ctrl-C cancels the current task. A second Ctrl-C
    exits at once; the task is then cancelled as soon as you continue the conversation, follow the
    task, or start a server.
    """
    message, context = options.message, opened(options.project)
    with Background() as background:
        runtime = background.enter(context)
        try:
            talk = _ChatRun(runtime, background, as_json=options.as_json)
            talk.begin(options)
            code = talk.alone(message) if _is_single(message) else talk.together()
        except KeyboardInterrupt:
            code = INTERRUPTED
        finally:
            background.leave(context)
    raise typer.Exit(code)


class _ChatRun:
    """One run of the command."""

    def __init__(self, runtime: Runtime, background: Background, *, as_json: bool) -> None:
        self._runtime = runtime
        self._background = background
        self._screen = Screen(Console(highlight=False))
        self._is_asking = sys.stdin.isatty() and not as_json
        self._conversation = Conversation(
            runtime,
            background,
            show=print_json if as_json else self._screen.show,
            ask=self._ask if self._is_asking else None,
            tell=self._tell,
        )

    def begin(self, options: Options) -> None:
        """Choose the agent, the session and the skills."""
        agent, conversation = options.agent, self._conversation
        self._runtime.parts.chat.agents.get(agent)
        conversation.agent = agent
        conversation.files = tuple(map(Attachment.open, options.attach or ()))
        conversation.skills = selected(self._runtime, agent, options.skills or [])
        if options.session is not None:
            conversation.session_id = SessionId(options.session)
        elif options.go_on:
            conversation.session_id = self._background.do(
                _newest(self._runtime.parts.storage, agent)
            )
            self._background.do(_wake(self._runtime.parts.engine, conversation.session_id))

    def alone(self, message: str | None) -> int:
        """Send one message."""
        content = sys.stdin.read() if message in {None, "-"} else message
        return self._conversation.say(content or "")

    def together(self) -> int:
        """Read and send messages until the person leaves."""
        name = self._conversation.agent
        complete = command_completer(self._words())
        note(f"Chatting with {name}. {HELP}.")
        while True:
            try:
                line = read_line(f"{name}> ", complete=complete).strip()
            except EOFError:
                say()
                return FINE
            if line in LEAVING:
                return FINE
            if line:
                self._take(line)

    def _words(self) -> Words:
        """Return the slash commands with the words that Tab offers after each."""
        parts = self._runtime.parts
        tools = DirectTools(parts.tools.invoker)
        library = parts.flows.work.library
        flows = library.files().files if isinstance(library, ProjectFlows) else ()
        return {
            **{f"/{each}": tuple for each in flows},
            **{f"/{each}": tuple for each in COMMANDS},
            **dict.fromkeys(("/help", *LEAVING), tuple),
            "/back": tuple,
            "/call": lambda: (each.spec.tool_id for each in tools.list_for(self._runtime.local)),
            "/model": lambda: (each.model_id for each in parts.chat.models.cards()),
        }

    def _take(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        if word == "/model":
            self._conversation.model = rest.strip() or None
        elif word == "/help":
            note(HELP)
        else:
            try:
                if word == "/back":
                    self._hand_back()
                else:
                    self._conversation.say(line)
            except PenstockError as error:
                self._screen.line(f"✗ {error}", "red")

    def _hand_back(self) -> None:
        if (session := self._conversation.session_id) is None:
            note("Nothing was handed off: this conversation has no message yet.")
            return
        agent = self._background.do(self._runtime.requests.hand_back(session))
        note(f"{agent} answers the next message.")

    def _tell(self, text: str) -> None:
        self._screen.end_line()
        note(text)

    def _ask(self, question: Frame, is_over: IsOver) -> dict[str, Any] | None:
        """Return the person's answer; None if the person answers later."""
        self._screen.end_line()
        return ask_here(question, is_over)


def _is_single(message: str | None) -> bool:
    return message is not None or not sys.stdin.isatty()


async def _wake(engine: EngineParts, session_id: SessionId) -> None:
    """Resume tasks of a conversation that an earlier process left unfinished."""
    engine.launcher.wake(LogId(session_id))


async def _newest(storage: Storage, agent: str) -> SessionId:
    page = Page(limit=1)
    records, _ = await storage.projections.sessions(profile_id=LOCAL, agent=agent, page=page)
    if not records:
        raise NotFound(f"there is no session with {agent!r} yet; omit --continue to start one")
    return records[0].session_id

"""`bash`: a shell command in the project's folder. It is off unless the operator allows it.

The sandbox of `tools/shell.py` protects the machine and the project. What is here stops mistakes
early and explains them: `bash.deny` refuses commands by pattern, and a target of `>` or `tee` that
the agent may not write is refused before the command starts. For both, the command line is split as
a shell reads it, as far as quotes, substitutions and redirections go; what a variable or an `eval`
hides is not seen. Proof: tests/builtins/test_bash.py, tests/promises/test_ways_around.py.
"""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from penstock.core.call import Effect
from penstock.core.call_errors import NotPermitted, ToolTimeout
from penstock.core.envelope import Json
from penstock.core.json_values.schema import Problem
from penstock.resources.project.files import ProjectFiles
from penstock.tools.failures import invalid
from penstock.tools.invocation import Invocation
from penstock.tools.python.builtin import builtin, whole
from penstock.tools.shell import ShellRun, ShellSettings, check_on, run_in_project

SECONDS, MAX_SECONDS = 120, 600
MAX_BYTES = 50 * 1024
_MARGIN_MS = 30_000
"""Part of the tool's timeout: to end the command and remove its sandbox."""
_SIGNALLED = 128
_LAST_WORDS = 600
_COMMAND: Json = {"type": "string", "minLength": 1, "maxLength": 100_000}
# No nested possessive quantifiers: before Python 3.11.5 they match too much (gh-106052), and
# `bash.deny` then matches nothing. It cannot backtrack: each text has one way to match.
_LEADING = re.compile(r"[A-Za-z_]\w*\+?=(?:'[^']*'|\"(?:[^\"\\]|\\.)*\"|[^\s'\"])*\s+", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_WRITES = re.compile(r"&>>|&>|>>|>\||>&|<>|>")
_DIGITS = re.compile(r"[0-9]+|-")
_DEVICES = re.compile(r"/dev/(?:null|stdout|stderr|tty|fd/[0-9]+)")
_ENDS = frozenset("|;&\n)")


@builtin(
    "Run a shell command (sh -c) in the project's folder. Each stream of its output is kept up to "
    "50 KB, the first and the last half. An exit code other than 0 is not a failure of the call. "
    "Files are changed when the command has ended; `refused` lists changes that were dropped.",
    {"command": _COMMAND, "timeout?": whole(1, MAX_SECONDS, "Seconds; 120 if it is left out")},
    effect=Effect.WRITE,
    is_transactional=False,
)
async def bash(input: Json, invocation: Invocation) -> Any:
    """Return the exit code and output of a command."""
    settings, files = invocation.project_folder.shell, invocation.project
    _check_bounds(input, files, settings)
    command = input["command"]
    seconds = input.get("timeout", SECONDS)
    task = invocation.ledger.task.task_id
    run = ShellRun(text=command, seconds=seconds, max_bytes=MAX_BYTES, task=task)
    end = await run_in_project(run, files, settings, invocation.edition.threads)
    if end.is_late:
        raise ToolTimeout(
            f"the command was stopped after {seconds} s",
            suggestion="give a longer timeout, or do less at once",
            details={
                "stdout": end.stdout[-_LAST_WORDS:],
                "stderr": end.stderr[-_LAST_WORDS:],
                **({"refused": [*end.refusals]} if end.refusals else {}),
            },
        )
    return {
        "exitCode": end.code if end.code >= 0 else _SIGNALLED - end.code,
        "stdout": end.stdout,
        "stderr": end.stderr,
        "truncated": end.is_truncated,
        **({"refused": [*end.refusals]} if end.refusals else {}),
    }


def _check_bounds(input: Json, files: ProjectFiles, settings: ShellSettings) -> None:
    check_on(settings)
    command, access = input["command"], files.access
    _check_text(command)
    commands = parts(command)
    check_denied(access.deny, command, commands)
    if access.limits_writes:
        for target in (target for part in commands for target in part.targets):
            files.seems_writable(target)


def _check_text(command: str) -> None:
    if "\0" in command or any("\ud800" <= char <= "\udfff" for char in command):
        problem = Problem("/command", "is text that a shell can read, without zero bytes")
        raise invalid("bash", [problem])


TOOLS = (
    replace(
        bash,
        spec=replace(
            bash.spec,
            is_offered=True,
            exclusive="bash",
            check_bounds=_check_bounds,
            asks_in_chats=True,
            requires_permissions=frozenset({"project.bash"}),
            timeout_ms=MAX_SECONDS * 1000 + _MARGIN_MS,
        ),
    ),
)


class CommandPart(Struct, kw_only=True):
    """One command of a line."""

    raw: str = ""
    words: list[str] = field(default_factory=list)
    """The words, without quotes."""
    writes: list[str] = field(default_factory=list)
    """The targets of `>` and `>>`."""

    @property
    def text(self) -> str:
        """The command with single blanks and without leading assignments."""
        text = self.raw.strip()
        at = 0
        while match := _LEADING.match(text, at):
            at = match.end()
        return " ".join(text[at:].split())

    @property
    def targets(self) -> list[str]:
        """The files that it writes to with `>`, `>>` and `tee`, without devices."""
        words = self.words
        while words and _ASSIGNMENT.match(words[0]):
            words = words[1:]
        is_tee = bool(words) and words[0].rpartition("/")[2] == "tee"
        named = [word for word in words[1:] if not word.startswith("-")] if is_tee else []
        return [each for each in (*self.writes, *named) if not _DEVICES.fullmatch(each)]


def parts(command: str) -> list[CommandPart]:
    """Return the commands of a line, also those in substitutions."""
    return [part for part in _Cutting(command).parts if part.raw.strip()]


def check_denied(patterns: Sequence[str], command: str, parts: Sequence[CommandPart]) -> None:
    """Raise NotPermitted if a pattern matches the command or a part of it."""
    whole = " ".join(command.split())
    texts = [part.text for part in parts]
    for pattern in patterns:
        matched = _found(" ".join(pattern.split()), whole, texts)
        if matched is not None:
            raise NotPermitted(
                f'command refused by bash.deny pattern "{pattern}" (matched "{matched}").'
            )


def fits(pattern: str, text: str) -> bool:
    """Whether a pattern (`*` is any text) matches the whole text."""
    first, *between = pattern.split("*")
    if not between:
        return pattern == text
    last = between.pop()
    if not text.startswith(first) or len(text) < len(first) + len(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in between:
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return text.endswith(last)


def _found(pattern: str, whole: str, texts: Sequence[str]) -> str | None:
    """Return the part or the whole that a pattern matches, or None."""
    if not pattern:
        return None
    candidates = (*texts, whole)
    if "*" in pattern:
        return next((text for text in candidates if fits(pattern, text)), None)
    return next((text for text in candidates if pattern in text), None)


class _Cutting:
    """One pass over a line, character by character, that follows a shell's quoting."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._at = 0
        self.parts = [CommandPart()]
        self._word: str | None = None
        self._is_target = False
        self._outer: list[str] = []
        """The quote around each `$(` and backquote: a double quote, or nothing."""
        self._quote = ""
        while self._at < len(command):
            self._step()
        self._end_word()

    def _step(self) -> None:
        rest = self._command[self._at : self._at + 3]
        if self._quote == "'":
            self._quoted(rest[0])
        elif rest[0] == "\\" and len(rest) > 1:
            self._take(2, "" if rest[1] == "\n" else rest[1])
        elif rest.startswith("$("):
            self._enter("(", 2)
        elif rest[0] == "`":
            self._backquote()
        elif self._quote == '"':
            self._quoted(rest[0])
        elif rest[0] in "'\"":
            self._quote = rest[0]
            self._take(1, "")
        else:
            self._plain(rest)

    def _plain(self, rest: str) -> None:
        if rest[0] == "(":
            self._enter("(", 1)
        elif rest[0] == ")" and self._outer and self._outer[-1][0] == "(":
            self._cut(1)
            self._quote = self._outer.pop()[1:]
        elif write := _WRITES.match(rest):
            self._redirect(write[0])
        elif rest[0] in _ENDS:
            self._cut(1)
        elif rest[0].isspace() or rest[0] == "<":
            self._end_word()
            self._take(1, None)
        else:
            self._take(1, rest[0])

    def _quoted(self, char: str) -> None:
        if char == self._quote:
            self._quote = ""
            self._take(1, "")
        else:
            self._take(1, char)

    def _redirect(self, sign: str) -> None:
        if self._word and self._word.isdigit():
            self._word = None
        self._end_word()
        self._take(len(sign), None)
        self._is_target = True

    def _backquote(self) -> None:
        if self._outer and self._outer[-1][0] == "`":
            self._cut(1)
            self._quote = self._outer.pop()[1:]
        else:
            self._enter("`", 1)

    def _enter(self, sign: str, length: int) -> None:
        self._outer.append(sign + self._quote)
        self._quote = ""
        self._cut(length)

    def _cut(self, length: int) -> None:
        self._end_word()
        self._is_target = False
        self._at += length
        self.parts.append(CommandPart())

    def _take(self, length: int, shown: str | None) -> None:
        self.parts[-1].raw += self._command[self._at : self._at + length]
        self._at += length
        if shown is not None:
            self._word = (self._word or "") + shown

    def _end_word(self) -> None:
        word, self._word = self._word, None
        if word is None:
            return
        if not self._is_target:
            self.parts[-1].words.append(word)
        elif not (_DIGITS.fullmatch(word) and self.parts[-1].raw.rstrip().endswith(f">&{word}")):
            self.parts[-1].writes.append(word)
        self._is_target = False

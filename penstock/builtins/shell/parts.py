"""Splits a command line into its commands and the files that they write to, for `bash.deny`."""

import re

from msgspec import Struct, field

# Not one pattern with possessive quantifiers inside each other: Python before 3.11.5 takes too much
# by those (gh-106052), and `bash.deny` then fits nothing. Each way to read a value is the only one.
_LEADING = re.compile(r"[A-Za-z_]\w*\+?=(?:'[^']*'|\"(?:[^\"\\]|\\.)*\"|[^\s'\"])*\s+", re.DOTALL)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_WRITES = re.compile(r"&>>|&>|>>|>\||>&|<>|>")
_DIGITS = re.compile(r"[0-9]+|-")
_DEVICES = re.compile(r"/dev/(?:null|stdout|stderr|tty|fd/[0-9]+)")
_ENDS = frozenset("|;&\n)")


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
        while found := _LEADING.match(text, at):
            at = found.end()
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

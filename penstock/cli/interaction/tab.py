"""The Tab key in a conversation: it completes commands, and what may stand behind them."""

import readline
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

Words = Mapping[str, Callable[[], Iterable[str]]]
"""What may stand behind each command, such as `/call`; asked for when it is wanted."""


def listen(words: Words) -> None:
    """Let Tab complete what a person writes from now on."""
    found: list[str] = []

    def completer(_word: str, number: int) -> str | None:
        if number == 0:
            found[:] = completions(readline.get_line_buffer()[: readline.get_endidx()], words)
        return found[number] if number < len(found) else None

    readline.set_completer_delims(" ")
    readline.set_completer(completer)
    _bind()


@contextmanager
def choosing(options: Sequence[str]) -> Iterator[None]:
    """Let Tab complete one of these as the whole line, until the block ends."""
    before, delimiters = readline.get_completer(), readline.get_completer_delims()

    def completer(line: str, number: int) -> str | None:
        found = [each for each in options if each.lower().startswith(line.lower())]
        return found[number] if number < len(found) else None

    readline.set_completer_delims("")
    readline.set_completer(completer)
    _bind()
    try:
        yield
    finally:
        readline.set_completer_delims(delimiters)
        readline.set_completer(before)


@contextmanager
def offering(text: str) -> Iterator[None]:
    """Begin the next line of `input` with a text, which the person edits."""
    readline.set_startup_hook(lambda: readline.insert_text(text))
    try:
        yield
    finally:
        readline.set_startup_hook(None)


def _bind() -> None:
    is_editline = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_editline else "tab: complete")


def completions(line: str, words: Words) -> list[str]:
    """Return what the last word of a line may become: a command, or the word behind one."""
    command, space, rest = line.partition(" ")
    if not line.startswith("/") or " " in rest:
        return []
    known = words.get(command, tuple)() if space else words
    return sorted(f"{each} " for each in known if each.startswith(rest if space else command))

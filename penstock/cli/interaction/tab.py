"""The Tab key in a conversation: it completes commands, and what may stand behind them."""

import readline
from collections.abc import Callable, Iterable, Mapping

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
    is_editline = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if is_editline else "tab: complete")


def completions(line: str, words: Words) -> list[str]:
    """Return what the last word of a line may become: a command, or the word behind one."""
    command, space, rest = line.partition(" ")
    if not line.startswith("/") or " " in rest:
        return []
    known = words.get(command, tuple)() if space else words
    return sorted(f"{each} " for each in known if each.startswith(rest if space else command))

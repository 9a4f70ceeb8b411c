"""The adapter of readline: one line that a person edits, with completion by Tab.

Loaded late: only a terminal needs it, and some versions print an escape sequence when they load.
"""

import readline
from collections.abc import Sequence

from penstock.cli.terminal.keyboard import Complete


def edit_line(prompt: str, complete: Complete, draft: str) -> str:
    """Return the line that the person typed; it begins with the draft. Raises EOFError.

    Tab replaces the line by what `complete` returns if that is one text, else it lists them.
    """
    found: Sequence[str] = ()

    def completer(line: str, number: int) -> str | None:
        nonlocal found
        if number == 0:
            found = complete(line)
        return found[number] if number < len(found) else None

    readline.set_completer_delims("")
    readline.set_completer(completer)
    _bind()
    readline.set_startup_hook((lambda: readline.insert_text(draft)) if draft else None)
    try:
        return input(prompt)
    finally:
        readline.set_startup_hook(None)
        readline.set_completer(None)


def _bind() -> None:
    if "libedit" in (readline.__doc__ or ""):
        readline.parse_and_bind("bind ^I rl_complete")
        return
    readline.parse_and_bind("tab: complete")
    readline.parse_and_bind("set show-all-if-ambiguous on")
    readline.parse_and_bind("set completion-ignore-case on")

"""The adapter of readline: edits one line at a terminal, with completion by Tab.

Loaded late, because only a terminal needs it and some versions of readline print an escape sequence
when they are loaded.
"""

import readline
from collections.abc import Sequence

from penstock.cli.terminal.keyboard import Complete


def edit_line(prompt: str, complete: Complete, draft: str) -> str:
    """Return the typed line, which starts with the draft. Raises EOFError at Ctrl-D.

    Tab replaces the line if `complete` returns one text, else it lists the texts.
    """
    completions: Sequence[str] = ()

    def completer(line: str, number: int) -> str | None:
        nonlocal completions
        if number == 0:
            completions = complete(line)
        return completions[number] if number < len(completions) else None

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

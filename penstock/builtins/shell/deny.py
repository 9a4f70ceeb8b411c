"""`bash.deny`: commands that an agent may not run. It stops mistakes; the sandbox protects."""

from collections.abc import Sequence

from penstock.builtins.shell.parts import CommandPart
from penstock.core.call_errors import NotPermitted


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
    for each in between:
        at = text.find(each, at, end)
        if at < 0:
            return False
        at += len(each)
    return text.endswith(last)


def _found(pattern: str, whole: str, texts: Sequence[str]) -> str | None:
    """Return the part or the whole that a pattern matches, or None."""
    if not pattern:
        return None
    candidates = (*texts, whole)
    if "*" in pattern:
        return next((text for text in candidates if fits(pattern, text)), None)
    return next((text for text in candidates if pattern in text), None)

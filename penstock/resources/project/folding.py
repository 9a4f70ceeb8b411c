"""Spellings of a path that some disk takes for one name, folded into one text.

Case (APFS, NTFS), Unicode forms (APFS), marks that are not shown (HFS+), dots and blanks at the end
of a name and streams behind a colon (NTFS). Folding is for protection alone: two names that fold to
one text need not be one file, and where they are not, the second is protected without need.
"""

import re
import unicodedata

_TAIL = re.compile(r"(?<=[^/.])[. ]+(?=/|$)|:[^/]*")


def folded(path: str) -> str:
    """Return what all spellings of a path have in common."""
    text = path.lower() if path.isascii() else _folded(path)
    return _TAIL.sub("", text) if _is_odd(text) else text


def _folded(path: str) -> str:
    shown = "".join(each for each in path if unicodedata.category(each) != "Cf")
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", shown).casefold())


def _is_odd(text: str) -> bool:
    return ":" in text or text[-1:] in {".", " "} or "./" in text or " /" in text

"""Folds spellings of a path that some file system treats as one name.

Case (APFS, NTFS), Unicode forms (APFS), invisible characters (HFS+), dots and blanks at the end of
a name and streams behind a colon (NTFS). Use it for protection only: two names that fold to one
text may be two files; then the second is protected without need.
"""

import re
import unicodedata

_TAIL = re.compile(r"(?<=[^/.])[. ]+(?=/|$)|:[^/]*")


def folded(path: str) -> str:
    """Return one text for all spellings of a path."""
    text = path.lower() if path.isascii() else _folded(path)
    return _TAIL.sub("", text) if _is_odd(text) else text


def _folded(path: str) -> str:
    shown = "".join(each for each in path if unicodedata.category(each) != "Cf")
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", shown).casefold())


def _is_odd(text: str) -> bool:
    return ":" in text or text[-1:] in {".", " "} or "./" in text or " /" in text

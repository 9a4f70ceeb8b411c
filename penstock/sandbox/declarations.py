"""What every script finds, as TypeScript declarations: the part that is the same for all."""

import re
from functools import cache

from penstock.sandbox.sources import SDK

_FILES = ("flo.d.ts", "builtins.d.ts", "globals.d.ts")
_OUTPUT = re.compile(r"^  (\w+): ", re.MULTILINE)


@cache
def fixed_part() -> str:
    """Return the declarations of `flo`, of what built-in tools return, and of the globals."""
    return "\n".join((SDK / name).read_text("utf-8") for name in _FILES)


@cache
def known_outputs() -> frozenset[str]:
    """Return the tools whose outputs `FloBuiltInOutputs` of the fixed part declares."""
    text = (SDK / "builtins.d.ts").read_text("utf-8")
    return frozenset(_OUTPUT.findall(text.partition("interface FloBuiltInOutputs")[2]))

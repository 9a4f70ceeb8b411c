"""Engines that are programs of a few lines: they say what no honest engine would."""

import sys
from pathlib import Path

from penstock.sandbox.process import Command

BEGIN = """
import os, struct
def say(*parts):
    head = struct.pack(f"<{len(parts) + 1}I", len(parts), *map(len, parts))
    os.write(1, head + b"".join(parts))
say(b"ready")
os.read(0, 1)
"""


def engine(program: str, folder: Path, begin: str = BEGIN) -> Command:
    """Return how an engine is started that says it is ready, and does as it is told."""
    argv = [sys.executable, "-I", "-S", "-c", begin + program]
    return Command(argv=argv, folder=folder)

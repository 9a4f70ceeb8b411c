"""Prints the version. `importlib.metadata` loads a mail parser, so `penstock --help` must not."""

import platform
from importlib.metadata import version as installed

from penstock.cli.terminal.output import AsJson, print_json, say


def version(*, as_json: AsJson = False) -> None:
    """Print the version of penstock, and of the Python that runs it."""
    versions = {"penstock": installed("penstock"), "python": platform.python_version()}
    if as_json:
        print_json(versions)
    else:
        say(f"penstock {versions['penstock']} (Python {versions['python']})")

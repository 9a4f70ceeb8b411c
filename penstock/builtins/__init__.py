"""The built-in tools, one file per family, named here and nowhere else."""

from penstock.builtins import artifacts, ask_user, files
from penstock.tools.tool import Tool

TOOLS: tuple[Tool, ...] = (*ask_user.TOOLS, *artifacts.TOOLS, *files.TOOLS)
"""Every built-in tool, in the order that lists show them."""

"""Projects on disk for one test, opened with their own settings."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from textwrap import dedent
from typing import Any

from penstock import open as open_project
from penstock.app.project import check_project
from penstock.app.runtime import Runtime
from penstock.app.settings import load


class ProjectFolder:
    """A project folder and its files."""

    def __init__(self, root: Path, cache: Path) -> None:
        self.root = root
        self.cache = cache

    def write(self, name: str, text: str) -> None:
        """Write one file of the project."""
        place = self.root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(dedent(text).lstrip("\n"))

    def tool(self, name: str, script: str, **more: Any) -> None:
        """Write a tool: its manifest, with further members as YAML, and its script."""
        members = {
            "name": name,
            "description": "Does what it is for.",
            "input_schema": "{type: object}",
            "execution": f"{{type: script, script_file: {name}.mts}}",
            "direct_call": "true",
        }
        lines = [f"{key}: {value}\n" for key, value in (members | more).items()]
        self.write(f"tools/{name}.tool.yaml", "".join(lines))
        self.write(f"tools/{name}.mts", script)

    def findings(self) -> list[str]:
        """Return what a check of the project reports."""
        settings = load(self.root, cache_dir=str(self.cache))
        return [str(each) for each in check_project(settings).diagnostics]

    @asynccontextmanager
    async def opened(self, **options: Any) -> AsyncIterator[Runtime]:
        """Open the project."""
        settings = {"cache_dir": str(self.cache), "synchronous": "NORMAL"}
        settings |= options.pop("settings", {})
        async with open_project(self.root, settings=settings, **options) as runtime:
            yield runtime

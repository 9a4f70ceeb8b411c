"""One manifest file, from its bytes to its value."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from penstock.manifest import permissions, prompts, skill, tool
from penstock.manifest.bounded import UnreadReason, read_bounded
from penstock.manifest.discover import shown
from penstock.manifest.fields import Node, found
from penstock.manifest.manifest_folder import ManifestFolder
from penstock.manifest.paths import escape_of
from penstock.manifest.source import Document, SourceRange, parse_yaml

MOST_BYTES = 262_144
_TOP = SourceRange(line=1, column=1)
_READERS: Mapping[str, tuple[str, Callable[[Node], Any]]] = {
    "tool": (tool.WHAT, tool.read_tool),
    "skill": (skill.WHAT, skill.read_skill),
    "permissions": (permissions.WHAT, permissions.read_permissions),
    "prompts": (prompts.WHAT, prompts.read_prompts),
}


class ParsedManifest(Struct, frozen=True, kw_only=True):
    """What was read of a file; what is wrong stands in the document of the node."""

    noun: str
    node: Node
    manifest: Any = None
    """None if the file is no mapping."""


def read_file(root: Path, noun: str, path: str) -> ParsedManifest:
    """Read one manifest; whatever stands in the file, problems are noted, and nothing raises."""
    what, read = _READERS[noun]
    document = _document(root, path)
    folder = path.rpartition("/")[0]
    home = ManifestFolder(folder=root / folder, shown=shown(folder) or ".")
    node = Node(document=document, home=home, what=what, value=document.value)
    if not document.is_read:
        return ParsedManifest(noun=noun, node=node)
    if not isinstance(document.value, dict):
        said = f"a manifest must be a mapping, found {found(document.value)}"
        node.refuse("yaml-not-mapping", said)
        return ParsedManifest(noun=noun, node=node)
    return ParsedManifest(noun=noun, node=node, manifest=read(node))


def _document(root: Path, path: str) -> Document:
    document = Document(file=(file := shown(path)))
    if escape := escape_of(root, path):
        document.problems.append(escape)
        return document
    content = read_bounded(root / path, MOST_BYTES, "the manifest")
    if isinstance(content, UnreadReason):
        document.problem(content.code, content.message, _TOP)
        return document
    try:
        return parse_yaml(content.decode(), file)
    except UnicodeDecodeError as error:
        document.problem("file-encoding", f"not UTF-8 at byte {error.start}", _TOP)
        return document

"""Reads `.pi/flows/config.yaml`: default values of `${{config.KEY}}` for the whole project."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from penstock.core.diagnostics import Diagnostic
from penstock.flows.steps.fields import CONFIG
from penstock.manifest.fields import Invalid, Node, found
from penstock.manifest.files import NOWHERE, UnreadReason, read_bounded
from penstock.manifest.yaml_document import Document, SourceRange, parse_yaml

FILE = ".pi/flows/config.yaml"
MOST_BYTES = 1024 * 1024
_TOP = SourceRange(line=1, column=1)


class Constants(Struct, frozen=True, kw_only=True):
    """The constants of a project. Invalid entries are reported and left out."""

    values: Mapping[str, Any] = field(default_factory=dict)
    diagnostics: Sequence[Diagnostic] = ()


def read_constants(root: Path) -> Constants:
    """Read the constants. Never raises; a missing file means none."""
    content = read_bounded(root / FILE, MOST_BYTES)
    if isinstance(content, UnreadReason):
        return Constants() if content.is_missing else _refused(content.code, content.message)
    # A link may lead out of the project: what lies there is not the project's to read.
    if not Path(os.path.realpath(root / FILE)).is_relative_to(os.path.realpath(root)):
        return _refused("file-unreadable", "the file lies outside of the project")
    try:
        document = parse_yaml(content.decode(), FILE)
    except UnicodeDecodeError as error:
        return _refused("file-encoding", f"not UTF-8 at byte {error.start}")
    return _read(document)


def _read(document: Document) -> Constants:
    value = document.value
    if not document.problems and not isinstance(value, dict | None):
        document.problem("yaml-not-mapping", f"must be {CONFIG.wanted}, found {found(value)}", _TOP)
    if document.problems:
        return Constants(diagnostics=document.problems)
    values = CONFIG.read(Node(document=document, home=NOWHERE, what="the file", value=value))
    plain = {} if isinstance(values, Invalid) else values
    return Constants(values=plain, diagnostics=document.problems)


def _refused(code: str, message: str) -> Constants:
    document = Document(file=FILE)
    document.problem(code, message, _TOP)
    return Constants(diagnostics=document.problems)

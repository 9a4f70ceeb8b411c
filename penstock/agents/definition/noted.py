"""The definitions of agents over time, for replays: noted in the data folder of the project.

The log has a digest of an agent's definition, and not its text: that would cost its size in each
conversation. So each process that opens the project, or reads its files again, notes the
definitions with their tools: one file for each digest, one line for each change. A task had the
newest that was noted before it started. Definitions are what authors wrote; agents that a program
passes with a message are not noted (docs/decisions/111).

Shown by tests/agents/definition/test_noted.py and tests/app/trial/test_definitions.py.
"""

import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import DecodeError, Struct
from msgspec.json import decode, encode

from penstock.core.clock import Moment
from penstock.core.envelope import Json
from penstock.core.events.events import Record, TaskStarted
from penstock.core.events.flow_events import HandedOff

FOLDER = "definitions"
"""The folder of the files, in the data folder of the project."""
MOST = 50
"""Definitions that a file keeps; older ones are dropped."""
log = logging.getLogger(__name__)


class Noted(Struct, frozen=True):
    """A definition from some time on."""

    at: Moment
    definition: Json


def note(folder: Path, definitions: Mapping[str, Json], at: Moment) -> None:
    """Add definitions that differ from the newest noted ones. A full disk is logged."""
    for digest, definition in definitions.items():
        noted = _read(folder, digest)
        # Compared as they are read: a definition of a program may have tuples.
        wanted = decode(encode(definition))
        if noted and noted[-1].definition == wanted:
            continue
        lines = [encode(each) + b"\n" for each in [*noted, Noted(at, wanted)][-MOST:]]
        try:
            _write(folder / FOLDER / f"{digest}.jsonl", b"".join(lines))
        except OSError as error:
            log.warning("the definition of an agent could not be noted for replays: %s", error)
            return


def definitions_at(folder: Path | None, records: Iterable[Record]) -> dict[str, Json]:
    """Return the definitions with which the agents of these events started, by digest."""
    found: dict[str, Json] = {}
    for record in records:
        event: Any = record.event
        if folder is None or not isinstance(event, TaskStarted | HandedOff):
            continue
        noted = [each for each in _read(folder, event.agent_digest) if each.at <= record.at]
        if noted:
            found[event.agent_digest] = noted[-1].definition
    return found


def _read(folder: Path, digest: str) -> list[Noted]:
    if not digest.isalnum():
        return []
    try:
        lines = (folder / FOLDER / f"{digest}.jsonl").read_bytes().splitlines()
    except OSError:
        return []
    noted = []
    for line in lines:
        with suppress(DecodeError):  # a line of a disk that was full
            noted.append(decode(line, type=Noted))
    return noted


def _write(file: Path, content: bytes) -> None:
    """Replace a file: two processes that open the project write the same."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}")
    part.write_bytes(content)
    part.replace(file)

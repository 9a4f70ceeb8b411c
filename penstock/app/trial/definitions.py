"""The definitions of agents over time: a replay compares those of a task with those of now.

The log has a digest of an agent's definition, and not its text: that would cost its size in each
conversation. So each process that opens the project, or reads its files again, notes the
definitions in the data folder, with their tools: one file for each digest, one line for each
change. A task had the newest that was noted before it started. Definitions are what authors wrote;
agents that a program passes with a message are not noted. Without the files a replay works
as before, and says what it cannot compare.

Shown by tests/app/trial/test_definitions.py.
"""

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import DecodeError, Struct
from msgspec.json import decode, encode

from penstock.agents.agent import AnyAgent
from penstock.agents.agent_profile import Tier
from penstock.agents.definition.options import DIGEST, definition_of
from penstock.agents.tool_offer import offered
from penstock.app.runtime_parts import RuntimeParts
from penstock.core.clock import Moment
from penstock.core.envelope import Json
from penstock.core.errors import PenstockError
from penstock.core.events.events import Record, TaskStarted
from penstock.core.events.flow_events import HandedOff
from penstock.core.profile import LOCAL_PROFILE, Profile

FOLDER = "definitions"
"""The folder of the files, in the data folder of the project."""
MOST = 50
"""Definitions that a file keeps; older ones are dropped."""
log = logging.getLogger(__name__)


class Noted(Struct, frozen=True):
    """A definition from some time on."""

    at: Moment
    definition: Json


def definition_now(parts: RuntimeParts, agent: AnyAgent, profile: Profile) -> Json:
    """Return the definition of an agent, with the tools that it offers to a profile."""
    invoker = parts.chat.participants.invoker(agent)
    return definition_of(agent, [each.spec for each in offered(agent, invoker, profile)])


def definitions_of(parts: RuntimeParts, profile: Profile) -> dict[str, Json]:
    """Return the definitions of the project's agents, by digest."""
    found: dict[str, Json] = {}
    for agent in parts.chat.agents.list():
        digest = agent.profile.content_hash[:DIGEST]
        if digest and agent.profile.tier is not Tier.BUILT_IN:
            with suppress(PenstockError):  # an agent whose tools are missing starts no task
                found[digest] = definition_now(parts, agent, profile)
    return found


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


def definitions_at(folder: Path | None, records: list[Record]) -> dict[str, Json]:
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


class Definitions:
    """The definitions of the agents of one recorded task, and those of now."""

    def __init__(
        self, noted: Mapping[str, Json], parts: RuntimeParts | None, profile: Profile
    ) -> None:
        self._noted = noted
        self._parts = parts
        self._profile = profile

    def then(self, event: TaskStarted | HandedOff) -> Json | None:
        """Return the definition with which an agent started; None if it was not noted."""
        return self._noted.get(event.agent_digest)

    def now(self, name: str) -> Json | None:
        """Return the definition of an agent; None if it is gone."""
        parts = self._parts
        agent = None if parts is None else parts.chat.agents.find(name)
        if agent is None or parts is None:
            return None
        definition: Json = decode(encode(definition_now(parts, agent, self._profile)))
        return definition

    def changed_tools(
        self, event: TaskStarted | HandedOff, name: str
    ) -> dict[str, tuple[Json, Json]]:
        """Return the offered tools whose text or schema is another one, as it was and is."""
        then = self.then(event)
        now = None if then is None else self.now(name)
        if then is None or now is None:
            return {}
        was, is_ = then.get("tools", {}), now["tools"]
        known = [each for each in event.offered if each in was and each in is_]
        return {each: (was[each], is_[each]) for each in known if was[each] != is_[each]}


UNKNOWN = Definitions({}, None, LOCAL_PROFILE)
"""Nothing was noted."""


def system_then(system: str, then: Json, now: Json) -> str | None:
    """Return the system prompt with the instructions of then; None if they are not in it."""
    for was, is_ in zip(then["instructions"], now["instructions"], strict=False):
        if not is_ or is_ not in system:
            return None
        system = system.replace(is_, was, 1)
    return system if len(then["instructions"]) == len(now["instructions"]) else None

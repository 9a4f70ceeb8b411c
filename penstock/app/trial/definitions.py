"""The definitions of the agents of a recorded task, beside those of now.

Without noted definitions a replay says what it cannot compare. Shown by
tests/app/trial/test_definitions.py.
"""

from collections.abc import Mapping

from msgspec.json import decode, encode

from penstock.app.reload import definition_now
from penstock.app.runtime_parts import RuntimeParts
from penstock.core.envelope import Json
from penstock.core.events.events import TaskStarted
from penstock.core.events.flow_events import HandedOff
from penstock.core.profile import LOCAL_PROFILE, Profile


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

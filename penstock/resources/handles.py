"""Stand-ins for secrets: inert text, until a request to a named host carries one."""

import re
from collections.abc import Callable

from msgspec import Struct

from penstock.core.ids import new_secret

PREFIX = "secret-handle-"


class _Held(Struct, frozen=True):
    key: str
    value: str


class SecretHandles:
    """The handles that one entry of a script was given."""

    def __init__(self, chance: Callable[[], bytes] = new_secret) -> None:
        self._chance = chance
        self._held: dict[str, _Held] = {}
        self._pattern: re.Pattern[str] | None = None

    def new(self, key: str, value: str) -> str:
        """Return a text that nobody can guess, which stands for the secret."""
        handle = PREFIX + self._chance().hex()[:32]
        self._held[handle] = _Held(key, value)
        self._pattern = re.compile("|".join(self._held))
        return handle

    def keys_in(self, *texts: str) -> set[str]:
        """Return the keys of the secrets that handles in the texts stand for."""
        if self._pattern is None:
            return set()
        return {self._held[each].key for text in texts for each in self._pattern.findall(text)}

    def open(self, text: str, spelled: Callable[[str], str] = str) -> str:
        """Return the text with the secrets in the place of their handles, each spelled so."""
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: spelled(self._held[found[0]].value), text)

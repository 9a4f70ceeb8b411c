"""Names of tools in the form that every provider takes, and back.

Providers refuse a whole request for one name outside of letters, digits, `_` and `-`, or over 64
characters; some want a letter or `_` first. Tools may be called `shop.find`, and a model may invent
`my tool!` and have that call in its history ever after. A name that fits is sent as it is. Any
other becomes what of it fits, with eight digits of its SHA-256: the same in every request, whatever
other tools there are, so that a provider's cache of the prompt holds. Should that be taken by
another name of the request, further digits decide; offered tools come before invented ones.
"""

import re
from hashlib import sha256

from penstock.models.model import CallDelta, ModelEvent, ModelRequest

LONGEST = 64
_FITTING = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")
_DIGITS = 8


class WireNames:
    """The names of one request: what is sent for each, and what is meant by what comes back."""

    __slots__ = ("_meant", "_sent")

    def __init__(self, request: ModelRequest) -> None:
        self._sent: dict[str, str] = {}
        self._meant: dict[str, str] = {}
        names = [tool.name for tool in request.tools]
        for name in sorted(names, key=lambda each: _FITTING.fullmatch(each) is None):
            self.sent(name)

    def sent(self, name: str) -> str:
        """Return what a name is called on the wire."""
        known = self._sent.get(name)
        if known is None:
            known = self._sent[name] = self._free(name)
            self._meant[known] = name
        return known

    def meant(self, event: ModelEvent) -> ModelEvent:
        """Return an event of a reply with the name of its tool as we know it."""
        if type(event) is not CallDelta or not event.name:
            return event
        name = self._meant.get(event.name, event.name)
        if name is event.name:
            return event
        return CallDelta(event.index, name, event.arguments)

    def _free(self, name: str) -> str:
        if name not in self._meant and _FITTING.fullmatch(name):
            return name
        digits = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        for count in range(_DIGITS, len(digits) - 1):
            ending = f"_{digits[:count]}"
            found = _beginning(name)[: LONGEST - len(ending)] + ending
            if found not in self._meant:
                return found
        raise AssertionError(name)  # 48 taken names, each equal to a digest of this one


def _beginning(name: str) -> str:
    fitting = _UNFIT.sub("_", name).strip("_") or "tool"
    return fitting if fitting[0].isalpha() else f"_{fitting}"

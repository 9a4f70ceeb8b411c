"""Converts tool names to names that every provider accepts, and back.

Providers refuse a whole request if one name has characters other than letters, digits, `_` and `-`,
or more than 64; some require a letter or `_` first. Tools may be called `shop.find`, and a model
may invent `my tool!` and then has that call in its history. A name that fits is sent unchanged. Any
other keeps the characters that fit, plus eight digits of its SHA-256: the same in every request,
whatever the other tools, so that a provider's prompt cache stays valid. If that name is taken in
the request, more digits are added; offered tools come before invented ones. Proof:
tests/models/wires/test_wire_names.py.
"""

import re
from hashlib import sha256

from penstock.models.model import CallDelta, ModelEvent, ModelRequest

MAX_LENGTH = 64
_FITTING = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")
_DIGITS = 8


class WireNames:
    """The mapping of one request between tool ids and names on the wire."""

    __slots__ = ("_meant", "_sent")

    def __init__(self, request: ModelRequest) -> None:
        self._sent: dict[str, str] = {}
        self._meant: dict[str, str] = {}
        names = [tool.name for tool in request.tools]
        for name in sorted(names, key=lambda each: _FITTING.fullmatch(each) is None):
            self.sent(name)

    def sent(self, name: str) -> str:
        """Return the name on the wire of a tool id."""
        known = self._sent.get(name)
        if known is None:
            known = self._sent[name] = self._free(name)
            self._meant[known] = name
        return known

    def meant(self, event: ModelEvent) -> ModelEvent:
        """Return an event of the reply with the tool id instead of the name on the wire."""
        if type(event) is not CallDelta or not event.name:
            return event
        name = self._meant.get(event.name, event.name)
        if name is event.name:
            return event
        return CallDelta(event.index, name, event.arguments)

    def _free(self, name: str) -> str:
        if name not in self._meant and _FITTING.fullmatch(name):
            return name
        for count in range(_DIGITS, MAX_LENGTH - 1):
            if (candidate := _digested(name, count)) not in self._meant:
                return candidate
        raise AssertionError(name)  # 55 taken names, each equal to a digest of this one


def fitting_name(name: str) -> str:
    """Return a name that every provider accepts, the same for the same name."""
    return name if _FITTING.fullmatch(name) else _digested(name, _DIGITS)


def _digested(name: str, count: int) -> str:
    """Return the name with so many digits of its digest instead of what does not fit."""
    ending = "_" + sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:count]
    return _beginning(name)[: MAX_LENGTH - len(ending)] + ending


def _beginning(name: str) -> str:
    fitting = _UNFIT.sub("_", name).strip("_") or "tool"
    return fitting if fitting[0].isalpha() else f"_{fitting}"

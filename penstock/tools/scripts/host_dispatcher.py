"""The calls of `flo.dispatcher`: subjects of work that tasks lease, one task at a time.

Each call is one change in the transaction that records it (`core/stored/subjects`), so a script
that runs again after a crash claims nothing twice, and gets the same subjects. A subject whose task
died is due again when its lease ends. Proof: tests/tools/scripts/test_host_dispatcher.py and
tests/journeys/test_dispatcher.py.
"""

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

from penstock.core.call import Effect
from penstock.core.clock import Moment
from penstock.core.json_values.json_text import is_larger
from penstock.core.limits import KIB
from penstock.core.scopes import Scope, ScopeKind
from penstock.core.stored.subjects import SubjectChange, SubjectVerb
from penstock.tools.invocation import Invocation
from penstock.tools.redaction import check_key, check_value
from penstock.tools.scripts.arguments import items, mapping, number, optional_number, text
from penstock.tools.scripts.host import Answer, HostCall
from penstock.tools.scripts.recording import Recording

ID_CHARACTERS, KEY_CHARACTERS = 128, 256
VALUE_BYTES = 32 * KIB
"""A cursor or a meta, as JSON."""
MAX_SUBJECTS, MAX_CLAIM, USUAL_CLAIM = 1000, 100, 10
LEAST_LEASE_MS, MAX_LEASE_MS = 1000, 3_600_000
MAX_RETRY_MS = 365 * 24 * 3_600_000
_MAX_REVISION = 2**53


class DispatcherCalls:
    """The functions of `flo.dispatcher`."""

    def __init__(self, invocation: Invocation, recording: Recording) -> None:
        self._invocation = invocation
        self._recording = recording

    def table(self) -> dict[str, HostCall]:
        """Return the calls by their names."""
        return {f"dispatcher.{verb}": partial(self._call, verb) for verb in SubjectVerb}

    def _call(self, verb: SubjectVerb, arguments: Any) -> Answer:
        change = self._change(verb, arguments)
        self._invocation.check_running()
        name = f"dispatcher.{verb}"
        path = self._recording.place(name, arguments, Effect.WRITE)
        if (recorded := self._recording.find(path)) is not None:
            return recorded
        return self._recording.live(path, self._recording.change(path, name, change))

    def _change(self, verb: SubjectVerb, arguments: Any) -> SubjectChange:
        """Return the change that the arguments describe. Raises TypeError and StateDenied."""
        dispatcher_id = text(arguments, "dispatcher_id", most=ID_CHARACTERS)
        change = SubjectChange(
            verb=verb,
            # A part of the profile: an erased profile takes its dispatchers along.
            scope=self._profile.part(f"dispatcher/{dispatcher_id}"),
            dispatcher_id=dispatcher_id,
            task_id=self._invocation.ledger.task.task_id,
            **_READERS[verb](arguments),
        )
        # A secret must not outlive its task in a row that other tasks read.
        secrets = self._invocation.caller.secrets
        for key in (dispatcher_id, *(each["subject_key"] for each in change.subjects)):
            check_key(secrets, key)
        check_value(secrets, [dict(change.given), *map(dict, change.subjects)])
        return change

    @property
    def _profile(self) -> Scope:
        return Scope(ScopeKind.PROFILE, self._invocation.caller.profile.profile_id)


def _sync(arguments: Any) -> dict[str, Any]:
    subjects = items(arguments, "subjects")
    if not 1 <= len(subjects) <= MAX_SUBJECTS:
        raise TypeError(f"subjects must be 1 to {MAX_SUBJECTS} subjects, found {len(subjects)}")
    read = tuple(_subject(place, each) for place, each in enumerate(subjects))
    if len({each["subject_key"] for each in read}) < len(read):
        raise TypeError("subjects: each must have a subject_key of its own")
    return {"subjects": read}


def _subject(place: int, given: Any) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise TypeError(f"subjects[{place}] must be an object")
    try:
        return {"subject_key": _key(given), **_values(given), **_due(given)}
    except TypeError as error:
        raise TypeError(f"subjects[{place}]: {error}") from None


def _claim(arguments: Any) -> dict[str, Any]:
    limit = optional_number(arguments, "limit", 1, MAX_CLAIM)
    lease = _whole("lease_ms", number(arguments, "lease_ms", LEAST_LEASE_MS, MAX_LEASE_MS))
    return {"limit": USUAL_CLAIM if limit is None else _whole("limit", limit), "lease_ms": lease}


def _checkpoint(arguments: Any) -> dict[str, Any]:
    lease = optional_number(arguments, "lease_ms", LEAST_LEASE_MS, MAX_LEASE_MS)
    lease_ms = None if lease is None else _whole("lease_ms", lease)
    return {**_at(arguments), "lease_ms": lease_ms, "given": _values(arguments)}


def _complete(arguments: Any) -> dict[str, Any]:
    return {**_at(arguments), "given": {**_values(arguments), **_due(arguments)}}


def _fail(arguments: Any) -> dict[str, Any]:
    given = {**_values(arguments), **_due(arguments), "error": _error(arguments)}
    retry = optional_number(arguments, "retry_after_ms", 0, MAX_RETRY_MS)
    if retry is not None:
        if "next_due_at" in given:
            raise TypeError("next_due_at and retry_after_ms cannot be combined: remove one")
        given["retry_after_ms"] = round(retry)
    return {**_at(arguments), "given": given}


def _at(arguments: Any) -> dict[str, Any]:
    revision = _whole("revision", number(arguments, "revision", 1, _MAX_REVISION))
    return {"subject_key": _key(arguments), "revision": revision}


_READERS = {
    SubjectVerb.SYNC: _sync,
    SubjectVerb.CLAIM: _claim,
    SubjectVerb.CHECKPOINT: _checkpoint,
    SubjectVerb.COMPLETE: _complete,
    SubjectVerb.FAIL: _fail,
    SubjectVerb.RELEASE: _at,
}


def _key(arguments: Any) -> str:
    return text(arguments, "subject_key", most=KEY_CHARACTERS)


def _whole(name: str, value: float) -> int:
    if value != int(value):
        raise TypeError(f"{name} must be an integer, found {value}")
    return int(value)


def _values(given: Any) -> dict[str, Any]:
    """Return the cursor and the meta, where they are given; null is a value."""
    values = {name: given[name] for name in ("cursor", "meta") if name in given}
    for name, value in values.items():
        if is_larger(value, VALUE_BYTES):
            raise TypeError(f"{name} must have at most {VALUE_BYTES} bytes as JSON")
    return values


def _due(given: Any) -> dict[str, Moment]:
    if given.get("next_due_at") is None:
        return {}
    value = text(given, "next_due_at", most=64)
    try:
        at = datetime.fromisoformat(value)
        moment = round(at.timestamp() * 1000)
    except (ValueError, OverflowError):
        at, moment = None, 0
    # Without a zone it would be another time on each machine.
    if at is None or at.tzinfo is None:
        example = "2026-11-21T09:00:00Z"
        raise TypeError(f"next_due_at must be a time with a zone, as {example}, found {value!r}")
    return {"next_due_at": Moment(moment)}


def _error(arguments: Any) -> dict[str, Any]:
    error = mapping(arguments, "error")
    read: dict[str, Any] = {
        "code": text(error, "code", most=ID_CHARACTERS),
        "message": text(error, "message", most=4000),
    }
    for name in ("retryable", "continuable"):
        if name in error:
            if not isinstance(error[name], bool):
                raise TypeError(f"error.{name} must be true or false")
            read[name] = error[name]
    if error.get("details") is not None:
        if is_larger(error["details"], VALUE_BYTES):
            raise TypeError(f"error.details must have at most {VALUE_BYTES} bytes as JSON")
        read["details"] = error["details"]
    return read

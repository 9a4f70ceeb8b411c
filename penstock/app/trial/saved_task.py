"""A recorded task as a value, and as a file that a test in CI replays.

Paths of calls contain a hash that is keyed with the secret of their installation, so that another
one makes other paths for the same calls. `rekeyed` gives the calls of models the paths that they
get here: a reply has their inputs. Of calls inside scripts no input is stored; a script of another
installation is therefore not entered again, and gives its recorded outcome.
Shown by tests/app/trial/test_saved_task.py.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.call import CallPath
from penstock.core.envelope import Json
from penstock.core.errors import ConfigError
from penstock.core.events.codec import from_wire, kind_of, to_wire
from penstock.core.events.events import CallSettled, QuestionAsked, Record, ReplyReceived
from penstock.core.ids import BlobId, LogId, TaskId
from penstock.core.json_values.json_text import parse_json
from penstock.engine.ledger import Occurrences
from penstock.store.blobs import Blobs

_FORMAT = 1
"""The version of the files."""


class SavedTask(Struct, frozen=True, kw_only=True):
    """A task with the log up to its end."""

    task_id: TaskId
    records: Sequence[Record]
    outputs: Mapping[BlobId, bytes] = MappingProxyType({})
    """Outputs that are not in the blob store of this project."""
    made_with: str = ""
    """Says with which secret its paths were made; empty for that of this project."""
    children: Sequence["SavedTask"] = ()
    """The tasks that it requested, which have logs of their own."""
    definitions: Mapping[str, Json] = MappingProxyType({})
    """The definitions with which its agents started, by digest, as far as they were noted."""
    absent: Sequence[TaskId] = ()
    """Children whose logs cannot be replayed: they were erased, or had not ended."""

    async def to_file(self, blobs: Blobs, key: bytes) -> bytes:
        """Return the task as a file, with its outputs and its children."""
        wire = {"savedTask": _FORMAT, "madeWith": fingerprint(key), **await self.to_wire(blobs)}
        return json.dumps(wire, ensure_ascii=False, indent=1).encode() + b"\n"

    async def to_wire(self, blobs: Blobs) -> Json:
        """Return the task and its children as JSON, with their outputs."""
        ids = {
            each.event.artifact_blob for each in self.records if isinstance(each.event, CallSettled)
        }
        stored = sorted(each for each in ids if each is not None)
        outputs = {each: (await blobs.get(each)).decode() for each in stored}
        events = [
            {
                "seq": each.seq,
                "at": each.at,
                "taskId": each.task_id,
                "path": each.path,
                "kind": kind_of(each.event),
                "body": to_wire(each.event),
            }
            for each in self.records
        ]
        return {
            "taskId": self.task_id,
            "logId": self.records[0].log_id,
            "events": events,
            "outputs": outputs,
            "children": [await each.to_wire(blobs) for each in self.children],
            "definitions": dict(self.definitions),
            "absent": list(self.absent),
        }

    @staticmethod
    def from_file(content: bytes, name: str) -> "SavedTask":
        """Return the task of a file. Raises ConfigError if it is not one."""
        try:
            saved = parse_json(content)
            if saved["savedTask"] != _FORMAT:
                raise ConfigError(f"{name} was saved by another version: save the task again")
            return _saved_task(saved, saved["madeWith"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            why = "`penstock replay TASK --save FILE` writes one"
            raise ConfigError(f"{name} cannot be read as a saved task ({error}): {why}") from None

    def is_foreign(self, key: bytes) -> bool:
        """Whether its paths were made with another secret than this one."""
        return bool(self.made_with) and self.made_with != fingerprint(key)

    def rekeyed(self, key: bytes) -> "SavedTask":
        """Return the task with the paths that the calls of its models get with a secret."""
        old = {
            call_id: each.path if isinstance(each.event, CallSettled) else each.event.question.path
            for each in self.records
            if isinstance(each.event, CallSettled | QuestionAsked)
            and (call_id := _call_id(each.event)) is not None
        }
        paths: dict[str, str] = {}
        for record in self.records:
            reply = record.event
            if record.task_id != self.task_id or not isinstance(reply, ReplyReceived):
                continue
            place = _renamed(record.path, paths) or self.task_id
            seen = Occurrences(f"{place}/{reply.iteration}", key)
            for call in reply.calls:
                path = seen.path(call.name, call.arguments, call.arguments_text)
                if (before := old.get(call.call_id)) is not None:
                    paths[before] = path
        records = [_moved(each, paths) if paths else each for each in self.records]
        return replace(self, records=records)


def fingerprint(key: bytes) -> str:
    """Return a value that tells secrets apart and discloses nothing of them."""
    return blake2b(b"saved task", digest_size=8, key=key).hexdigest()


def _saved_task(saved: Mapping[str, Any], made_with: str) -> SavedTask:
    log_id = LogId(saved["logId"])
    return SavedTask(
        task_id=TaskId(saved["taskId"]),
        records=[_record(log_id, each) for each in saved["events"]],
        outputs={BlobId(key): text.encode() for key, text in saved["outputs"].items()},
        made_with=made_with,
        children=[_saved_task(each, made_with) for each in saved.get("children", ())],
        definitions=dict(saved.get("definitions", {})),
        absent=[TaskId(each) for each in saved.get("absent", ())],
    )


def _record(log_id: LogId, saved: Mapping[str, Any]) -> Record:
    event = from_wire(saved["kind"], saved["body"])
    return Record(log_id, saved["seq"], saved["at"], saved["taskId"], saved["path"], event)


def _call_id(event: CallSettled | QuestionAsked) -> str | None:
    return event.call_id if isinstance(event, CallSettled) else event.question.call_id


def _moved(record: Record, paths: Mapping[str, str]) -> Record:
    event = record.event
    if isinstance(event, QuestionAsked):
        path = _renamed(event.question.path, paths)
        assert path is not None  # noqa: S101  a question has one
        event = replace(event, question=replace(event.question, path=path))
    return replace(record, path=_renamed(record.path, paths), event=event)


def _renamed(path: CallPath | None, paths: Mapping[str, str]) -> CallPath | None:
    """Return a path with the new name of the call that it is, or that is around it."""
    text, rest = str(path or ""), ""
    while text:
        plain, tilde, attempt = (
            text.partition("~") if "~" in text.rpartition("/")[2] else (text, "", "")
        )
        if (new := paths.get(plain)) is not None:
            return CallPath(f"{new}{tilde}{attempt}{rest}")
        text, slash, last = text.rpartition("/")
        rest = f"{slash}{last}{rest}"
    return path

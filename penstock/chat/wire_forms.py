"""Wire forms that the HTTP API and the CLI share: calls, results, questions, tasks, events."""

from collections.abc import Callable, Collection
from typing import Any

from penstock.chat.recorded.fork import Fork
from penstock.core.call import CallPath, ToolCall, tools_on
from penstock.core.clock import to_iso
from penstock.core.envelope import Envelope
from penstock.core.events.codec import kind_of, to_wire
from penstock.core.events.events import CallSettled, NoteEmitted, Record, TaskEnded
from penstock.core.ids import LogId, TaskId, retried
from penstock.core.messages import StoredFile
from penstock.core.task import (
    Missing,
    Question,
    QuestionRecord,
    QuestionStatus,
    TaskRecord,
    blocked,
    standing,
)
from penstock.store.logs.quarantine import QuarantinedLog

LinkTo = Callable[[StoredFile], str]
"""Returns a temporary link to a stored file."""
TOOL = "send_media_attachment"
"""Calls of this tool add attachments, at any depth."""
_CARRY = "carry"
MAX_ATTACHMENTS = 20
"""An answer has at most this many."""


class Attachments:
    """The attachments of one answer, in the order of the calls; each media id once."""

    __slots__ = ("_files",)

    def __init__(self) -> None:
        self._files: dict[str, StoredFile] = {}

    def add(self, settled: CallSettled) -> None:
        """Add the attachment of a settled call, if it has one."""
        output = settled.envelope.output
        if settled.tool_id != TOOL or not settled.files or not isinstance(output, dict):
            return
        has_room = len(self._files) < MAX_ATTACHMENTS
        if has_room and output.get("send_as_attachment") is True:
            self._files.setdefault(output["media_id"], settled.files[0])

    def parts(self, link_to: LinkTo) -> list[dict[str, Any]]:
        """Return the attachments for readers, with freshly signed links."""
        return [
            {
                "mediaId": media_id,
                "name": each.name or media_id,
                "url": link_to(each),
                "mimeType": each.mime_type,
                "bytes": each.size,
            }
            for media_id, each in self._files.items()
        ]


def stored_file(file: StoredFile) -> dict[str, Any]:
    """Return an uploaded file, for a message that names it."""
    size = {} if file.width is None else {"width": file.width, "height": file.height}
    named = {} if file.name is None else {"name": file.name}
    return {"blobId": file.blob_id, "mimeType": file.mime_type, "bytes": file.size, **named, **size}


def attached_part(file: StoredFile, link_to: LinkTo) -> dict[str, Any]:
    """Return a file of a message for readers, with a freshly signed link."""
    return stored_file(file) | {"url": link_to(file)}


def call_part(call: ToolCall) -> dict[str, Any]:
    """Return a call as an item of `toolCalls`."""
    return {"id": call.call_id, "name": call.name, "arguments": call.arguments}


def output_part(ended: TaskEnded) -> dict[str, Any]:
    """Return the output of a task as a member of its answer; nothing if it has none.

    `null` is a possible output, so a task without one has no such member.
    """
    return {} if ended.output is None else {"output": ended.output.value}


def result_part(settled: CallSettled, link_to: LinkTo) -> dict[str, Any]:
    """Return the outcome of a call: a `tool_result` frame, and an item of `toolResults`."""
    part: dict[str, Any] = {
        "type": "tool_result",
        "toolCallId": settled.call_id,
        "name": settled.tool_id,
        "success": settled.envelope.ok,
    }
    error = settled.envelope.error
    if error is None:
        return part | _output(settled, link_to)
    part["error"] = error.message
    part["code"] = error.code
    if error.suggestion is not None:
        part["suggestion"] = error.suggestion
    if settled.detector:
        part["detector"] = settled.detector
    return part


def question_part(question: Question) -> dict[str, Any]:
    """Return a question for a person."""
    part: dict[str, Any] = {
        "id": question.question_id,
        "kind": question.kind.value,
        "text": question.text,
    }
    options = [{"label": each.label, "value": each.value} for each in question.options]
    optional = {
        "toolCallId": question.call_id,
        "toolName": question.tool_id,
        "arguments": None if question.input is None else dict(question.input),
        "path": tools_on(question.path) or None,
        "context": question.context,
        "options": options or None,
        "schema": None if question.schema is None else dict(question.schema),
        "form": None if question.form is None else dict(question.form),
    }
    return part | {key: value for key, value in optional.items() if value is not None}


def question_record(record: QuestionRecord) -> dict[str, Any]:
    """Return a question with its status and answer."""
    part = question_part(record.question) | {
        "status": standing(record.status, record.answer),
        "taskId": record.task_id,
        "conversationId": conversation_of(record.log_id, record.task_id),
        "agentId": record.agent,
        "createdAt": to_iso(record.asked_at),
    }
    if record.answered_at is not None:
        part["answeredAt"] = to_iso(record.answered_at)
    if record.answered_by is not None:
        part["answeredBy"] = record.answered_by
    if record.status is QuestionStatus.ANSWERED and record.answer is not None:
        part["answer"] = dict(record.answer)
    return part


def task_part(task: TaskRecord) -> dict[str, Any]:
    """Return the status of a task."""
    started_by = {} if task.schedule_id is None else {"scheduleId": task.schedule_id}
    return (
        {
            "id": task.task_id,
            "kind": task.kind,
            "status": task.status.value,
            "agentId": task.agent,
            "conversationId": conversation_of(task.log_id, task.task_id),
            "createdAt": to_iso(task.created_at),
            "startedAt": None if task.started_at is None else to_iso(task.started_at),
            "endedAt": None if task.ended_at is None else to_iso(task.ended_at),
            "rootId": task.root_id or task.task_id,
        }
        | started_by
        | _child_part(task)
        | _retry_part(task)
        | blocked_part(task.blocked_on)
    )


def fork_part(fork: Fork) -> dict[str, Any]:
    """Return a fork: its task, and the writes that it does not undo."""
    return {
        "id": fork.task_id,
        "conversationId": fork.session,
        "effects": [
            {"path": list(each.path), "tool": each.tool, "status": each.status}
            for each in fork.effects
        ],
    }


def retry_part(task: TaskRecord) -> dict[str, Any]:
    """Return a retry: its task, and the one that it is a retry of."""
    conversation = conversation_of(task.log_id, task.task_id)
    return {"id": task.task_id, "conversationId": conversation} | _retry_part(task)


def _child_part(task: TaskRecord) -> dict[str, str]:
    """Return what only tasks have that another one requested."""
    optional = {
        "parentId": task.parent_id,
        "title": task.title,
        "key": task.task_key,
        "workerKind": task.worker_kind,
        "batchId": task.batch_id,
    }
    return {name: value for name, value in optional.items() if value}


def _retry_part(task: TaskRecord) -> dict[str, str]:
    """Return the task that this one is a retry of, if it is one."""
    original = retried(task.task_id)
    return {} if original is None else {"retryOf": original}


def blocked_part(missing: Collection[Missing]) -> dict[str, Any]:
    """Return what a blocked task lacks, and what to do."""
    named = [each.to_wire() for each in missing]
    return {"blockedOn": named, "message": blocked(missing)} if named else {}


def quarantine_part(suspect: QuarantinedLog) -> dict[str, Any]:
    """Return why a task is in quarantine, and whether it is running."""
    return {
        "crashes": suspect.deaths,
        "alone": suspect.alone,
        "state": "probation" if suspect.is_at_work else "waiting",
    }


def conversation_of(log_id: LogId, task_id: TaskId) -> LogId | None:
    """Return the conversation of a task; a direct call of its own has none."""
    return None if log_id == LogId(task_id) else log_id


def envelope_part(envelope: Envelope) -> dict[str, Any]:
    """Return an envelope for programs, without the advice for models."""
    part = envelope.to_wire()
    if "error" in part:
        part["error"].pop("suggestion", None)
    return part


def event_part(record: Record) -> dict[str, Any]:
    """Return an event of a task, without what is for the provider of its model alone."""
    body = to_wire(record.event)
    body.pop(_CARRY, None)
    return {
        "seq": record.seq,
        "at": to_iso(record.at),
        "kind": kind_of(record.event),
        "path": record.path,
        "body": body,
    }


def note_part(note: NoteEmitted, path: CallPath | None) -> dict[str, Any]:
    """Return a tool's note: a `note` frame."""
    tools = tools_on(path) if path else ()
    optional = {
        "toolName": tools[-1] if tools else None,
        "title": note.title,
        "message": note.message,
        "payload": note.payload,
    }
    part = {"type": "note", "event": note.event_type, "level": note.level}
    return part | {key: value for key, value in optional.items() if value is not None}


def _output(settled: CallSettled, link_to: LinkTo) -> dict[str, Any]:
    is_clipped = settled.artifact_id is not None
    part: dict[str, Any] = {
        "result": settled.context if is_clipped else settled.envelope.output,
        "resultPreview": settled.preview or "",
    }
    if is_clipped:
        part["truncated"] = True
        part["totalCharacters"] = settled.total_characters
        part["artifactId"] = settled.artifact_id
    images = [_image(each, link_to) for each in settled.files if each.is_image]
    files = [_file(each, link_to) for each in settled.files if not each.is_image]
    if images:
        part["imageUrl"] = images[0]["url"]
        part["images"] = images
    if files:
        part["files"] = files
    return part


def _image(stored: StoredFile, link_to: LinkTo) -> dict[str, Any]:
    part = _file(stored, link_to)
    if stored.width is not None and stored.height is not None:
        part |= {"width": stored.width, "height": stored.height}
    return part


def _file(stored: StoredFile, link_to: LinkTo) -> dict[str, Any]:
    return {"url": link_to(stored), "mimeType": stored.mime_type, "bytes": stored.size}

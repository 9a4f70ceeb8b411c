"""What follows from an event, written with it: tasks, sessions and questions."""

from typing import Any

from sqlalchemy.engine.interfaces import DBAPICursor

from penstock.core.errors import (
    AlreadyAnswered,
    IdempotencyConflict,
    NameTaken,
    NotFound,
    QuestionClosed,
    SessionBusy,
    TaskOver,
)
from penstock.core.events import events
from penstock.core.events.events import Event, Record
from penstock.core.events.flow_events import FlowRequested, RunEnded
from penstock.core.ids import LogId, TaskId
from penstock.core.json_values.canonical import compact, without_surrogates
from penstock.core.limits import Limits
from penstock.core.question import QuestionStatus
from penstock.core.task import FLOW, TaskStatus
from penstock.store.statements import Statements

AT_WORK = "a message is being answered; cancel its task, or wait for its end"
SUPERSEDED = "this message was answered anew meanwhile, or is gone; read the conversation again"


Keyed = events.MessageReceived | events.CallRequested | FlowRequested | events.QuestionAnswered
"""What a request with an Idempotency-Key may become."""


class ProjectionWriter:
    """Admits what comes from outside, and keeps the projections after any event."""

    def __init__(self, statements: Statements, limits: Limits) -> None:
        self._sql = statements
        self._limits = limits

    def admit(self, cursor: DBAPICursor, record: Record) -> None:
        """Refuse an outside event that the log has no room or no use for."""
        match record.event:
            case events.MessageReceived() | events.CallRequested() | FlowRequested() as asked:
                self._admit_task(cursor, record, asked)
            case events.CancelRequested() | RunEnded():
                self._admit_news(cursor, record)
            case events.QuestionAnswered():
                self._admit_answer(cursor, record, record.event)
            case events.MessagesErased(of_task=task_id):
                self._find(cursor, self._sql.task_end, (task_id, record.log_id), "task")
            case _:
                pass

    def follow(self, cursor: DBAPICursor, record: Record) -> None:
        """Write what follows from an event that is being written, or stands in the log."""
        match record.event:
            case events.SessionOpened(profile_id=profile_id, agent=agent, title=title):
                opened = (profile_id, agent, plain(title), record.at, record.at)
                cursor.execute(self._sql.add_session, (record.log_id, *opened))
            case events.MessageReceived() | events.CallRequested() | FlowRequested():
                self._queue(cursor, record, record.event)
            case events.Erased():
                # of a message that was erased the task stays
                erased = (record.task_id, record.at, record.seq, record.log_id)
                cursor.execute(self._sql.add_erased_task, erased)
            case events.QuestionAsked() | events.QuestionAnswered():
                self._ask_or_answer(cursor, record, record.event)
            case events.CancelRequested():
                # before the holder learns of it: an answer after this would change nothing
                cursor.execute(self._sql.cancel_task, (record.seq, record.task_id))
                closed = (record.at, record.log_id, record.task_id)
                cursor.execute(self._sql.close_questions, closed)
            case _:
                self._move(cursor, record)

    # ---- who may come in ----

    def _admit_task(
        self,
        cursor: DBAPICursor,
        record: Record,
        event: events.MessageReceived | events.CallRequested | FlowRequested,
    ) -> None:
        cursor.execute(self._sql.in_line, (record.task_id, record.log_id))
        known, queued = cursor.fetchone() or (None, 0)
        if known is not None:
            raise NameTaken(f"there is a task {record.task_id!r} already; take a new id")
        if event.idempotency_key is not None:
            self._claim(cursor, record, event)
        if isinstance(event, events.MessageReceived) and event.supersedes is not None:
            self._admit_again(cursor, record, event.supersedes)
        if queued >= self._limits.queued_tasks:
            raise SessionBusy(
                f"{queued} tasks wait in {record.log_id!r}, more may not; "
                "try again when one is done"
            )

    def _admit_again(self, cursor: DBAPICursor, record: Record, superseded: TaskId) -> None:
        """Refuse to answer anew while something goes on, or what has left the history."""
        log_id = record.log_id
        cursor.execute(self._sql.superseding, (superseded, log_id, log_id))
        messages, still_open = cursor.fetchone() or (None, 0)
        if still_open:
            raise SessionBusy(AT_WORK)
        if not messages:
            raise SessionBusy(SUPERSEDED)

    def _claim(
        self,
        cursor: DBAPICursor,
        record: Record,
        event: Keyed,
    ) -> None:
        """Take the request's key, or say which task has it; those whose time is over go."""
        key, log_id, at = event.idempotency_key, record.log_id, record.at
        oldest = at - 1000 * self._limits.idempotency_seconds
        claim = (key, event.request_hash, record.task_id, at, log_id, oldest)
        cursor.execute(self._sql.claim, claim)
        if cursor.fetchone() is not None:
            cursor.execute(self._sql.forget_claims, (oldest,))
            return
        cursor.execute(self._sql.claimed, (key, log_id))
        request_hash, first_log, task_id = cursor.fetchone() or (None, None, None)
        same = request_hash == event.request_hash
        details = {"task_id": task_id, "log_id": first_log, "same": same}
        raise IdempotencyConflict(details=details)

    def _admit_news(self, cursor: DBAPICursor, record: Record) -> None:
        key = (record.task_id, record.log_id)
        if self._find(cursor, self._sql.task_end, key, "task")[0] is not None:
            raise TaskOver(f"the task {record.task_id!r} has ended; nothing can happen in it")

    def _admit_answer(
        self, cursor: DBAPICursor, record: Record, answer: events.QuestionAnswered
    ) -> None:
        key = (answer.question_id, record.log_id)
        status, seq = self._find(cursor, self._sql.question_end, key, "question")
        if status == QuestionStatus.ANSWERED:
            raise AlreadyAnswered(details={"question": answer.question_id, "seq": seq})
        if status == QuestionStatus.CANCELLED:
            raise QuestionClosed
        if answer.idempotency_key is not None:
            self._claim(cursor, record, answer)

    def is_late(self, cursor: DBAPICursor, log_id: LogId, event: Event) -> bool:
        """Whether the event closes a question that an event of the log has closed before."""
        if not isinstance(event, events.QuestionAnswered):
            return False
        cursor.execute(self._sql.question_end, (event.question_id, log_id))
        found = cursor.fetchone()
        return found is not None and found[1] is not None

    def _find(
        self, cursor: DBAPICursor, statement: str, key: tuple[str | None, str], noun: str
    ) -> Any:
        cursor.execute(statement, key)
        found = cursor.fetchone()
        if found is None:
            raise NotFound(f"there is no {noun} {key[0]!r} in {key[1]!r}")
        return found

    # ---- what follows ----

    def _queue(
        self,
        cursor: DBAPICursor,
        record: Record,
        event: events.MessageReceived | events.CallRequested | FlowRequested,
    ) -> None:
        sql, at, log_id = self._sql, record.at, record.log_id
        key = (at, record.seq, log_id)
        if not isinstance(event, events.MessageReceived):
            kind = "call" if isinstance(event, events.CallRequested) else FLOW
            cursor.execute(sql.add_call_task, (record.task_id, kind, event.profile_id, *key))
            return
        if event.supersedes is not None:
            cursor.execute(sql.drop_messages, (log_id, event.supersedes, log_id))
            cursor.execute(sql.recount, (log_id,))
        cursor.execute(sql.add_message_task, (record.task_id, *key))
        cursor.execute(sql.touch, (at, 1, log_id))

    def _move(self, cursor: DBAPICursor, record: Record) -> None:
        """Follow a task from status to status."""
        sql, at, task_id = self._sql, record.at, record.task_id
        match record.event:
            case events.TaskStarted():
                cursor.execute(sql.start_task, (at, record.seq, task_id))
            case events.TaskResumed():
                cursor.execute(sql.set_status, (TaskStatus.RUNNING.value, task_id))
            case events.TaskSuspended():
                cursor.execute(sql.set_status, (TaskStatus.SUSPENDED.value, task_id))
            case events.TaskBlocked(blocked_on=missing):
                blocked_on = compact([each.to_wire() for each in missing])
                cursor.execute(sql.block_task, (blocked_on, task_id))
            case events.TaskEnded(status=status, message_id=message_id):
                said = 0 if message_id is None else 1
                cursor.execute(sql.end_task, (status.value, at, record.seq, said, task_id))
                cursor.execute(sql.close_questions, (at, record.log_id, task_id))
                cursor.execute(sql.touch, (at, said, record.log_id))
            case _:
                pass

    def _ask_or_answer(
        self,
        cursor: DBAPICursor,
        record: Record,
        event: events.QuestionAsked | events.QuestionAnswered,
    ) -> None:
        """Open a question, or take its first answer; only the holder can have a later one."""
        log_id, at, seq = record.log_id, record.at, record.seq
        if isinstance(event, events.QuestionAsked):
            asked = (event.question.question_id, record.task_id, record.task_id, at, seq, log_id)
            cursor.execute(self._sql.add_question, asked)
        else:
            answer = (event.status.value, at, event.by, seq, event.question_id, log_id)
            cursor.execute(self._sql.answer, answer)


HAVE_CONSEQUENCES = frozenset(
    {
        events.SessionOpened,
        events.MessageReceived,
        events.CallRequested,
        FlowRequested,
        events.TaskStarted,
        events.TaskResumed,
        events.TaskSuspended,
        events.TaskBlocked,
        events.TaskEnded,
        events.CancelRequested,
        events.QuestionAsked,
        events.QuestionAnswered,
        events.Erased,
    }
)
"""The kinds of events that something follows from; all others touch no projection."""


def plain(text: str) -> str:
    """Return the text without what a database refuses."""
    return without_surrogates(text).replace("\x00", "")

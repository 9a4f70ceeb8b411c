"""Erasing at a person's wish: the one exception to a log that only grows.

A message is erased by writing blank forms over its events (`blanks`); a log is erased by deleting
its rows and all that was kept in it. Both take along what else holds the text: bodies and results
in the blob store that nothing else refers to, pieces of replies on their way, bytes of removed
files, and the logs of runs of flows that the calls began. Then the database overwrites what it
freed (`Database.scrub`). `tests/journeys/test_erasing.py` looks for a word in every file and every
table afterwards.

What cuts it off leaves nothing unreachable: the transaction that takes events enters the blobs they
named in `loose_blobs`, due at once, and the next sweep deletes them (`finish`). Runs go before what
leads to them, and the same request finds the rest: `tests/store/erasing/test_loose.py`.

What belongs to a profile or to nobody (state, files and secrets of the scopes `profile` and
`shared`, media) outlives conversations; `erase_profile` takes what is the profile's.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

from sqlalchemy import ColumnElement, Connection, select

from penstock.core.clock import Clock, Moment
from penstock.core.envelope import Envelope
from penstock.core.errors import NotFound, StoreCorrupt
from penstock.core.events.codec import kind_of
from penstock.core.events.events import CallSettled, Entry, MessagesErased
from penstock.core.ids import BlobId, LogId, ProfileId, TaskId
from penstock.store.blobs.blobs import Blobs
from penstock.store.changes import drop_log, drop_profile, loosen
from penstock.store.database import Database
from penstock.store.erasing.blanks import half_of
from penstock.store.erasing.loose import (
    FREED,
    SWEPT_AT_ONCE,
    LooseBlob,
    erased,
    erased_at,
    forget,
    is_untidy,
    loosen_erased,
    take_loose,
)
from penstock.store.erasing.overwrite import brief_of, overwrite, refuse_if_busy
from penstock.store.logs.log_units import SendUnit
from penstock.store.projections.projection_writer import ProjectionWriter
from penstock.store.references import (
    RunRequest,
    blobs_of,
    has_traces,
    is_file,
    is_used,
    named_in,
    newest_of,
    requests_of_runs,
    waiter_of,
)
from penstock.store.rows import Rows
from penstock.store.statements import Statements
from penstock.store.tables import (
    deltas,
    events,
    idempotency,
    keys,
    logs,
    questions,
    sessions,
    tasks,
    web_links,
)

ErasedListener = Callable[[LogId], None]
_SETTLED = CallSettled(tool_id="", envelope=Envelope.success(None))


class Erasure:
    """Blanks what was said, and deletes whole logs; what ended stays ended."""

    def __init__(self, database: Database, blobs: Blobs, clock: Clock) -> None:
        self._database = database
        self._blobs = blobs
        self._clock = clock
        self._rows = Rows(blobs, database.limits.body_bytes)
        self._sql = Statements(database.dialect)
        self._projections = ProjectionWriter(self._sql, database.limits)
        self._listeners: list[ErasedListener] = []

    def listen(self, listener: ErasedListener) -> None:
        """Call the listener with each log that was deleted, or in which something was erased.

        It is called as soon as that is committed. What was folded of the log, or waits for readers
        of it, has to go: it may hold what was erased.
        """
        self._listeners.append(listener)

    async def erase_messages(
        self, log_id: LogId, task_id: TaskId, *, user: bool = False, answer: bool = False
    ) -> set[LogId]:
        """Blank a task's user message, its answer, or both, and note that in the log.

        The tasks that answered the same message before are treated alike. With the answer go the
        runs of flows that its calls began; returns their logs. Raises SessionBusy while a task of
        the log is at work, and NotFound.
        """
        large = await self._large(log_id, task_id)
        before = await self._answered_before(log_id, task_id)
        await self._database.read(partial(refuse_if_busy, log_id))
        begun = await self._runs_of({log_id}, {task_id, *before}) if answer else set[LogId]()
        runs = await self._with_runs(begun)
        await self._delete(runs)
        noted = [Entry(MessagesErased(of_task=task_id, user=user, answer=answer), task_id)]
        drafts = self._rows.drafts(noted, self._clock.now())
        send = SendUnit(self._sql, self._projections, log_id, noted, drafts)
        wanted, due = half_of(user=user, answer=answer), erased_at(self._clock.now())

        def unit(connection: Connection) -> None:
            refuse_if_busy(log_id, connection)
            send(connection)
            gone = overwrite(connection, (log_id, task_id), large, wanted)
            for earlier, bodies in before.items():
                gone |= overwrite(connection, (log_id, earlier), bodies, wanted)
            loosen_erased(connection, gone, due)

        await self._database.write(unit, order=log_id)
        self._tell(log_id)
        await self._clear()
        return set(runs)

    async def erase_logs(self, log_ids: Iterable[LogId]) -> set[LogId]:
        """Delete logs with all that follows from them and was kept in them; and their own blobs.

        The runs of flows that their calls began go, too. Returns all logs that were deleted.
        """
        every = await self._with_runs(set(log_ids))
        await self._delete(every)
        await self._clear()
        return set(every)

    async def knows(self, log_id: LogId) -> bool:
        """Whether anything of a log is left, be it only its events or what lists show of it."""
        return await self._database.read(partial(has_traces, log_id))

    async def erase_log(self, log_id: LogId) -> set[LogId]:
        """Delete one log, as `erase_logs` does."""
        return await self.erase_logs([log_id])

    async def erase_profile(self, profile_id: ProfileId) -> set[LogId]:
        """Delete what is kept of a profile: its logs, state, files, secrets, media, keys and links.

        What tools put into shared scopes stays: it is no profile's. Returns the deleted logs.
        """
        write, every, due = self._database.write, set[LogId](), erased_at(self._clock.now())
        await write(partial(drop_profile, profile_id, due))  # with its keys: nobody comes in anew
        while log_ids := await write(partial(_drop_without_logs, profile_id, due)):
            await self._delete(log_ids)  # with its runs: they are the profile's, too
            every.update(log_ids)
        await self._clear()
        return every

    async def finish(self) -> None:
        """Finish what an erasing left when it was cut off. Raises StoreError."""
        if await self._database.read(erased):
            await self._clear()

    async def sweep(self, *, before: Moment | None = None) -> int:
        """Delete the bytes of removed files that nothing else has; returns how many there were.

        At most so many at once: of those that were removed before then, if that is said, and that
        nobody has put again since. It may look through all events, so it is not for every task.
        Raises StoreError.
        """
        now = self._clock.now()
        await self._loosen_abandoned(now)
        if not await self._database.read(partial(is_untidy, before, now)):
            return 0
        loose = await self._database.write(partial(take_loose, before, now))
        # not from `now`: those who gave bytes up have marked them since then
        since = Moment(self._clock.now() + 1) if before is None else before
        kept = await self._drop(dict.fromkeys(loose, since))
        swept = [LooseBlob(each, now) for each in loose if before is None or each not in kept]
        await self._database.write(partial(forget, swept))
        return len(loose)

    async def _loosen_abandoned(self, now: Moment) -> None:
        """Note bytes whose put was cancelled, as if a file had given them up now.

        They count as shared, so that a sweep looks for events that name them, and keeps them if
        another caller puts them before they are due.
        """
        if abandoned := self._blobs.take_abandoned():
            for blob_id in abandoned:
                await self._blobs.share(blob_id)
            await self._database.write(lambda each: loosen(each, abandoned, now))

    async def _delete(self, log_ids: Iterable[LogId]) -> None:
        """Delete the rows of logs in this order; the blobs that they named are due."""
        due = erased_at(self._clock.now())
        for log_id in log_ids:
            seen, named, is_deleted = 0, set[BlobId](), False
            while not is_deleted:
                newest = await self._database.read(partial(newest_of, log_id))
                named |= await self._database.read(partial(blobs_of, log_id, seen))
                since = (events.c.log_id == log_id, events.c.seq > seen)
                named |= await self._named_in_large(*since)
                seen = newest
                unit = partial(_delete_log, log_id, seen, named, due=due)
                is_deleted = await self._database.write(unit, order=log_id)
            self._tell(log_id)

    def _tell(self, log_id: LogId) -> None:
        for listener in self._listeners:
            listener(log_id)

    async def _clear(self) -> None:
        """Delete blobs that are due and those of removed files; overwrite the rows in any case.

        The note that rows were freed goes last: as long as it is there, the next process to start
        does all of this again. A note for the blobs alone was forgotten before files that the task
        had removed were deleted and pages overwritten, and a kill in between left both.
        """
        gone = await self._database.read(erased)
        freed = [each for each in gone if each.blob_id == FREED]
        blobs = [each for each in gone if each.blob_id != FREED]
        try:
            since = Moment(self._clock.now() + 1)  # what is erased was put before
            await self._drop({each.blob_id: since for each in blobs})
            await self._database.write(partial(forget, blobs))
            while await self.sweep() == SWEPT_AT_ONCE:
                pass
        finally:
            is_overwritten = await self._database.scrub()
        if is_overwritten:
            await self._database.write(partial(forget, freed))

    async def _with_runs(self, log_ids: set[LogId]) -> list[LogId]:
        """Return logs after the runs that their calls began, and these after their own runs."""
        every, newest = list(log_ids), log_ids
        while newest:
            newest = (await self._runs_of(newest)).difference(every)
            every = [*newest, *every]
        return every

    async def _runs_of(
        self, log_ids: set[LogId], task_ids: set[TaskId] | None = None
    ) -> set[LogId]:
        """Return the logs of the runs that calls of logs began, or those of some of their tasks."""
        runs = set[LogId]()
        for each in await self._database.read(partial(requests_of_runs, log_ids)):
            log_id, task_id = waiter_of(each.kind, await self._body_of(each))
            if log_id in log_ids and (task_ids is None or task_id in task_ids):
                runs.add(each.log_id)
        return runs

    async def _body_of(self, request: RunRequest) -> str:
        """Return the body of a request, or nothing if it is lost."""
        if request.blob_id is None:
            return request.body
        with suppress(NotFound, StoreCorrupt):
            return (await self._blobs.get(request.blob_id)).decode()
        return ""

    async def _large(self, log_id: LogId, task_id: TaskId) -> dict[BlobId, str]:
        """Return the bodies of a task that stand in the blob store."""
        own = (events.c.log_id == log_id, events.c.task_id == task_id)
        wanted = select(events.c.blob_id).where(*own, events.c.blob_id.is_not(None))
        ids = await self._database.read(lambda each: each.execute(wanted).scalars().all())
        return {blob_id: (await self._blobs.get(blob_id)).decode() for blob_id in ids}

    async def _answered_before(
        self, log_id: LogId, task_id: TaskId
    ) -> dict[TaskId, dict[BlobId, str]]:
        """Return the tasks that answered a task's message before, with their large bodies."""
        found: dict[TaskId, dict[BlobId, str]] = {}
        large = await self._large(log_id, task_id)
        while True:
            brief = partial(brief_of, log_id, task_id, large)
            received = await self._database.read(brief)
            if received is None or received.supersedes is None or received.supersedes in found:
                return found
            task_id = received.supersedes
            large = found[task_id] = await self._large(log_id, task_id)

    async def _drop(self, since: Mapping[BlobId, Moment]) -> set[BlobId]:
        """Delete the blobs that nothing refers to; returns those that were put again since then.

        Whoever put them again has perhaps not committed yet, and gives them up if that fails.
        Events are looked through only for blobs that were put more than once.
        """
        read = self._database.read
        unused = {each for each in since if not await read(partial(is_file, each))}
        shared = {each for each in unused if await self._blobs.is_shared(each)}
        used = {each for each in shared if await read(partial(is_used, each))}
        if shared - used:
            used |= await self._named_in_large()
        kept: set[BlobId] = set()
        for blob_id in unused - used:
            if await self._blobs.is_wanted_since(blob_id, since[blob_id]):
                kept.add(blob_id)
            else:
                await self._blobs.delete(blob_id)
        return kept

    async def _named_in_large(self, *where: ColumnElement[bool]) -> set[BlobId]:
        """Return the blobs that outcomes name whose own bodies stand in the blob store."""
        kind = kind_of(_SETTLED)
        wanted = select(events.c.blob_id).where(events.c.kind == kind, *where).distinct()
        large = wanted.where(events.c.blob_id.is_not(None))
        named: set[BlobId] = set()
        for blob_id in await self._database.read(lambda each: each.execute(large).scalars().all()):
            with suppress(NotFound, StoreCorrupt):
                named |= named_in(kind, (await self._blobs.get(blob_id)).decode())
        return named


def _delete_log(
    log_id: LogId, seen: int, named: set[BlobId], connection: Connection, *, due: Moment
) -> bool:
    """Delete the rows of a log, unless an outcome came since that is to be read before."""
    since = (events.c.log_id == log_id, events.c.seq > seen, events.c.kind == kind_of(_SETTLED))
    large = select(events.c.seq).where(*since, events.c.blob_id.is_not(None))
    if connection.execute(large.limit(1)).first() is not None:
        return False
    loosen_erased(connection, named | blobs_of(log_id, seen, connection), due)
    drop_log(connection, log_id, due)
    for table in (events, tasks, questions, deltas, idempotency, logs):
        connection.execute(table.delete().where(table.c.log_id == log_id))
    for opening in (sessions, keys, web_links):
        connection.execute(opening.delete().where(opening.c.session_id == log_id))
    return True


def _drop_without_logs(profile_id: ProfileId, due: Moment, connection: Connection) -> list[LogId]:
    """Return the logs of a profile; drop what it kept beside them once there are none."""
    own = select(logs.c.log_id).where(logs.c.profile_id == profile_id)
    left = [LogId(each) for each in connection.execute(own).scalars().all()]
    if not left:
        loosen_erased(connection, (), due)
        drop_profile(profile_id, due, connection)
    return left

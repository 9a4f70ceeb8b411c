"""Erases messages, logs and profiles: the one exception to an append-only log.

Guarantees: after an erasure returns, the text is in no table and no file of the store, except where
`Database.scrub` says so. After a crash, the next start or the same request finishes the erasure.

How it works. A message is erased by overwriting its events with blank forms (`blanks`), a log by
deleting its rows. Both also delete the other copies of the text: blobs that nothing else refers to,
pieces of live replies, bytes of removed files, and the logs of the runs that the calls started.
Then the database overwrites the space that it freed (`Database.scrub`).

The transaction that removes events enters the blobs that they named in `loose_blobs`, due at once;
the next sweep deletes them (`finish`). Runs are deleted before the logs that lead to them, so after
a crash the same request still finds the rest.

Scope: state, files and secrets of the scopes `profile` and `shared`, and media, outlive sessions.
`erase_profile` deletes what belongs to the profile; values of `shared` belong to no profile.

Proof: tests/journeys/test_erasing.py searches every file and table for a word afterwards;
tests/promises/test_interrupted_erasures.py covers the interruptions.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from sqlalchemy import ColumnElement, Connection, select

from penstock.core.clock import Clock, Moment
from penstock.core.errors import NotFound, StoreCorrupt
from penstock.core.events.events import Entry
from penstock.core.events.history_events import MessagesErased
from penstock.core.ids import BlobId, LogId, ProfileId, TaskId
from penstock.store import erased_events
from penstock.store.blobs import Blobs
from penstock.store.database import Database
from penstock.store.logs.archive import Archive
from penstock.store.logs.deletion import IsKept, LogDeletion
from penstock.store.logs.log_units import SendUnit, drafts_of
from penstock.store.logs.sql_snapshots import drop_snapshots
from penstock.store.projections import ProjectionWriter
from penstock.store.references import (
    FREED,
    IS_LARGE,
    NAMING,
    SWEEP_SIZE,
    LooseBlob,
    RunRequest,
    blobs_of,
    claim_loose,
    drop_uploads,
    erased,
    erased_at,
    forget,
    has_traces,
    is_file,
    is_untidy,
    is_used,
    named_in,
    newest_of,
    release_erased,
    requests_of_runs,
    undos_of,
    waiter_of,
)
from penstock.store.statements import Statements
from penstock.store.tables import (
    events,
    logs,
)
from penstock.store.values.changes import drop_kept, drop_profile, loosen

ErasedListener = Callable[[LogId], None]


class Erasure:
    """Overwrites erased messages and deletes whole logs. Ended tasks stay listed as ended."""

    def __init__(self, database: Database, blobs: Blobs, clock: Clock) -> None:
        self._database = database
        self._blobs = blobs
        self._clock = clock
        self._sql = Statements(database.dialect)
        self._projections = ProjectionWriter(self._sql, database.limits)
        self._archive = Archive(database, blobs, clock)
        self._listeners: list[ErasedListener] = []

    def listen(self, listener: ErasedListener) -> None:
        """Call the listener with each log that was deleted or had events erased.

        Called right after the commit. The listener must drop every copy in memory (folded states,
        queues of readers), because it may contain the erased text.
        """
        self._listeners.append(listener)

    async def erase_messages(
        self, log_id: LogId, task_id: TaskId, *, user: bool = False, answer: bool = False
    ) -> set[LogId]:
        """Erase a task's user message, its answer, or both, and record that in the log.

        Earlier tasks that answered the same message are erased in the same way. Erasing the answer
        also deletes the runs that its calls started. Returns the logs of these runs. Raises
        SessionBusy while a task of the log is active, and NotFound.
        """
        large = await self._large(log_id, task_id)
        earlier_tasks = await self._answered_before(log_id, task_id)
        # checked before runs are deleted, and again in the transaction, where it is certain
        await self._database.read(partial(erased_events.refuse_if_busy, log_id))
        task_ids = {task_id, *earlier_tasks}
        started = await self._runs_of({log_id}, task_ids) if answer else set[LogId]()
        runs = await self._with_runs(started)
        await self._delete(runs)
        entries = [Entry(MessagesErased(of_task=task_id, user=user, answer=answer), task_id)]
        drafts = drafts_of(entries, self._clock.now())
        send = SendUnit(self._sql, self._projections, log_id, entries, drafts)
        part, due = erased_events.half_of(user=user, answer=answer), erased_at(self._clock.now())

        def unit(connection: Connection) -> None:
            erased_events.refuse_if_busy(log_id, connection)
            send(connection)
            drop_snapshots(connection, log_id)
            blobs = erased_events.overwrite(connection, (log_id, task_id), large, part)
            for earlier, bodies in earlier_tasks.items():
                blobs |= erased_events.overwrite(connection, (log_id, earlier), bodies, part)
            drop_uploads(log_id, blobs, connection)
            drop_kept(connection, log_id, due)  # they may contain what is erased
            release_erased(connection, blobs, due)

        await self._database.write(unit, order=log_id)
        self._notify(log_id)
        await self._clear()
        return set(runs)

    async def erase_logs(self, log_ids: Iterable[LogId]) -> set[LogId]:
        """Delete logs with their list rows, state, files and blobs.

        Also deletes the runs that their calls started. Returns all deleted logs.
        """
        deleted = await self._with_runs(set(log_ids))
        await self._delete(deleted)
        await self._clear()
        return set(deleted)

    async def knows(self, log_id: LogId) -> bool:
        """Whether any row of a log is left, in the events or in a list."""
        return await self._database.read(partial(has_traces, log_id))

    async def erase_log(self, log_id: LogId) -> set[LogId]:
        """Delete one log, as `erase_logs` does."""
        return await self.erase_logs([log_id])

    async def collect(self, log_id: LogId, is_kept: IsKept) -> set[LogId]:
        """Delete a log and its runs as `erase_logs` does, unless one of them `is_kept`.

        No person waits for this, so the space in the files is overwritten later, by `finish`.
        """
        found = await self._with_runs({log_id})
        is_any_kept = partial(_any_of, found, is_kept)
        if await self._database.read(is_any_kept):
            return set()
        deleted = await self._delete(found, is_kept)
        await self._drop_due(await self._database.read(erased))
        return deleted

    async def erase_profile(self, profile_id: ProfileId) -> set[LogId]:
        """Delete a profile's logs, state, files, secrets, media, keys and links.

        Values in shared scopes stay, because they belong to no profile. Returns the deleted logs.
        """
        write, deleted, due = self._database.write, set[LogId](), erased_at(self._clock.now())
        # the keys go first, so that the profile can start nothing new meanwhile
        await write(partial(drop_profile, profile_id, due))
        # a log may be created between two rounds: repeat until one transaction finds none
        while log_ids := await write(partial(_drop_without_logs, profile_id, due)):
            await self._delete(log_ids)  # contains the runs: they belong to the profile, too
            deleted.update(log_ids)
        await self._clear()
        return deleted

    async def finish(self) -> None:
        """Finish an interrupted erasure, if there is one. Raises StoreError."""
        if await self._database.read(erased):
            await self._clear()

    async def sweep(self, *, before: Moment | None = None) -> int:
        """Delete the bytes of removed files that nothing else uses. Return how many were handled.

        Handles a limited number per call: those that were removed before `before`, if that is
        given, and not stored again since. It may read all events. Raises StoreError.
        """
        now = self._clock.now()
        await self._loosen_abandoned(now)
        if not await self._database.read(partial(is_untidy, before, now)):
            return 0
        loose = await self._database.write(partial(claim_loose, before, now))
        # not from `now`: those who gave bytes up have marked them since then
        since = Moment(self._clock.now() + 1) if before is None else before
        kept = await self._drop(dict.fromkeys(loose, since))
        swept = [LooseBlob(each, now) for each in loose if before is None or each not in kept]
        await self._database.write(partial(forget, swept))
        return len(loose)

    async def _loosen_abandoned(self, now: Moment) -> None:
        """Enter blobs whose `put` was cancelled into the list of removed bytes.

        They count as shared: a sweep searches the events for them, and keeps them if another caller
        stores them before they are due.
        """
        if abandoned := self._blobs.take_abandoned():
            for blob_id in abandoned:
                await self._blobs.share(blob_id)
            await self._database.write(lambda each: loosen(each, abandoned, now))

    async def _delete(self, log_ids: Iterable[LogId], is_kept: IsKept | None = None) -> set[LogId]:
        """Delete the rows of logs in this order, and make the blobs that they named due.

        Stops at a log that `is_kept`. Returns the deleted ones.

        A unit of work cannot read blobs. So the references in large outcomes are read
        first, and the deletion is refused, and repeated, if another large outcome came meanwhile.
        """
        due, deleted = erased_at(self._clock.now()), set[LogId]()
        delete = LogDeletion(self._sql, self._projections, self._clock).delete
        for log_id in log_ids:
            seen, named = 0, set[BlobId]()
            is_deleted: bool | None = False
            while not is_deleted:
                newest = await self._database.read(partial(newest_of, log_id))
                named |= await self._database.read(partial(blobs_of, log_id, seen))
                since = (events.c.log_id == log_id, events.c.seq > seen)
                named |= await self._named_in_large(*since)
                seen = newest
                unit = partial(delete, log_id, seen, named, due=due, is_kept=is_kept)
                is_deleted = await self._database.write(unit, order=log_id)
                if is_deleted is None:
                    return deleted
            deleted.add(log_id)
            self._notify(log_id)
        return deleted

    def _notify(self, log_id: LogId) -> None:
        for listener in self._listeners:
            listener(log_id)

    async def _clear(self) -> None:
        """Delete due blobs and the bytes of removed files, then overwrite the freed rows.

        The marker that rows were freed is deleted last: while it exists, the next start repeats all
        of this. An earlier version had a marker for the blobs alone. A kill after its deletion left
        the removed files on disk and the pages not overwritten.
        """
        entries = await self._database.read(erased)
        freed = [entry for entry in entries if entry.blob_id == FREED]
        try:
            await self._drop_due(entries)
            while await self.sweep() == SWEEP_SIZE:
                pass
        finally:
            is_overwritten = await self._database.scrub()
        if is_overwritten:
            await self._database.write(partial(forget, freed))

    async def _drop_due(self, entries: Sequence[LooseBlob]) -> None:
        """Delete the blobs of erasures, and their entries."""
        blobs = [entry for entry in entries if entry.blob_id != FREED]
        since = Moment(self._clock.now() + 1)  # erased blobs were stored earlier
        await self._drop({each.blob_id: since for each in blobs})
        await self._database.write(partial(forget, blobs))

    async def _with_runs(self, log_ids: set[LogId]) -> list[LogId]:
        """Return the logs and, before each of them, the runs that its calls started."""
        ordered, newest = list(log_ids), log_ids
        while newest:
            newest = (await self._runs_of(newest)).difference(ordered)
            ordered = [*newest, *ordered]
        return ordered

    async def _runs_of(
        self, log_ids: set[LogId], task_ids: set[TaskId] | None = None
    ) -> set[LogId]:
        """Return the runs that these logs, or these tasks in them, started, and their undos."""
        runs = set[LogId]()
        for request in await self._database.read(partial(requests_of_runs, log_ids)):
            log_id, task_id = waiter_of(request.kind, await self._body_of(request))
            if log_id in log_ids and (task_ids is None or task_id in task_ids):
                runs.add(request.log_id)
        return runs | await self._database.read(partial(undos_of, log_ids, task_ids))

    async def _body_of(self, request: RunRequest) -> str:
        """Return the body of a request, or nothing if it is lost."""
        if request.blob_id is None:
            return request.body
        with suppress(NotFound, StoreCorrupt):
            return (await self._blobs.get(request.blob_id)).decode()
        return ""

    async def _large(self, log_id: LogId, task_id: TaskId) -> dict[BlobId, str]:
        """Move archived bodies of a task back. Return the large bodies that its erasure reads."""
        await self._archive.restore(log_id, task_id)
        ids = await self._database.read(partial(erased_events.large_bodies, log_id, task_id))
        return {blob_id: (await self._blobs.get(blob_id)).decode() for blob_id in ids}

    async def _answered_before(
        self, log_id: LogId, task_id: TaskId
    ) -> dict[TaskId, dict[BlobId, str]]:
        """Return the earlier tasks that answered a task's message, with their large bodies."""
        earlier: dict[TaskId, dict[BlobId, str]] = {}
        large = await self._large(log_id, task_id)
        while True:
            brief = partial(erased_events.message_of_task, log_id, task_id, large)
            message = await self._database.read(brief)
            if message is None or message.supersedes is None or message.supersedes in earlier:
                return earlier
            task_id = message.supersedes
            large = earlier[task_id] = await self._large(log_id, task_id)

    async def _drop(self, since: Mapping[BlobId, Moment]) -> set[BlobId]:
        """Delete the blobs that nothing refers to. Return those that were stored again since then.

        A blob that was stored again is kept, because the event that names it may not be committed
        yet; if that write fails, it releases the blob. Events are searched only for blobs that were
        stored more than once, because the search reads all of them.
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
        """Return the blobs that are named by events whose bodies are blobs themselves."""
        bodies = select(events.c.kind, events.c.blob_id).where(events.c.kind.in_(NAMING), *where)
        large = bodies.where(IS_LARGE).distinct()
        named: set[BlobId] = set()
        for kind, blob_id in await self._database.read(lambda each: each.execute(large).all()):
            with suppress(NotFound, StoreCorrupt):
                named |= named_in(kind, (await self._blobs.get(blob_id)).decode())
        return named


def _any_of(log_ids: Iterable[LogId], is_kept: IsKept, connection: Connection) -> bool:
    return any(is_kept(each, connection) for each in log_ids)


def _drop_without_logs(profile_id: ProfileId, due: Moment, connection: Connection) -> list[LogId]:
    """Return the logs of a profile. If there are none, delete everything else that it has."""
    own = select(logs.c.log_id).where(logs.c.profile_id == profile_id)
    left = list(map(LogId, connection.execute(own).scalars()))
    if not left:
        release_erased(connection, (), due)
        drop_profile(profile_id, due, connection)
    return left

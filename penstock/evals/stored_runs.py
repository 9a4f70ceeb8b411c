"""The runs of a project on disk: which one was cut, which one was the last, and their reports.

A run is written down before its first case is asked, and again with its report when it has ended.
Between the two the log keeps the attempts, so the file needs only the id under which they are
found. It also names the process that makes the run: what is under way is not cut, so that two runs
with one plan at a time are two runs. Shown by tests/evals/test_stored_runs.py.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from penstock.core.errors import ConfigError, NotFound
from penstock.core.json_values.json_text import parse_json
from penstock.core.late import late
from penstock.evals.report import Report
from penstock.store.logs.owners import is_alive, this_process

FOLDER = "evals"
"""Below the project's data folder."""
_lock_folder: Callable[[Path], AbstractContextManager[Any]] = (
    late("penstock.resources.project.flock:held")
    if os.name == "posix"
    else lambda folder: nullcontext()
)


class RunRecord(Struct, frozen=True, kw_only=True):
    """One run: what it asks, and its report."""

    plan: str
    """A hash of all that decides which attempts it makes; see `plan_of`."""
    is_finished: bool
    report: Report
    owner: str = ""
    """The process that makes it, as in a lease; empty if no process does."""

    @property
    def is_cut(self) -> bool:
        """Whether it has not asked all its cases, and no process is known to do so."""
        return not (self.is_finished or is_alive(self.owner))


class StoredRuns:
    """The runs in a project's data folder."""

    def __init__(self, data_folder: Path) -> None:
        self._folder = data_folder / FOLDER

    def unfinished(self, plan: str) -> Report | None:
        """Return the newest run with this plan that was cut, if no later one has ended."""
        for each in self.records():
            if each.plan == plan and (each.is_finished or each.is_cut):
                return None if each.is_finished else each.report
        return None

    def begin(self, plan: str, run: Report, *, is_new: bool = False) -> RunRecord:
        """Write down a run before it asks anything: this one, or the cut one that it continues.

        A run that another process or another task makes at this moment is not continued.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        with _lock_folder(self._folder):  # two that begin at once must not continue the same run
            cut = None if is_new else self.unfinished(plan)
            owner = this_process(run.run_id)
            record = RunRecord(plan=plan, is_finished=False, report=cut or run, owner=owner)
            self.save(record)
        return record

    def finish(self, record: RunRecord, report: Report) -> None:
        """Write the report of a run that has asked all its cases."""
        self.save(replace(record, is_finished=True, report=report, owner=""))

    @contextmanager
    def making(self, record: RunRecord) -> Iterator[None]:
        """Note that a run was cut if the block raises: the next one with its plan continues it."""
        try:
            yield
        except BaseException:
            self.save(replace(record, owner=""))
            raise

    def last(self, dataset: str) -> Report | None:
        """Return the newest finished run of a dataset."""
        finished = (each.report for each in self.records() if each.is_finished)
        return next((each for each in finished if each.dataset == dataset), None)

    def get(self, run_id: str) -> Report:
        """Return a finished run. Raises NotFound if there is none of this id."""
        for record in self.records():
            if record.report.run_id == run_id and record.is_finished:
                return record.report
        known = [each.report.run_id for each in self.records() if each.is_finished]
        raise NotFound(f"there is no finished run {run_id!r}: {', '.join(known[:5]) or 'none yet'}")

    def save(self, record: RunRecord) -> None:
        """Write a run; a reader sees the whole file or the one before."""
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / f"{record.report.run_id}.json"
        unfinished = file.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(msgspec.json.encode(record))
        unfinished.replace(file)

    def records(self) -> Sequence[RunRecord]:
        """Return all runs, the newest first."""
        records = [_read(file) for file in self._folder.glob("*.json")]
        return sorted(records, key=lambda each: each.report.started_at, reverse=True)


def plan_of(parts: Sequence[str | bytes | int]) -> str:
    """Return a hash of what decides which attempts a run makes: its file, agent and models."""
    digest = hashlib.sha256()
    for part in parts:
        content = part if isinstance(part, bytes) else str(part).encode()
        digest.update(b"%d:%b" % (len(content), content))
    return digest.hexdigest()


def _read(file: Path) -> RunRecord:
    try:
        return msgspec.convert(parse_json(file.read_text(encoding="utf-8")), RunRecord)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read the run in {file}: {error}. Delete the file") from None

"""The runs of a project on disk: which one was cut, which one was the last, and their reports.

A run is written down before its first case is asked, and again with its report when it has ended.
Between the two the log keeps the attempts, so the file needs only the id under which they are
found. Shown by tests/evals/test_stored_runs.py.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from penstock.core.errors import ConfigError, NotFound
from penstock.core.json_values.json_text import parse_json
from penstock.evals.report import Report

FOLDER = "evals"
"""Below the project's data folder."""


class RunRecord(Struct, frozen=True, kw_only=True):
    """One run: what it asks, and its report."""

    plan: str
    """A hash of all that decides which attempts it makes; see `plan_of`."""
    is_finished: bool
    report: Report


class StoredRuns:
    """The runs in a project's data folder."""

    def __init__(self, data_folder: Path) -> None:
        self._folder = data_folder / FOLDER

    def unfinished(self, plan: str) -> Report | None:
        """Return the newest run with this plan that was cut, if the newest such run was cut."""
        own = [each for each in self.records() if each.plan == plan]
        return own[0].report if own and not own[0].is_finished else None

    def begin(self, plan: str, run: Report, *, is_new: bool = False) -> Report:
        """Write down a run before it asks anything; return it, or the cut one that continues."""
        cut = None if is_new else self.unfinished(plan)
        self.save(RunRecord(plan=plan, is_finished=False, report=cut or run))
        return cut or run

    def finish(self, plan: str, run: Report) -> None:
        """Write the report of a run that has asked all its cases."""
        self.save(RunRecord(plan=plan, is_finished=True, report=run))

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

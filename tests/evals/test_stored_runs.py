"""The runs of a project on disk."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.core.clock import Moment
from penstock.core.errors import ConfigError, NotFound
from penstock.evals.report import Report
from penstock.evals.stored_runs import FOLDER, RunRecord, StoredRuns, plan_of


def test_a_run_that_was_cut_is_found_by_its_plan_until_it_is_finished(tmp_path: Path) -> None:
    runs = StoredRuns(tmp_path)
    cut = RunRecord(plan="p", is_finished=False, report=run("eval_1", 1))
    runs.save(cut)
    assert runs.unfinished("p") == cut.report
    assert runs.unfinished("other") is None
    runs.save(replace(cut, is_finished=True))
    assert runs.unfinished("p") is None


def test_a_run_that_was_cut_before_a_finished_one_stays_cut(tmp_path: Path) -> None:
    runs = StoredRuns(tmp_path)
    runs.save(RunRecord(plan="p", is_finished=False, report=run("eval_1", 1)))
    runs.save(RunRecord(plan="p", is_finished=True, report=run("eval_2", 2)))
    assert runs.unfinished("p") is None


def test_the_last_run_of_a_dataset_is_its_newest_finished_one(tmp_path: Path) -> None:
    runs = StoredRuns(tmp_path)
    assert runs.last("triage") is None
    for number in (2, 1, 3):
        record = RunRecord(plan="p", is_finished=number < 3, report=run(f"eval_{number}", number))
        runs.save(record)
    last = runs.last("triage")
    assert last is not None
    assert last.run_id == "eval_2"
    assert runs.last("other") is None


def test_an_unknown_run_names_those_that_exist(tmp_path: Path) -> None:
    runs = StoredRuns(tmp_path)
    runs.save(RunRecord(plan="p", is_finished=True, report=run("eval_1", 1)))
    assert runs.get("eval_1").run_id == "eval_1"
    with pytest.raises(NotFound, match="no finished run 'eval_9': eval_1"):
        runs.get("eval_9")


def test_a_broken_file_of_a_run_is_named(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "eval_1.json").write_text("{")
    with pytest.raises(ConfigError, match=r"eval_1\.json: .* Delete the file"):
        StoredRuns(tmp_path).last("triage")


def test_a_plan_depends_on_each_part_and_on_where_parts_end() -> None:
    parts: list[list[str | bytes | int]] = [["ab", "c"], ["a", "bc"], [b"ab", "c", 1], ["abc"]]
    assert len({plan_of(each) for each in parts}) == 4


def run(run_id: str, started_at: int) -> Report:
    """Return an empty report."""
    moment = Moment(started_at)
    return Report(run_id=run_id, dataset="triage", agent="a", attempts=(), started_at=moment)

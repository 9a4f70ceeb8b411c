"""The runs of a project on disk."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

import penstock
from penstock import Agent
from penstock.core.clock import Moment
from penstock.core.errors import ConfigError, NotFound
from penstock.evals import Case, Dataset, evaluate
from penstock.evals.report import Report
from penstock.evals.stored_runs import FOLDER, RunRecord, StoredRuns, plan_of
from penstock.models.scripted import ScriptedModel, say
from penstock.store.logs.owners import this_process


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


def test_a_run_that_a_living_process_makes_is_not_cut(tmp_path: Path) -> None:
    runs = StoredRuns(tmp_path)
    first = runs.begin("p", run("eval_1", 1))
    assert runs.unfinished("p") is None
    second = runs.begin("p", run("eval_2", 2))
    assert second.report.run_id == "eval_2"
    with pytest.raises(ZeroDivisionError), runs.making(first):
        raise ZeroDivisionError
    assert runs.unfinished("p") == first.report
    runs.finish(second, second.report)
    assert runs.unfinished("p") is None


@pytest.mark.parametrize("owner", ["", "another-host/boot/1/1/n", "dead"])
def test_a_run_whose_process_has_ended_or_is_unknown_is_cut(tmp_path: Path, owner: str) -> None:
    runs = StoredRuns(tmp_path)
    host, boot, _, start, nonce = this_process("n").split("/")
    ended = f"{host}/{boot}/4194305/{start}/{nonce}"
    owner = ended if owner == "dead" else owner
    runs.save(replace(runs.begin("p", run("eval_1", 1)), owner=owner))
    continued = runs.begin("p", run("eval_2", 2))
    assert continued.report.run_id == "eval_1"
    assert runs.unfinished("p") is None


async def test_two_runs_with_one_plan_at_a_time_ask_each_for_itself(tmp_path: Path) -> None:
    model, clerk = ScriptedModel({"": say("fire")}), Agent("clerk", tools=())
    triage = Dataset("triage", [Case("burns", input="It burns", expected="fire")])
    async with penstock.open(tmp_path, model=model, settings={"synchronous": "NORMAL"}) as runtime:
        work = [evaluate(triage, agent=clerk, runtime=runtime) for _ in range(2)]
        first, second = await asyncio.gather(*work)
        third = await evaluate(triage, agent=clerk, runtime=runtime)
    assert len({first.run_id, second.run_id, third.run_id}) == 3
    assert [each.pass_rate for each in (first, second, third)] == [1, 1, 1]
    assert len(model.requests) == 3


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

"""The result of a dry run on the wire."""

from penstock.flows.dry_run.outcome import DryRun, ReachedBranch


def test_programs_read_the_reached_steps_and_branches() -> None:
    branch = ReachedBranch(step="a", branch="Go", is_walked=True)
    dry = DryRun(runs=2, starts=3, reached=("a",), branches=(branch,))
    assert dry.to_wire() == {
        "runs": 2,
        "starts": 3,
        "reached": ["a"],
        "branches": [{"step": "a", "branch": "Go", "walked": True}],
        "complete": True,
    }

"""Skills that are selected at the command line."""

from collections.abc import Sequence
from pathlib import Path

import pytest
import typer

from penstock.app.runtime import Runtime
from penstock.cli.arguments.project import run
from penstock.cli.arguments.skills import selected
from penstock.core.ids import ASSISTANT


def chosen(project: Path, names: Sequence[str]) -> tuple[str, ...]:
    """Select skills in a project that is opened for it."""

    async def work(runtime: Runtime) -> tuple[str, ...]:
        return selected(runtime, ASSISTANT, names)

    return run(project, work)


def test_skills_that_are_named_are_selected_in_their_order(project: Path) -> None:
    assert chosen(project, ["write_csv", "read_csv"]) == ("write_csv", "read_csv")


def test_every_skill_that_is_none_is_named_with_the_nearest(project: Path) -> None:
    with pytest.raises(typer.BadParameter) as refused:
        chosen(project, ["read_cvs", "read_csv", "nonsense"])
    said = refused.value.message
    assert "--skill: no skill 'read_cvs'. Did you mean 'read_csv'?" in said
    assert "--skill: no skill 'nonsense'." in said

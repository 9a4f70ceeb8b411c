"""Skills that are selected at the command line."""

from collections.abc import Sequence
from typing import Annotated

import typer

from penstock.app.runtime import Runtime
from penstock.chat.selecting import unknown_skills

SkillNames = Annotated[
    list[str] | None,
    typer.Option("--skill", metavar="ID", help="A skill that is selected; may come again."),
]


def selected(runtime: Runtime, agent: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the skills that were named. Raises BadParameter for one that cannot be selected."""
    parts = runtime.parts
    wrong = unknown_skills(names, parts.skills, parts.agents.get(agent), runtime.local)
    if wrong:
        raise typer.BadParameter("; ".join(f"--skill: {each.message}" for each in wrong))
    return tuple(names)

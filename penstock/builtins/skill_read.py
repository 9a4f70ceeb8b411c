"""`skill_read`: one topic file of a handbook, read when it is needed."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.call import SKILL_READ, Effect
from penstock.core.envelope import Json
from penstock.manifest.handbook import Handbooks
from penstock.tools.builtin import fields_of
from penstock.tools.invocation import Invocation
from penstock.tools.spec import ToolSpec
from penstock.tools.tool import Tool

ABOUT = (
    "Read one topic file of a skill: reference text that is not in your instructions. Only files "
    "that the skill's index, SKILL.md, lists can be read. Returns the text of the file."
)
NAME: Json = {"type": "string", "minLength": 1, "maxLength": 1024}
SPEC = ToolSpec(
    tool_id=SKILL_READ,
    description=f"{ABOUT} There are no skills.",
    input_schema=fields_of(
        {
            "skill": {**NAME, "description": "The name of the skill"},
            "file": {**NAME, "description": "A file that the skill lists, as it is listed"},
        }
    ),
    effect=Effect.READ,
)


class SkillRead(Struct, frozen=True, kw_only=True):
    """Reads the handbooks of a project; its description lists them."""

    spec: ToolSpec = SPEC
    handbooks: Handbooks

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return the text of a file."""
        read = partial(self.handbooks.read, input["skill"], input["file"])
        return await invocation.inside.threads.run(read)

    def preview(self, output: Any) -> str | None:
        """Return the usual line."""
        return None


def with_handbooks(tools: Iterable[Tool], handbooks: Handbooks) -> tuple[Tool, ...]:
    """Return the tools, with the one that reads handbooks over these."""
    return tuple(_over(each, handbooks) if isinstance(each, SkillRead) else each for each in tools)


def _over(tool: SkillRead, handbooks: Handbooks) -> SkillRead:
    listed = handbooks.listed()
    about = f"{ABOUT} The skills, with their files:\n{listed}" if listed else SPEC.description
    return replace(tool, spec=replace(tool.spec, description=about), handbooks=handbooks)


TOOLS = (SkillRead(handbooks=Handbooks()),)

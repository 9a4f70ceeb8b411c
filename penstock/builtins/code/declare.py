"""Declares the tools of the project's folder, which need a permission."""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from penstock.core.call import Effect
from penstock.core.envelope import Json
from penstock.resources.project.files import ProjectFiles
from penstock.tools.builtin import Act, BuiltIn, builtin
from penstock.tools.shell import ShellSettings
from penstock.tools.spec import Look

READ, WRITE = "project.read", "project.write"
PATH: Json = {
    "type": "string",
    "minLength": 1,
    "maxLength": 4096,
    "description": "A path from the project's folder, or an absolute one in it",
}
FOLDER: Json = {**PATH, "description": "Where to begin; the project's folder if it is left out"}
YES_OR_NO: Json = {"type": "boolean"}


def of_project(
    description: str,
    fields: Mapping[str, Json],
    *,
    permission: str = READ,
    idempotent: bool = False,
    look: Look,
) -> Callable[[Act], BuiltIn]:
    """Return a decorator that makes a tool of a coroutine on the project's folder.

    `look` refuses what the coroutine refuses of an input, without doing anything.
    """
    effect = Effect.READ if permission == READ else Effect.WRITE

    def make(act: Act) -> BuiltIn:
        made = builtin(description, fields, effect=effect, stays_inside=False)(act)
        spec = replace(
            made.spec,
            is_offered=True,
            requires_permissions=frozenset({permission}),
            idempotent=idempotent,
            asks_in_chats=effect is Effect.WRITE,
            look=look,
        )
        return replace(made, spec=spec)

    return make


def look_below(input: Json, files: ProjectFiles, _: ShellSettings) -> None:
    """Raise NotPermitted for a place in which the agent's patterns allow no reading."""
    files.start(input.get("path", "."))

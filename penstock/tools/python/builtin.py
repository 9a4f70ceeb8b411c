"""Built-in tools as their authors declare them: a short form of the input, and a coroutine."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.core.call import Effect
from penstock.core.envelope import Json
from penstock.core.json_values.schema import Problem
from penstock.core.scopes import FilePath, parse_path
from penstock.tools.failures import invalid
from penstock.tools.invocation import Invocation
from penstock.tools.spec import ToolSpec

Act = Callable[[Json, Invocation], Awaitable[Any]]
TEXT: Json = {"type": "string"}
NAME: Json = {"type": "string", "minLength": 1, "maxLength": 255}
URI: Json = {"type": "string", "description": "A file's address: task://… or session://…"}


class BuiltIn(Struct, frozen=True, kw_only=True):
    """A tool of the runtime itself, which models get through skills."""

    spec: ToolSpec
    act: Act

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return the output."""
        return await self.act(input, invocation)

    def preview(self, output: Any) -> str | None:
        """Return the path of the output, if it has one, or None for the default line."""
        if not isinstance(output, dict):
            return None
        name: str | None = output.get("path") or output.get("output_path")
        return name


def builtin(
    description: str,
    fields: Mapping[str, Json],
    *,
    effect: Effect,
    tool_id: str = "",
    is_transactional: bool = True,
) -> Callable[[Act], BuiltIn]:
    """Turn a coroutine into a tool; its name is the default id.

    A field whose name ends with `?` is optional, and no other fields are allowed. A write is
    in one transaction with the record of its outcome unless `is_transactional` is False.
    """

    def make(act: Act) -> BuiltIn:
        return BuiltIn(
            act=act,
            spec=ToolSpec(
                tool_id=tool_id or getattr(act, "__name__", ""),
                description=description,
                input_schema=fields_of(fields),
                effect=effect,
                is_transactional=is_transactional and effect is Effect.WRITE,
                exclusive=_path_of if effect is Effect.WRITE and "path" in fields else False,
                is_offered=False,
            ),
        )

    return make


def offered_without(old: str, *, instead: str) -> Callable[[BuiltIn], BuiltIn]:
    """Hide the old name of a member from models. Calls may still use either name."""

    def make(tool: BuiltIn) -> BuiltIn:
        schema = tool.spec.input_schema
        properties = {name: each for name, each in schema["properties"].items() if name != old}
        required = [name for name in properties if name in {*schema["required"], instead}]
        offered = {**schema, "required": required, "properties": properties}
        return replace(tool, spec=replace(tool.spec, offered_schema=offered))

    return make


def _path_of(input: Json) -> str:
    """Return the path of the changed file: calls in one reply that share it run in turn."""
    return str(input["path"])


def fields_of(fields: Mapping[str, Json]) -> Json:
    """Return the schema of an object with these fields and no others."""
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [name for name in fields if not name.endswith("?")],
        "properties": {name.removesuffix("?"): schema for name, schema in fields.items()},
    }


def whole(least: int, most: int, description: str = "") -> Json:
    """Return the schema of an integer."""
    described = {"description": description} if description else {}
    return {"type": "integer", "minimum": least, "maximum": most, **described}


def list_of(items: Json, *, most: int | None = None) -> Json:
    """Return the schema of a list with at least one item."""
    bound = {} if most is None else {"maxItems": most}
    return {"type": "array", "items": items, "minItems": 1, **bound}


def place(input: Json, name: str, invocation: Invocation, *, ending: str = "") -> FilePath:
    """Return the file that a field names. Raises InvalidInput if it is not such an address."""
    return read_place(input[name], f"/{name}", invocation, ending=ending)


def read_place(uri: str, pointer: str, invocation: Invocation, *, ending: str = "") -> FilePath:
    """Return the file at an address. Raises InvalidInput for the field at `pointer`."""
    tool_id = invocation.spec.tool_id
    try:
        path = parse_path(uri)
    except ValueError as error:
        raise invalid(tool_id, [Problem(pointer, str(error))]) from None
    if not path.name.lower().endswith(ending):
        raise invalid(tool_id, [Problem(pointer, f"the name ends with {ending}, found {uri!r}")])
    return path

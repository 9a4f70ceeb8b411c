"""JSON Schemas that stand in manifests: what is wrong with them, at its line."""

from msgspec import Struct

from penstock.core.envelope import Json
from penstock.core.schema import check_schema, pointer, remote_refs
from penstock.core.text import cut
from penstock.manifest.fields import WRONG, Invalid, Node, found, quoted

POINTER_CHARACTERS = 500
"""Of the path to what is wrong: names in a schema may be as long as its author likes."""


class JsonSchema(Struct, frozen=True, kw_only=True):
    """A JSON Schema, draft 2020-12, that refers to nothing outside itself."""

    is_object: bool = False
    """It must have the type `object`, as the input of a tool has."""
    wanted: str = "a JSON Schema object"

    def read(self, node: Node) -> Json | Invalid:
        """Return the schema as it is written."""
        schema = node.value
        if not isinstance(schema, dict):
            return node.wrong_type(self.wanted)
        is_whole = _is_whole(node)
        if self.is_object and schema.get("type") != "object" and is_whole:
            seen = found(schema["type"]) if "type" in schema else "nothing"
            at = node.at("type").place if "type" in schema else node.place
            said = f'"{node.name}" must have type "object", found {seen}'
            return node.refuse("schema-not-object", said, at=at)
        return schema if is_whole else WRONG


def _is_whole(node: Node) -> bool:
    """Whether nothing is wrong with the schema; what is, is noted."""
    faults = check_schema(node.value)
    if not faults:
        return True
    remote = {each.path: each.ref for each in remote_refs(node.value)}
    for path, ref in remote.items():
        said = f'"$ref" to {quoted(ref)} is refused: only references inside the same schema'
        node.at(*path).refuse("remote-ref", said)
    for fault in faults:
        if fault.path not in remote:
            where = cut(pointer(list(fault.path)), POINTER_CHARACTERS) or "/"
            said = f'"{node.name}" is not a valid JSON Schema (2020-12): {fault.message} at {where}'
            node.at(*fault.path).refuse("bad-schema", said)
    return False

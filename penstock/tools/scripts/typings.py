"""`flo.d.ts`: the globals of scripts and the tools that they reach, as TypeScript declarations.

JSON Schemas become types (`SchemaTypes`). A type never refuses a value that its schema accepts: a
schema that TypeScript cannot express, or that is nested too deeply, becomes `FloJsonValue`. Proof:
tests/tools/scripts/test_typings.py.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

from penstock.core.envelope import Json
from penstock.core.text import cut, one_line
from penstock.manifest.bundle import Bundle
from penstock.manifest.skill import SkillManifest, grant
from penstock.manifest.tool import ToolManifest
from penstock.sandbox.sources import fixed_part, known_outputs
from penstock.tools.scripts.manifests import spec_of
from penstock.tools.spec import ToolSpec

MARK = "// flo.d.ts of penstock "
"""What such a file begins with; one that begins otherwise is its author's own."""
DEEPEST = 12
"""What lies deeper is any JSON value."""
MOST_DESCRIPTION = 500
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_OF_OBJECTS = {"properties", "required", "additionalProperties"}
_OF_ARRAYS = {"items", "prefixItems"}


class Typings:
    """The declarations of a project's folders, each with the tools in reach of its manifests."""

    def __init__(
        self,
        bundle: Bundle,
        skills: Mapping[str, SkillManifest],
        others: Iterable[ToolSpec],
        version: str,
    ) -> None:
        """`skills` are all that can be selected, `others` the tools that no manifest defines."""
        manifests = {each.tool_id: spec_of(each) for each in bundle.every_tool if each.tool_id}
        whole = [each for each in others if not each.is_broken]
        self._specs = {each.tool_id: each for each in whole} | manifests
        self._built_in = {each.tool_id for each in whole if each.kind == "builtin"}
        self._bundle = bundle
        self._skills = skills
        self._version = version

    def folders(self) -> list[str]:
        """Return the folders that hold manifests of scripts, relative to the project.

        `.` is the project.
        """
        own = [each.folder for each in self._bundle.every_tool]
        prompts = self._bundle.prompts
        if prompts is not None and prompts.resolver is not None:
            own.append(prompts.folder)
        return sorted({*own, *(each.folder for each in self._bundle.skills.values())})

    def of(self, folders: Sequence[str]) -> str:
        """Return one file for the scripts of these folders."""
        reached = set[str]().union(*(self._reached(each) for each in folders))
        found = [self._specs[each] for each in sorted(reached) if each in self._specs]
        return declare(found, self._version)

    def _reached(self, folder: str) -> Iterable[str]:
        """Yield the ids in reach of the manifests of a folder; some may not exist."""
        tools = [each for each in self._bundle.every_tool if each.folder == folder]
        yield from self._built_in
        yield from (each.tool_id for each in self._specs.values() if _is_open(each))
        for each in tools:
            yield from each.script_tools if each.direct_call else ()
        granted = grant([each.skill_id for each in self._near(folder, tools)], self._skills)
        yield from (*granted.tools, *granted.script_tools, *granted.inline)

    def _near(self, folder: str, tools: Iterable[ToolManifest]) -> list[SkillManifest]:
        """Return the skills that are in the folder, or that bring its tools along."""
        ids = {each.tool_id for each in tools}
        return [
            each
            for each in self._bundle.skills.values()
            if each.folder == folder or not ids.isdisjoint((*each.tools, *each.script_tools))
        ]


def declare(tools: Iterable[ToolSpec], version: str) -> str:
    """Return the declarations for scripts that reach these tools."""
    types = SchemaTypes()
    lines = [_entry(each, types) for each in tools]
    head = f"{MARK}{version}, written by `penstock types`: changes are lost.\n\n"
    tool_map = f"\n// ---- the tools in reach\n\ninterface FloToolMap {{\n{''.join(lines)}}}\n"
    named = types.declarations()
    return head + fixed_part() + tool_map + (f"\n{named}" if named else "")


class SchemaTypes:
    """The types of many schemas; referenced types get unique names."""

    def __init__(self) -> None:
        self._named: dict[str, str] = {}

    def of(self, schema: Any, name: str, indent: str = "") -> str:
        """Return the type of a schema; what it refers to is named after `name`."""
        return _Schema(schema, name, self._named).whole(indent)

    def declarations(self) -> str:
        """Return what was referred to, as declarations."""
        return "".join(f"type {name} = {text};\n" for name, text in self._named.items())


def doc_comment(text: Any, indent: str) -> str:
    """Return a description as the comment that editors show, or nothing."""
    if not isinstance(text, str) or not text.strip():
        return ""
    safe = cut(one_line(text), MOST_DESCRIPTION).replace("*/", "*\\/")
    return f"{indent}/** {safe} */\n"


def member(name: str) -> str:
    """Return the name of a member as it is written."""
    return name if _NAME.fullmatch(name) else json.dumps(name)


def _entry(spec: ToolSpec, types: SchemaTypes) -> str:
    given = types.of(spec.input_schema, f"{spec.tool_id}_input", "    ")
    if spec.output_schema is not None:
        output = types.of(spec.output_schema, f"{spec.tool_id}_output", "    ")
    elif spec.kind == "builtin" and spec.tool_id in known_outputs():
        output = f'FloBuiltInOutputs["{spec.tool_id}"]'
    else:
        output = "FloJsonValue"
    return (
        f"{doc_comment(spec.description, '  ')}  {member(spec.tool_id)}: {{\n"
        f"    input: {given};\n    output: {output};\n  }};\n"
    )


def _is_open(spec: ToolSpec) -> bool:
    return spec.direct_call or spec.is_global


class _Type(Struct, frozen=True):
    text: str
    is_unit: bool = True
    """A sign beside it means all of it."""

    def __str__(self) -> str:
        return self.text if self.is_unit else f"({self.text})"


_JSON, _NEVER = _Type("FloJsonValue"), _Type("never")
_SIMPLE = {
    "string": _Type("string"),
    "number": _Type("number"),
    "integer": _Type("number"),
    "boolean": _Type("boolean"),
    "null": _Type("null"),
}


class _Schema:
    """One schema with its references."""

    def __init__(self, root: Any, name: str, named: dict[str, str]) -> None:
        self._root = root
        self._stem = "Flo_" + re.sub(r"\W", "_", name, flags=re.ASCII)
        self._named = named
        self._has_tuples = '"prefixItems"' in json.dumps(root)
        self._names: dict[str, str] = {}
        """The name of what each reference points to."""
        self._waiting: list[tuple[str, Any]] = []

    def whole(self, indent: str) -> str:
        """Return the type; everything that it refers to is declared by then."""
        text = self._type(self._root, indent, 0).text
        while self._waiting:
            name, schema = self._waiting.pop()
            self._named[name] = self._type(schema, "", 0).text
        return text

    def _type(self, schema: Any, indent: str, depth: int) -> _Type:
        if schema is False:
            return _NEVER
        if not isinstance(schema, Mapping) or depth > DEEPEST:
            return _JSON
        parts = [each for each in self._parts(schema, indent, depth) if each != _JSON]
        return _joined(" & ", parts) if parts else _JSON

    def _parts(self, schema: Json, indent: str, depth: int) -> Iterator[_Type]:
        """Yield everything that a value is at once."""
        if isinstance(schema.get("$ref"), str):
            yield self._reference(schema["$ref"])
        yield self._own(schema, indent, depth)
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list):
                yield _either(self._type(each, indent, depth + 1) for each in schema[key])
        if isinstance(schema.get("allOf"), list):
            yield from (self._type(each, indent, depth + 1) for each in schema["allOf"])

    def _own(self, schema: Json, indent: str, depth: int) -> _Type:
        """Return the type from the schema itself."""
        if "const" in schema:
            return _literal(schema["const"])
        if isinstance(schema.get("enum"), list):
            return _joined(" | ", map(_literal, schema["enum"]))
        kinds = schema.get("type")
        if kinds is None:
            if _OF_OBJECTS & schema.keys():
                kinds = "object"
            elif _OF_ARRAYS & schema.keys():
                kinds = "array"
        several = kinds if isinstance(kinds, list) else [kinds]
        return _either(self._kind(each, schema, indent, depth) for each in several)

    def _kind(self, kind: Any, schema: Json, indent: str, depth: int) -> _Type:
        if kind == "array":
            return self._array(schema, indent, depth)
        if kind == "object":
            return self._object(schema, indent, depth)
        return _SIMPLE.get(kind, _JSON) if isinstance(kind, str) else _JSON

    def _array(self, schema: Json, indent: str, depth: int) -> _Type:
        first, rest = schema.get("prefixItems"), schema.get("items", True)
        others = self._type(rest, indent, depth + 1)
        if not isinstance(first, list) or not first:
            return _Type("[]" if rest is False else f"{others}[]")
        least = schema.get("minItems", 0)
        items = [str(self._type(each, indent, depth + 1)) for each in first]
        shown = [each if at < least else f"{each}?" for at, each in enumerate(items)]
        return _Type(f"[{', '.join(shown if rest is False else [*shown, f'...{others}[]'])}]")

    def _object(self, schema: Json, indent: str, depth: int) -> _Type:
        properties, required = schema.get("properties") or {}, schema.get("required") or []
        others = schema.get("additionalProperties", True)
        is_closed = others is False and not schema.get("patternProperties")
        names = list(dict.fromkeys([*properties, *required]))
        if not names:
            value = self._type(is_closed is False and (others or True), indent, depth + 1)
            return _Type(f"{{ [key: string]: {value.text} }}")
        inner = indent + "  "
        lines = []
        for name in names:
            value, about = properties.get(name, True), self._comment(properties.get(name), inner)
            mark = "" if name in required else "?"
            text = self._type(value, inner, depth + 1).text
            lines.append(f"{about}{inner}{member(name)}{mark}: {text};\n")
        if not is_closed:
            lines.append(f"{inner}[key: string]: any;\n")
        return _Type(f"{{\n{''.join(lines)}{indent}}}")

    def _comment(self, schema: Any, indent: str) -> str:
        return doc_comment(schema.get("description"), indent) if isinstance(schema, Mapping) else ""

    def _reference(self, ref: str) -> _Type:
        """Return the name of what is referred to, which is declared once."""
        if ref not in self._names:
            found = _target(self._root, ref)
            if found is None or self._is_circular(ref):
                return _JSON
            name = self._names[ref] = self._new_name(ref)
            self._named[name] = ""
            self._waiting.append((name, found))
        return _Type(self._names[ref])

    def _is_circular(self, ref: str) -> bool:
        """Whether a type would be made of itself, without a member or an item between.

        Where there are tuples, an item is not enough: what they spread is looked into at once.
        """
        seen: set[str] = set()
        waiting = list(_bare(_target(self._root, ref), is_deep=self._has_tuples))
        while waiting:
            each = waiting.pop()
            if each == ref:
                return True
            if each not in seen:
                seen.add(each)
                waiting += _bare(_target(self._root, each), is_deep=self._has_tuples)
        return False

    def _new_name(self, ref: str) -> str:
        last = re.sub(r"\W", "_", unquote(ref).rpartition("/")[2].strip("#"), flags=re.ASCII)
        name = wanted = f"{self._stem}_{last}" if last else self._stem
        number = 1
        while name in self._named:
            number += 1
            name = f"{wanted}_{number}"
        return name


def _bare(schema: Any, *, is_deep: bool) -> Iterator[str]:
    """Yield the references that a schema is made of; `is_deep`: in its items, too."""
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if not isinstance(each, Mapping):
            continue
        if isinstance(each.get("$ref"), str):
            yield each["$ref"]
        for key in ("anyOf", "oneOf", "allOf", *(("prefixItems",) if is_deep else ())):
            waiting += each[key] if isinstance(each.get(key), list) else []
        if is_deep:
            waiting.append(each.get("items"))


def _target(root: Any, ref: str) -> Any:
    """Return what a reference points to in its own schema; None for any other."""
    if not (ref == "#" or ref.startswith("#/")):
        return None
    found = root
    for part in unquote(ref[2:]).split("/") if ref != "#" else ():
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        elif isinstance(found, Mapping) and key in found:
            found = found[key]
        else:
            return None
    return found


def _literal(value: Any) -> _Type:
    if isinstance(value, list):
        return _Type(f"[{', '.join(_literal(each).text for each in value)}]")
    if isinstance(value, Mapping):
        inside = "; ".join(f"{member(name)}: {_literal(each).text}" for name, each in value.items())
        return _Type(f"{{ {inside} }}" if inside else "{ [key: string]: never }")
    return _Type(json.dumps(value))


def _either(choices: Iterable[_Type]) -> _Type:
    several = list(choices)
    return _JSON if _JSON in several else _joined(" | ", several)


def _joined(sign: str, parts: Iterable[_Type]) -> _Type:
    several = list(dict.fromkeys(parts))
    if not several:
        return _NEVER
    if len(several) == 1:
        return several[0]
    return _Type(sign.join(str(each) for each in several), is_unit=False)

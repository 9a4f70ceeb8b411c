"""`flo.d.ts`: the globals of scripts and the tools that they reach, as TypeScript declarations.

JSON Schemas become types (`SchemaTypes`). A schema that TypeScript cannot express, or that nests
too deeply, becomes `FloJsonValue`, so that the declarations always compile. Proof:
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
from penstock.sandbox.guest_sources import fixed_part, known_outputs
from penstock.tools.scripts.load import spec_of
from penstock.tools.spec import ToolSpec

MARK = "// flo.d.ts of penstock "
"""The first words of a generated file. A file without them belongs to its author."""
MAX_DEPTH = 12
"""Deepest nesting of a generated type; anything deeper is `FloJsonValue`."""
MAX_DESCRIPTION = 500
_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_OF_OBJECTS = {"properties", "required", "additionalProperties"}
_OF_ARRAYS = {"items", "prefixItems"}


class Typings:
    """The declarations for the folders of a project, each with the tools that it reaches."""

    def __init__(
        self,
        bundle: Bundle,
        skills: Mapping[str, SkillManifest],
        others: Iterable[ToolSpec],
        version: str,
    ) -> None:
        """`skills` are all skills; `others` are the tools that no manifest defines."""
        manifests = {tool.tool_id: spec_of(tool) for tool in bundle.every_tool if tool.tool_id}
        usable = [spec for spec in others if not spec.is_broken]
        self._specs = {spec.tool_id: spec for spec in usable} | manifests
        self._built_in = {spec.tool_id for spec in usable if spec.kind == "builtin"}
        self._bundle = bundle
        self._skills = skills
        self._version = version

    def folders(self) -> list[str]:
        """Return the folders with manifests of scripts, relative to the project (`.`)."""
        own = [each.folder for each in self._bundle.every_tool]
        prompts = self._bundle.prompts
        if prompts is not None and prompts.resolver is not None:
            own.append(prompts.folder)
        return sorted({*own, *(each.folder for each in self._bundle.skills.values())})

    def declare_for(self, folders: Sequence[str]) -> str:
        """Return one file for the scripts of these folders."""
        reached = set[str]().union(*(self._reached(folder) for folder in folders))
        specs = [self._specs[tool_id] for tool_id in sorted(reached) if tool_id in self._specs]
        return declare(specs, self._version)

    def _reached(self, folder: str) -> Iterable[str]:
        """Yield the ids that scripts of a folder may call; some may not exist."""
        tools = [tool for tool in self._bundle.every_tool if tool.folder == folder]
        yield from self._built_in
        yield from (spec.tool_id for spec in self._specs.values() if _is_open(spec))
        for tool in tools:
            yield from tool.script_tools if tool.direct_call else ()
        granted = grant([skill.skill_id for skill in self._near(folder, tools)], self._skills)
        yield from (*granted.tools, *granted.script_tools, *granted.inline)

    def _near(self, folder: str, tools: Iterable[ToolManifest]) -> list[SkillManifest]:
        """Return the skills in the folder, and those that grant one of its tools."""
        ids = {tool.tool_id for tool in tools}
        return [
            skill
            for skill in self._bundle.skills.values()
            if skill.folder == folder or not ids.isdisjoint((*skill.tools, *skill.script_tools))
        ]


def declare(tools: Iterable[ToolSpec], version: str) -> str:
    """Return the text of a `flo.d.ts` for scripts that reach these tools."""
    types = SchemaTypes()
    lines = [_entry(spec, types) for spec in tools]
    head = f"{MARK}{version}, written by `penstock types`: changes are lost.\n\n"
    tool_map = f"\n// ---- the tools in reach\n\ninterface FloToolMap {{\n{''.join(lines)}}}\n"
    named = types.declarations()
    return head + fixed_part() + tool_map + (f"\n{named}" if named else "")


class SchemaTypes:
    """The types of many schemas. Types that schemas refer to get unique names."""

    def __init__(self) -> None:
        self._named: dict[str, str] = {}

    def type_of(self, schema: Any, name: str, indent: str = "") -> str:
        """Return the type of a schema. The names of its referenced types start with `name`."""
        return _Schema(schema, name, self._named).whole(indent)

    def declarations(self) -> str:
        """Return the declarations of all referenced types."""
        return "".join(f"type {name} = {text};\n" for name, text in self._named.items())


def doc_comment(text: Any, indent: str) -> str:
    """Return a description as a doc comment, which editors show; an empty text if there is none."""
    if not isinstance(text, str) or not text.strip():
        return ""
    # `*/` would end the comment, and the rest of the description would be code.
    safe = cut(one_line(text), MAX_DESCRIPTION).replace("*/", "*\\/")
    return f"{indent}/** {safe} */\n"


def member(name: str) -> str:
    """Return the name of a member as TypeScript source: quoted unless it is an identifier."""
    return name if _NAME.fullmatch(name) else json.dumps(name)


def _entry(spec: ToolSpec, types: SchemaTypes) -> str:
    tool_input = types.type_of(spec.input_schema, f"{spec.tool_id}_input", "    ")
    if spec.output_schema is not None:
        output = types.type_of(spec.output_schema, f"{spec.tool_id}_output", "    ")
    elif spec.kind == "builtin" and spec.tool_id in known_outputs():
        output = f'FloBuiltInOutputs["{spec.tool_id}"]'
    else:
        output = "FloJsonValue"
    return (
        f"{doc_comment(spec.description, '  ')}  {member(spec.tool_id)}: {{\n"
        f"    input: {tool_input};\n    output: {output};\n  }};\n"
    )


def _is_open(spec: ToolSpec) -> bool:
    return spec.direct_call or spec.is_global


class _Type(Struct, frozen=True):
    text: str
    is_unit: bool = True
    """It needs no parentheses next to an operator such as `[]` or `&`."""

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
        """For each reference, the name of its type."""
        self._waiting: list[tuple[str, Any]] = []

    def whole(self, indent: str) -> str:
        """Return the type, and declare all types that it refers to."""
        # A worklist instead of recursion: a type may refer to itself, by any number of steps.
        text = self._type(self._root, indent, 0).text
        while self._waiting:
            name, schema = self._waiting.pop()
            self._named[name] = self._type(schema, "", 0).text
        return text

    def _type(self, schema: Any, indent: str, depth: int) -> _Type:
        if schema is False:
            return _NEVER
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
            return _JSON
        parts = [each for each in self._parts(schema, indent, depth) if each != _JSON]
        return _joined(" & ", parts) if parts else _JSON

    def _parts(self, schema: Json, indent: str, depth: int) -> Iterator[_Type]:
        """Yield the types that a value has at the same time; they are joined by `&`."""
        if isinstance(schema.get("$ref"), str):
            yield self._reference(schema["$ref"])
        yield self._own(schema, indent, depth)
        for key in ("anyOf", "oneOf"):
            if isinstance(schema.get(key), list):
                yield _either(self._type(choice, indent, depth + 1) for choice in schema[key])
        if isinstance(schema.get("allOf"), list):
            yield from (self._type(part, indent, depth + 1) for part in schema["allOf"])

    def _own(self, schema: Json, indent: str, depth: int) -> _Type:
        """Return the type without references and combinations."""
        if "const" in schema:
            return _literal(schema["const"])
        if isinstance(schema.get("enum"), list):
            return _joined(" | ", map(_literal, schema["enum"]))
        kinds = schema.get("type")
        # Strictly, a schema without `type` accepts other kinds of values, too. Authors who list
        # `properties` mean objects.
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
        # `any`: TypeScript requires that declared members fit the type of the index signature.
        if not is_closed:
            lines.append(f"{inner}[key: string]: any;\n")
        return _Type(f"{{\n{''.join(lines)}{indent}}}")

    def _comment(self, schema: Any, indent: str) -> str:
        return doc_comment(schema.get("description"), indent) if isinstance(schema, Mapping) else ""

    def _reference(self, ref: str) -> _Type:
        """Return the name of a referenced type. It is declared once."""
        if ref not in self._names:
            target = _target(self._root, ref)
            if target is None or self._is_circular(ref):
                return _JSON
            name = self._names[ref] = self._new_name(ref)
            self._named[name] = ""
            self._waiting.append((name, target))
        return _Type(self._names[ref])

    def _is_circular(self, ref: str) -> bool:
        """Whether a type refers to itself without a member or an item in between.

        TypeScript refuses such a type. With tuples an item is not enough: TypeScript resolves the
        element types of a tuple, and of arrays spread into it, immediately.
        """
        seen: set[str] = set()
        waiting = list(_bare(_target(self._root, ref), is_deep=self._has_tuples))
        while waiting:
            reference = waiting.pop()
            if reference == ref:
                return True
            if reference not in seen:
                seen.add(reference)
                waiting += _bare(_target(self._root, reference), is_deep=self._has_tuples)
        return False

    def _new_name(self, ref: str) -> str:
        last = re.sub(r"\W", "_", unquote(ref).rpartition("/")[2].strip("#"), flags=re.ASCII)
        name = plain = f"{self._stem}_{last}" if last else self._stem
        number = 1
        while name in self._named:
            number += 1
            name = f"{plain}_{number}"
        return name


def _bare(schema: Any, *, is_deep: bool) -> Iterator[str]:
    """Yield the references outside of members; with `is_deep` also those of items."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, Mapping):
            continue
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for key in ("anyOf", "oneOf", "allOf", *(("prefixItems",) if is_deep else ())):
            waiting += part[key] if isinstance(part.get(key), list) else []
        if is_deep:
            waiting.append(part.get("items"))


def _target(root: Any, ref: str) -> Any:
    """Return the target of a reference within its schema; None for any other reference."""
    if not (ref == "#" or ref.startswith("#/")):
        return None
    target = root
    for part in unquote(ref[2:]).split("/") if ref != "#" else ():
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and key.isdecimal() and int(key) < len(target):
            target = target[int(key)]
        elif isinstance(target, Mapping) and key in target:
            target = target[key]
        else:
            return None
    return target


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

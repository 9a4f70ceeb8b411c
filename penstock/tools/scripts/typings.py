"""`flo.d.ts`: what scripts find, and which tools they reach, as TypeScript declarations."""

from collections.abc import Iterable, Mapping, Sequence

from penstock.manifest.bundle import Bundle
from penstock.manifest.skill import SkillManifest, grant
from penstock.manifest.tool import ToolManifest
from penstock.sandbox.sources import fixed_part, known_outputs
from penstock.tools.scripts.manifests import spec_of
from penstock.tools.scripts.schema_types import SchemaTypes, doc_comment, member
from penstock.tools.spec import ToolSpec

MARK = "// flo.d.ts of penstock "
"""What such a file begins with; one that begins otherwise is its author's own."""


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

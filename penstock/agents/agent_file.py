"""Agents from files: Markdown with front matter, checked against what there is.

The body of the file is the instructions of the agent. `parse_agent` never raises: each mistake is a
finding with its line, and a file with an error yields no agent. It checks in this order: the syntax
of the front matter; the shape of each field (`agent_fields`); the names that fields use; the inputs
that the body reads. Names are checked against `KnownNames`, which the caller fills with what the
project has; a kind that is None is not checked.

`FILE_TOOLS` is here because an agent file may always name these tools, also where a project does
not have them, and because `builtins`, which defines them, is in a higher layer. Proof:
tests/agents/test_agent_file.py and tests/promises/test_agent_file_checks.py.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import accumulate
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.agents.agent import DEFAULTS, Agent, ChatSettings
from penstock.agents.agent_fields import FIELDS, SELECTED, converted, read_table
from penstock.agents.agent_profile import NAME, AgentProfile, Tier
from penstock.agents.handoffs import transfer_tool
from penstock.core.call import SUBAGENT
from penstock.core.diagnostics import Diagnostic, Severity, has_error, in_file_order, nearest
from penstock.core.ids import ASSISTANT
from penstock.core.text import one_line
from penstock.manifest.authored_kinds import Item, meant, named_items
from penstock.manifest.document import SourceRange
from penstock.manifest.fields import Node, quoted
from penstock.manifest.files import NO_FOLDER
from penstock.manifest.front_matter import FrontMatter, parse_front_matter
from penstock.manifest.template import ValueSource, parse, single_braces
from penstock.models.names import ROLES, THINKING
from penstock.tools.policy import ALWAYS, ARCHITECT, AUTHORING

_TOP = SourceRange(line=1, column=1)
FILE_TOOLS = ("read", "write", "edit", "grep", "find", "ls", "bash")
STANDARD_TOOLS = frozenset({SUBAGENT, *AUTHORING, *ALWAYS, *FILE_TOOLS})
"""Names that an agent file may always use."""


class KnownNames(Struct, frozen=True, kw_only=True):
    """Names that agent files of a project can refer to; None: not checked."""

    tools: Collection[str] | None = None
    """In addition to the standard ones."""
    skills: Collection[str] | None = None
    """The ids of skills that can be selected in a chat."""
    handbooks: Collection[str] | None = None
    roles: Collection[str] | None = None
    """In addition to those that are always known."""
    agents: Collection[str] = ()
    """Agents of the program, which files can hand off to, in addition to agents with files."""
    has_all_agents: bool = True
    """Whether `agents` has those of files. If not, a name in `tools` may be one of them."""
    families: Mapping[str, Sequence[str]] = MappingProxyType({})
    """Families of built-in tools, for the hint to authors who name a family as a tool."""


NOTHING_KNOWN = KnownNames()


WHAT = "the agent"
_HIDDEN = {
    ("thinking",): "thinking",
    ("settings", "llm_temperature"): "temperature",
    ("settings", "llm_max_tokens"): "max_tokens",
}
"""Fields that have no effect beside a setting in `model_settings`."""
MAX_CHAT_TURNS = 50
"""Limit of a chat on `max_turns`, which is meant for flows."""


class ParsedAgent(Struct, frozen=True, kw_only=True):
    """A parsed agent file, with its findings."""

    agent: Agent | None = None
    """None if there is an error."""
    name: str = ""
    """Its name; empty if the file has no valid one."""
    place: SourceRange = _TOP
    """Place of its name in the file."""
    handoffs: Sequence[Item] = ()
    """The agents that it hands off to, with their places: whether they exist is checked later."""
    inner: Sequence[Item] = ()
    """The names among its tools that must be agents, because no tool has them; checked later."""
    findings: Sequence[Diagnostic] = ()
    """By line; errors before warnings of the same line."""


def parse_agent(
    text: str, file: str, known: KnownNames = NOTHING_KNOWN, tier: Tier = Tier.LOCAL
) -> ParsedAgent:
    """Parse one agent file. Never raises: problems are findings."""
    matter = parse_front_matter(text, file)
    head = matter.head
    if not isinstance(head.value, dict):
        return ParsedAgent(findings=head.problems)
    values = converted(head.value) if matter.is_loose else head.value
    node = Node(document=head, home=NO_FOLDER, what=WHAT, value=values)
    fields = read_table(node, FIELDS, WHAT)
    if values.get("name") is None:
        message, hint = 'missing required field "name"', 'add "name:" at the top of the file'
        node.refuse("missing-field", message, at=_TOP, suggestion=hint)
    check_names(node, fields["name"], known)
    digest = sha256(text.encode()).hexdigest()
    agent_profile = _profile(
        fields, matter, AgentProfile(tier=tier, file=file, content_hash=digest)
    )
    check_body(matter, agent_profile)
    return ParsedAgent(
        agent=None if has_error(head.problems) else _agent(fields, matter, agent_profile),
        name=fields["name"] if NAME.fullmatch(fields["name"]) else "",
        place=node.at("name").key_place,
        handoffs=named_items(node.at("handoffs")),
        inner=_inner(node.at("tools"), known),
        findings=in_file_order(head.problems),
    )


def _profile(fields: Mapping[str, Any], matter: FrontMatter, origin: AgentProfile) -> AgentProfile:
    purpose = fields["architect"]
    described = one_line(fields["description"])
    return replace(
        origin,
        thinking=fields["thinking"],
        tools=_once(fields["tools"] or ()),
        handbooks=_once(fields["skills"]),
        inputs=fields["inputs"],
        body_inputs=body_inputs(matter.body),
        outputs=fields["outputs"],
        is_interactive=fields["interactive"],
        output=fields["output"],
        context_files=_once((*fields["context_files"], *fields["context"])),
        access=replace(fields["access"], agent=fields["name"]),
        card=fields["card"],
        purpose=replace(purpose, use_when=purpose.use_when or described),
        max_turns=fields["max_turns"],
        reply_tokens=fields["settings"].get("llm_max_tokens"),
    )


def _agent(fields: Mapping[str, Any], matter: FrontMatter, agent_profile: AgentProfile) -> Agent:
    turns = DEFAULTS.max_iterations if agent_profile.max_turns is None else agent_profile.max_turns
    is_declared = "tools" in matter.head.value
    settings = ChatSettings(
        enabled_tools=agent_profile.tools if is_declared else None,
        max_iterations=min(turns, MAX_CHAT_TURNS),
        selected_skills=fields[SELECTED],
        labels=fields["labels"],
    )
    return Agent(
        fields["name"],
        description=one_line(fields["description"]),
        instructions=matter.body,
        model=fields["model"],
        handoffs=_once(fields["handoffs"]),
        settings=replace(settings, **fields["settings"]),
        model_settings=fields["model_settings"],
        profile=agent_profile,
    )


def _once(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def check_names(node: Node, name: str, known: KnownNames) -> None:
    """Report every name in the front matter that does not exist."""
    _check_missing(node, name)
    _check_tools(node.at("tools"), name, known)
    _check_handoffs(node.at("handoffs"), name, known)
    own = (tool for tool, _ in _inner(node.at("tools"), known))
    tools = None if known.tools is None else {*known.tools, *own}
    _check_permissions(node.at("settings", "tool_permissions"), tools)
    _check_skills(node.at(SELECTED), known.skills)
    _check_skills(node.at("settings", "skills"), known.skills)
    _check_handbooks(node.at("skills"), known.handbooks)
    if known.roles is not None:
        _check_role(node.at("model"), {*ROLES, *known.roles})
    for key in ("read", "write"):
        _check_patterns(node.at("access", key))
    if "fork_session" in node.value:
        _warn(node.at("fork_session"), "no-effect", '"fork_session" is accepted and has no effect')
    for hidden, wins in _HIDDEN.items():
        if node.at(*hidden).value is not None and node.at("model_settings", wins).value is not None:
            shadowed = node.at(*hidden)
            message = f'"{shadowed.name}" has no effect beside "model_settings.{wins}"'
            _warn(shadowed, "no-effect", message)


def check_body(matter: FrontMatter, agent_profile: AgentProfile) -> None:
    """Report inputs that the instructions read but nothing declares, each once."""
    declared = {each.name for each in agent_profile.inputs}
    template = parse(matter.body)
    # Reversed, so that of equal texts the first one in the body stays in the dict.
    singles = {each.text: each for each in reversed([*single_braces(matter.body)])}
    if not (template.refs or template.broken or singles):
        return
    places = _Lines(matter)
    for name, offset in {
        ref.names[0]: ref.offset for ref in reversed(template.refs) if ref.kind is ValueSource.INPUT
    }.items():
        if name not in declared:
            message = f'the body reads "${{{{input.{name}}}}}", which inputs: does not declare'
            places.warn("body-input-unknown", message, offset)
    for text, offset in {each.text: each.offset for each in reversed(template.broken)}.items():
        places.warn("body-template-unknown", f"{quoted(text)} in the body is left as it is", offset)
    for text, single in singles.items():
        message = f"{quoted(text)} in the body is not expanded"
        places.warn("template-single-brace", message, single.offset, f'write "{single.meant}"')


def body_inputs(body: str) -> frozenset[str]:
    """Return the inputs that instructions read."""
    return frozenset(ref.names[0] for ref in parse(body).refs if ref.kind is ValueSource.INPUT)


class _Lines:
    """Line starts of a body, to report findings at their line and column."""

    def __init__(self, matter: FrontMatter) -> None:
        self._matter = matter
        lines = matter.body.split("\n")
        self._starts = [0, *accumulate(len(line) + 1 for line in lines)]

    def warn(self, code: str, message: str, offset: int, advice: str | None = None) -> None:
        """Report a warning at an offset in the body."""
        line = bisect_right(self._starts, offset) - 1
        column = offset - self._starts[line] + 1
        place = SourceRange(line=self._matter.body_line + line, column=column)
        self._matter.head.problem(code, message, place, advice, severity=Severity.WARNING)


def _check_missing(node: Node, name: str) -> None:
    """Warn about missing fields that flows need.

    An agent that selects skills, and the assistant of chats, need no `tools:`.
    """
    if name != ASSISTANT and not {"tools", SELECTED} & set(node.value):
        message = 'missing field "tools": the agent has no declared tools'
        hint = 'write "tools:" with nothing after it if this is meant'
        _warn(node, "missing-tools", message, hint, at=_TOP)
    if not node.value.get("description"):
        hint = "one line is enough; people and flow-architect choose agents by it"
        _warn(node, "missing-description", 'missing field "description"', hint, at=_TOP)


def _check_tools(node: Node, name: str, known: KnownNames) -> None:
    unknown = {tool for tool, _ in _inner(node, known)} if known.has_all_agents else set()
    for tool, place in named_items(node):
        if tool == SUBAGENT:
            message = f"{quoted(tool)} is only for the main session"
            _warn(node, "tool-not-granted", message, at=place)
        elif tool in AUTHORING and name != ARCHITECT:
            message = f"{quoted(tool)} is only for {ARCHITECT}"
            _warn(node, "tool-not-granted", message, at=place)
        elif tool in unknown and tool not in known.agents:
            message = f"unknown tool {quoted(tool)}"
            node.refuse("unknown-tool", message, at=place, suggestion=_instead(tool, known))


def _inner(node: Node, known: KnownNames) -> list[Item]:
    """Return the names in `tools` that no tool has, with their places."""
    if known.tools is None:
        return []
    tools = {*STANDARD_TOOLS, *known.tools}
    return [(tool, place) for tool, place in named_items(node) if tool not in tools]


def wrong_tools(
    agent: str, file: str, known: KnownNames, inner: Mapping[str, Sequence[Item]]
) -> Iterator[Diagnostic]:
    """Yield the findings about names in `tools` that no tool has: unknown agents, and circles.

    `inner` has such names of all agents. In a circle agents call each other to `limits.run_depth`.
    """
    for name, place in inner.get(agent, ()):
        finding = Diagnostic(
            code="unknown-tool",
            message=f"unknown tool {quoted(name)}",
            file=file,
            line=place.line,
            column=place.column,
            suggestion=_instead(name, known),
        )
        if name not in known.agents:
            yield finding
        elif way := _way_back(agent, name, inner):
            message = f"agents are tools of each other: {' → '.join(way)}"
            hint = "remove one of them, or let it hand the conversation off"
            yield replace(finding, code="agent-circle", message=message, suggestion=hint)


def _way_back(agent: str, other: str, inner: Mapping[str, Sequence[Item]]) -> list[str]:
    """Return the agents from one over a tool of it back to itself; empty without a circle."""
    ways, seen = [[agent, other]], {other}
    while ways:
        way = ways.pop(0)
        if way[-1] == agent:
            return way
        for name, _ in inner.get(way[-1], ()):
            if name not in seen:
                seen.add(name)
                ways.append([*way, name])
    return []


def _instead(tool: str, known: KnownNames) -> str | None:
    if ids := known.families.get(tool):
        return f"it is a family of built-in tools; name the ones you need: {', '.join(ids)}"
    return meant(nearest(tool, {*STANDARD_TOOLS, *(known.tools or ()), *known.agents}))


def _check_handoffs(node: Node, name: str, known: KnownNames) -> None:
    """Report hand-offs that no agent can have; other files say which agents exist."""
    tools: dict[str, str] = {}
    for agent, place in named_items(node):
        tool_id = transfer_tool(agent)
        first = tools.setdefault(tool_id, agent)
        if agent == name:
            message, hint = f"agent {quoted(name)} hands off to itself", "remove it"
        elif first != agent:
            both = f"hand-offs to {quoted(first)} and {quoted(agent)}"
            message, hint = f"{both} would be one tool, {quoted(tool_id)}", "rename one agent"
        elif tool_id in (known.tools or ()):
            message = f"the hand-off to {quoted(agent)} is the tool {quoted(tool_id)}, which exists"
            hint = "rename that tool"
        else:
            continue
        node.refuse("bad-handoff", message, at=place, suggestion=hint)


def _check_permissions(node: Node, known: Collection[str] | None) -> None:
    for tool in node.value if isinstance(node.value, dict) and known is not None else ():
        if tool not in STANDARD_TOOLS and tool not in (known or ()):
            near = meant(nearest(tool, {*STANDARD_TOOLS, *(known or ())}))
            at = node.at(tool).key_place
            node.refuse("unknown-tool", f"unknown tool {quoted(tool)}", at=at, suggestion=near)


def _check_skills(node: Node, known: Collection[str] | None) -> None:
    for skill, place in named_items(node) if known is not None else ():
        if skill not in (known or ()):
            message = f"{quoted(skill)} in {quoted(node.name)} is not a skill of this bundle"
            near = meant(nearest(skill, known or ()))
            node.refuse("unknown-skill-ref", f"{message} or a built-in", at=place, suggestion=near)


def _check_handbooks(node: Node, known: Collection[str] | None) -> None:
    for handbook, place in named_items(node) if known is not None else ():
        if handbook not in (known or ()):
            near = meant(nearest(handbook, known or ()))
            _warn(node, "unknown-handbook", f"unknown skill {quoted(handbook)}", near, at=place)


def _check_role(node: Node, known: Collection[str]) -> None:
    if not isinstance(node.value, str) or not node.value.startswith("@"):
        return
    role, _, suffix = node.value.removeprefix("@").rpartition(":")
    if suffix not in THINKING or not role:
        role = node.value.removeprefix("@")
    if role not in known:
        message = f"unknown model role {quoted('@' + role)}"
        _warn(node, "unknown-role", message, f"known: {', '.join(sorted(known))}")


def _check_patterns(node: Node) -> None:
    for pattern, place in named_items(node):
        if pattern.startswith("/") or ".." in PurePosixPath(pattern).parts:
            message = f"access pattern {quoted(pattern)} can never match"
            message = f"{message}: patterns are relative to the project"
            _warn(node, "odd-pattern", message, at=place)


def _warn(
    node: Node,
    code: str,
    message: str,
    suggestion: str | None = None,
    *,
    at: SourceRange | None = None,
) -> None:
    place = node.key_place if at is None else at
    node.document.problem(code, message, place, suggestion, severity=Severity.WARNING)

"""Agents from files: Markdown with front matter; the body is the instructions."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.agents.agent_profile import AgentProfile, Tier
from penstock.agents.file_checks import KnownNames, body_inputs, check_body, check_names
from penstock.agents.file_fields import FIELDS, NAME, SELECTED
from penstock.agents.file_kinds import converted, read_table
from penstock.agents.settings import DEFAULTS, ChatSettings
from penstock.core.diagnostics import Diagnostic, has_error, in_file_order
from penstock.core.text import one_line
from penstock.manifest.fields import Node
from penstock.manifest.files import NOWHERE
from penstock.manifest.front_matter import FrontMatter, parse_front_matter
from penstock.manifest.yaml_document import SourceRange

WHAT = "the agent"
MOST_CHAT_TURNS = 50
"""What a chat grants of `max_turns`."""
NOTHING_KNOWN = KnownNames()
_TOP = SourceRange(line=1, column=1)


class ParsedAgent(Struct, frozen=True, kw_only=True):
    """What was read of an agent file, and all that is wrong in it."""

    agent: Agent | None = None
    """None if there is an error."""
    name: str = ""
    """What it would be called; empty when the file does not say it."""
    place: SourceRange = _TOP
    """Where the file says its name."""
    findings: Sequence[Diagnostic] = ()
    """By line, of one line the errors first."""


def parse_agent(
    text: str, file: str, known: KnownNames = NOTHING_KNOWN, tier: Tier = Tier.LOCAL
) -> ParsedAgent:
    """Read one agent file; whatever the text is, problems are noted, and nothing raises."""
    matter = parse_front_matter(text, file)
    head = matter.head
    if not isinstance(head.value, dict):
        return ParsedAgent(findings=head.problems)
    values = converted(head.value) if matter.is_loose else head.value
    node = Node(document=head, home=NOWHERE, what=WHAT, value=values)
    fields = read_table(node, FIELDS, WHAT)
    if values.get("name") is None:
        said, hint = 'missing required field "name"', 'add "name:" at the top of the file'
        node.refuse("missing-field", said, at=_TOP, suggestion=hint)
    check_names(node, fields["name"], known)
    digest = sha256(text.encode()).hexdigest()
    agent_profile = _charter(
        fields, matter, AgentProfile(tier=tier, file=file, content_hash=digest)
    )
    check_body(matter, agent_profile)
    return ParsedAgent(
        agent=None if has_error(head.problems) else _agent(fields, matter, agent_profile),
        name=fields["name"] if NAME.fullmatch(fields["name"]) else "",
        place=node.at("name").key_place,
        findings=in_file_order(head.problems),
    )


def _charter(fields: Mapping[str, Any], matter: FrontMatter, origin: AgentProfile) -> AgentProfile:
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
        max_iterations=min(turns, MOST_CHAT_TURNS),
        selected_skills=fields[SELECTED],
        labels=fields["labels"],
    )
    return Agent(
        fields["name"],
        description=one_line(fields["description"]),
        instructions=matter.body,
        model=fields["model"],
        settings=replace(settings, **fields["settings"]),
        profile=agent_profile,
    )


def _once(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))

"""Reads what agents receive as text: handbooks, context files, and files named in inputs."""

import re
from collections.abc import Mapping

from msgspec import Struct, field

from penstock.agents.agent import Agent
from penstock.core.call_errors import CallError, ToolNotConfigured, not_utf8
from penstock.manifest.handbook import FILE_BYTES, Handbooks
from penstock.tools.resources import NO_PROJECT, ProjectFolder

SCHEME = "file://"
"""Prefix of an input that is replaced by the text of a file."""
_ACTION = re.compile(r" \((?:created|modified|read)\)$")
"""Suffix that results add to a file path."""


class AgentMaterials(Struct, frozen=True, kw_only=True):
    """Materials of one agent, and what is missing."""

    context: Mapping[str, str]
    """Texts of context files, by path."""
    handbooks: Mapping[str, str]
    """Indexes of handbooks, by name."""
    missing: tuple[str, ...] = ()
    """A sentence for each item that was left out."""


class Materials(Struct, kw_only=True):
    """Handbooks of a project, and its files within the access of each agent."""

    handbooks: Handbooks = field(default_factory=Handbooks)
    folder: ProjectFolder | None = None

    def renew(self, handbooks: Handbooks) -> None:
        """Use the handbooks of a newer edition of the project."""
        self.handbooks = handbooks

    def given_to(self, agent: Agent) -> AgentMaterials:
        """Return the materials that an agent's file declares. Missing items are left out."""
        agent_profile, missing = agent.profile, list[str]()
        context, indexes = dict[str, str](), dict[str, str]()
        for path in agent_profile.context_files:
            try:
                context[path] = self._text(path, agent)
            except CallError as error:
                missing.append(f"the context file {path!r} is left out: {error}")
        for name in agent_profile.handbooks:
            if (book := self.handbooks.get(name)) is None:
                missing.append(f"the handbook {name!r} is left out: there is none of this name")
            else:
                indexes[name] = book.index
        return AgentMaterials(context=context, handbooks=indexes, missing=tuple(missing))

    def filled(self, inputs: Mapping[str, str], agent: Agent) -> dict[str, str]:
        """Replace `file://` inputs by the texts of the files.

        Raises CallError if a file is missing, too large or outside the agent's access.
        """
        return {name: self._filled(value, agent) for name, value in inputs.items()}

    def _filled(self, value: str, agent: Agent) -> str:
        if not value.startswith(SCHEME):
            return value
        return self._text(_ACTION.sub("", value.removeprefix(SCHEME).strip()), agent)

    def _text(self, path: str, agent: Agent) -> str:
        if self.folder is None:
            raise ToolNotConfigured(NO_PROJECT)
        files = self.folder.files(agent.profile.access)
        content = files.read(files.readable(path), FILE_BYTES)
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise not_utf8(path, error) from None

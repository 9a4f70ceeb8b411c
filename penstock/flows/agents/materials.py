"""What agents of flows are given to read: handbooks, context files, files that inputs name."""

import re
from collections.abc import Mapping

from msgspec import Struct, field

from penstock.agents.agent import Agent
from penstock.core.call_errors import CallError, ToolNotConfigured, not_utf8
from penstock.manifest.handbooks.handbook import FILE_BYTES, Handbooks
from penstock.tools.resources import NO_PROJECT, ProjectFolder

SCHEME = "file://"
"""What an input begins with that is replaced by the text of a file."""
_ACTION = re.compile(r" \((?:created|modified|read)\)$")
"""What results say behind a file."""


class AgentMaterials(Struct, frozen=True, kw_only=True):
    """What one agent is given, and what of it is not there."""

    context: Mapping[str, str]
    """The texts of its context files, by path."""
    handbooks: Mapping[str, str]
    """The indexes of its handbooks, by name."""
    missing: tuple[str, ...] = ()
    """A sentence for each that was left out."""


class Materials(Struct, kw_only=True):
    """The handbooks of a project, and its files as each agent may read them."""

    handbooks: Handbooks = field(default_factory=Handbooks)
    folder: ProjectFolder | None = None

    def renew(self, handbooks: Handbooks) -> None:
        """Use the handbooks of a newer edition of the project from now on."""
        self.handbooks = handbooks

    def given_to(self, agent: Agent) -> AgentMaterials:
        """Return what the file of an agent says it is given; what is not there is left out."""
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
        """Return the inputs of an agent, with texts of files in place of `file://`.

        Raises CallError for a file that is missing, too large, or not for this agent.
        """
        return {name: self._filled(value, agent) for name, value in inputs.items()}

    def _filled(self, value: str, agent: Agent) -> str:
        if not value.startswith(SCHEME):
            return value
        return self._text(_ACTION.sub("", value.removeprefix(SCHEME).strip()), agent)

    def _text(self, told: str, agent: Agent) -> str:
        if self.folder is None:
            raise ToolNotConfigured(NO_PROJECT)
        files = self.folder.files(agent.profile.access)
        content = files.read(files.readable(told), FILE_BYTES)
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise not_utf8(told, error) from None

"""A library of flows in memory, by file name."""

from collections.abc import Mapping, Sequence

from penstock.core.diagnostics import Diagnostic, errors_of
from penstock.flows.checking import check_flow
from penstock.flows.checks.context import AgentCard, CheckContext
from penstock.flows.parsing import read_flow
from penstock.flows.project.library import (
    FlowSource,
    matches,
    places_of,
    referred_texts,
    unknown_flow,
)

FOLDER = "flows/"
SUFFIX = ".yaml"


class MemoryFlows:
    """A FlowLibrary of texts: `flows/dom/apply.yaml` is the command `dom:apply`.

    Texts of other files are modules of code steps; every run keeps a copy of them.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = dict(texts)

    def find(self, command: str) -> FlowSource:
        """Return a flow by its command."""
        file = f"{FOLDER}{command.replace(':', '/')}{SUFFIX}"
        if file not in self.texts:
            known = [each.removeprefix(FOLDER).removesuffix(SUFFIX) for each in self.texts]
            raise unknown_flow(command, [each.replace("/", ":") for each in known])
        return self._source(file)

    def refer(self, source: FlowSource, path: str) -> Sequence[FlowSource] | None:
        """Return the flows at a path; None if the path is invalid."""
        places = places_of(path, source.path)
        if places is None:
            return None
        for place in places:
            if files := matches(place, sorted(self.texts)):
                return [self._source(each) for each in files]
        return ()

    def faults(self, source: FlowSource) -> Sequence[Diagnostic]:
        """Return the errors of a flow. Every agent that it names counts as existing."""
        read = read_flow(source.text, source.name)
        names = {getattr(each.step, "agent", None) or "" for each in read.steps}
        agents = {name: AgentCard(name=name) for name in names}
        return errors_of(check_flow(read, CheckContext(agents=agents)))

    def _source(self, file: str) -> FlowSource:
        modules = {name: text for name, text in self.texts.items() if not name.endswith(SUFFIX)}
        return FlowSource(path=file, texts=referred_texts(file, self.texts.get) | modules)

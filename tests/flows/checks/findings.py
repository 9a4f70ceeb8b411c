"""Check contexts that exist only in a test."""

from collections.abc import Mapping

from msgspec.structs import replace

from penstock.flows.checking import check_flow
from penstock.flows.checks.context import AgentCard, CheckContext
from penstock.flows.parsing import read_flow
from tests.flows.texts import TOP, finding_lines

SCOUT = AgentCard(name="scout", outputs=("topics",))
WRITER = AgentCard(name="writer", inputs=("notes",))
JUDGE = AgentCard(name="judge")
SEED_AGENTS = {each.name: each for each in (SCOUT, WRITER, JUDGE)}
"""The catalog of the seed's examples."""
PLAIN_AGENTS = {
    name: AgentCard(name=name)
    for name in ("scout", "writer", "judge", "tester", "fixer", "reviewer", "clerk")
}
"""The agents of the worked examples: they exist, and declare no inputs."""
SEED = CheckContext(agents=SEED_AGENTS, file="flows/demo.yaml", command="demo")
PLAIN = replace(SEED, agents=PLAIN_AGENTS)


def beside(check_context: CheckContext, flows: Mapping[str, str]) -> CheckContext:
    """Return the context with other flows in it."""
    read = {path: read_flow(text, path) for path, text in flows.items()}
    return replace(check_context, flow_at=read.get)


def found_in(steps: str, check_context: CheckContext = SEED, top: str = TOP) -> list[str]:
    """Return all findings for a flow with these steps; the first is on line 4."""
    return finding_lines(check_flow(read_flow(top + steps, check_context.file), check_context))


def codes_in(steps: str, check_context: CheckContext = SEED) -> list[str]:
    return [each.split(":")[0] for each in found_in(steps, check_context)]

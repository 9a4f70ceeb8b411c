"""Visits of code steps: what they are given, and who carries them out."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from penstock.core.call import CallPath
from penstock.core.late import late
from penstock.core.profile import Profile
from penstock.engine.ledger import Ledger
from penstock.flows.definition import Code
from penstock.flows.project.modules import ModuleLoader
from penstock.flows.runs.visit_outcome import VisitOutcome, failed
from penstock.sandbox.script import Sandbox
from penstock.tools.invoker import Invoker
from penstock.tools.scripts.bindings import Bindings
from penstock.tools.tool import Tool

NO_BINDINGS = Bindings()
NO_SANDBOX = (
    "code steps run in the sandbox of a project folder: open one with penstock.open(directory)"
)
InvokerWith = Callable[[Tool], Invoker]
"""Returns a door to all tools of the project and to this one."""


class CodeEnvironment(Struct, frozen=True, kw_only=True):
    """What code steps run in."""

    sandbox: Sandbox
    modules: ModuleLoader
    usual: Bindings = NO_BINDINGS
    """What holds for every script of the project."""


class CodeVisit(Struct, frozen=True, kw_only=True):
    """One visit of a code step."""

    step: Code
    inputs: Mapping[str, Any]
    """As they were wired, typed."""
    task: str
    """Of the run."""
    frame: CallPath
    profile: Profile
    is_autonomous: bool = False


Enter = Callable[[CodeVisit, Ledger, CodeEnvironment, InvokerWith], Awaitable[VisitOutcome]]


class CodeSteps:
    """Carries out visits of code steps; what enters modules is loaded with the first of them."""

    def __init__(self, code_environment: CodeEnvironment | None, door: InvokerWith) -> None:
        self._code_environment = code_environment
        self._door = door

    async def pursue(self, visit: CodeVisit, ledger: Ledger) -> VisitOutcome:
        """Go on with a visit until it is over.

        Raises Suspend when it waits for a person, Cancel when somebody wants the task to end.
        """
        if self._code_environment is None:
            return failed("code_node", NO_SANDBOX)
        enter: Enter = late("penstock.flows.code.entry:enter")
        return await enter(visit, ledger, self._code_environment, self._door)

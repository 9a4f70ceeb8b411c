"""Visits of code steps."""

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
"""Returns an invoker for all tools of the project and the given one."""


class CodeEnvironment(Struct, frozen=True, kw_only=True):
    """What code steps need to run."""

    sandbox: Sandbox
    modules: ModuleLoader
    usual: Bindings = NO_BINDINGS
    """Bindings of every script of the project."""


class CodeVisit(Struct, frozen=True, kw_only=True):
    """One visit of a code step."""

    step: Code
    inputs: Mapping[str, Any]
    """Wired inputs, typed."""
    task: str
    """Task of the run."""
    frame: CallPath
    profile: Profile
    is_autonomous: bool = False


Enter = Callable[[CodeVisit, Ledger, CodeEnvironment, InvokerWith], Awaitable[VisitOutcome]]


class CodeSteps:
    """Carries out visits of code steps. The sandbox side is loaded with the first visit."""

    def __init__(self, code_environment: CodeEnvironment | None, door: InvokerWith) -> None:
        self._code_environment = code_environment
        self._door = door

    async def pursue(self, visit: CodeVisit, ledger: Ledger) -> VisitOutcome:
        """Carry out a visit to its end.

        Raises Suspend if it waits for a person, Cancel if the cancellation of the task was
        requested.
        """
        if self._code_environment is None:
            return failed("code_node", NO_SANDBOX)
        enter: Enter = late("penstock.flows.code.entry:enter")
        return await enter(visit, ledger, self._code_environment, self._door)

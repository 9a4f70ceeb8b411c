"""Carries out the calls of an agent session, in the order of the reply.

Guarantees: calls before a `finish` have settled when it is judged; calls after a valid `finish`
are refused; a refused `finish` is settled with the reasons, so that the model can correct it.
A plugin guard sees only a `finish` that is valid. Tests:
tests/flows/agents/test_session_call_runner.py, test_session.py.
"""

from collections.abc import Sequence

from penstock.agents.call_runner import CallRunner
from penstock.agents.guard import LoopGuard
from penstock.agents.settings import ChatSettings
from penstock.core.call import FINISH, Call
from penstock.core.call_errors import CallError, InvalidInput, NotPermitted
from penstock.core.envelope import Envelope, Status
from penstock.core.events.events import CallSettled
from penstock.engine.ledger import Ledger
from penstock.flows.agents.finish import DONE, FinishContract, RejectedFinish
from penstock.tools.access.policy import Caller
from penstock.tools.access.session_guard import SessionGuard
from penstock.tools.faults import problem_details
from penstock.tools.invoker import Invoker

BAD_BRANCH = "bad_branch"
"""Detail of a refused `finish` with an invalid branch."""
NOT_ACCEPTED = "finish was not accepted: "
ONLY_FINISH = frozenset({FINISH})
"""Tools allowed in the last turn of a session."""


class SessionCallRunner(CallRunner):
    """Carries out the calls of one agent session."""

    __slots__ = ("contract", "session")

    def __init__(
        self,
        invoker: Invoker,
        ledger: Ledger,
        settings: ChatSettings,
        *,
        session: SessionGuard,
        contract: FinishContract,
    ) -> None:
        super().__init__(invoker, ledger, settings)
        self.session = session
        self.contract = contract

    def guarding(self) -> LoopGuard:
        """Return a new loop guard. `finish` is exempt: its repetitions are counted separately."""
        return LoopGuard(self._settings, exempt={FINISH}, by_result=True)

    async def run(self, calls: Sequence[Call], caller: Caller) -> None:
        """Carry out the calls of one reply, up to a valid `finish`.

        Raises Suspend if a call waits for a person; no call after it has started then.
        """
        batch: list[Call] = []
        for call in calls:
            if call.tool_id == FINISH:
                await self._run(batch, caller)
                batch = []
                self._finish(call)
            elif (error := self._refusal(call, caller)) is not None:
                self.invoker.refuse(call, self.ledger, error, "")
            else:
                batch.append(call)
        await self._run(batch, caller)

    async def _run(self, batch: Sequence[Call], caller: Caller) -> None:
        if batch:
            await super().run(batch, caller)

    def _refusal(self, call: Call, caller: Caller) -> CallError | None:
        """Return why a call is refused. The invoker itself refuses unknown tools."""
        if caller.agent_tools == ONLY_FINISH:
            return NotPermitted("no turn is left: nothing but finish may be called.")
        is_known = call.tool_id in self.invoker.registry
        return self.session.refusal(call) if is_known or self.session.is_finished else None

    def _finish(self, call: Call) -> None:
        if (error := self.session.refusal(call)) is not None:
            self.invoker.refuse(call, self.ledger, error, "")
            return
        judged = self.contract.judge(call.input)
        if isinstance(judged, RejectedFinish):
            self.invoker.refuse(call, self.ledger, _invalid(judged), "")
            return
        if (error := self.session.plugin_refusal(call)) is not None:
            self.invoker.refuse(call, self.ledger, error, "")
            return
        self.session.finish()
        settled = CallSettled(
            tool_id=FINISH,
            envelope=Envelope(Status.SUCCESS, DONE),
            call_id=call.call_id,
            context=DONE,
            ran=False,
        )
        self.ledger.settle(call.path, settled)


def _invalid(refused: RejectedFinish) -> InvalidInput:
    problems = list(refused.problems)
    details = {**problem_details(problems), BAD_BRANCH: refused.is_bad_branch}
    text = "; ".join(_problem_text(problem.path, problem.message) for problem in problems)
    return InvalidInput(f"{NOT_ACCEPTED}{text}", details=details)


def _problem_text(path: str, message: str) -> str:
    """Return the text of a problem. That of a branch names its parameter itself."""
    return message if path == "/branch" else f"{path or '/'}: {message}"

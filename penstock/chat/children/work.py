"""The body of a child task: the agent of the call that requested it, with a brief of its own.

A child starts when its dependencies have ended; if they are not as it needs them, it fails without
a start. Of one tree at most `limits.child_parallel` tasks work at once in this process; the others
hold their place in the order of arrival. Then it is a conversation of one message: the loop, the
output, the resume and the suspension are those of `chat/session`. Its prompt, skills and tools come
from its request, never from the conversation of its parent, and its caller may do nothing that the
agents around the call must not. Shown by tests/chat/children/test_work.py.
"""

import asyncio
import math
from weakref import WeakValueDictionary

from msgspec.structs import replace

from penstock.agents.agent import DEFAULTS, Agent
from penstock.agents.loop import BUDGET_EXCEEDED, End, FinalReply
from penstock.agents.tool_offer import TaskOffers, caller_for
from penstock.chat.children.brief import additions, brief_text, for_child, narrowed
from penstock.chat.children.tree_budget import BudgetKeeper
from penstock.chat.participants import AgentSetup, Participants
from penstock.chat.session import ChatWork, profile_of
from penstock.core.call_errors import BudgetExceeded, ToolTimeout
from penstock.core.envelope import ErrorDetail
from penstock.core.errors import NotFound
from penstock.core.events.child_events import ChildRequested
from penstock.core.ids import TaskId
from penstock.core.limits import World
from penstock.core.task import TaskRecord, TaskStatus
from penstock.engine.budget import Allowance, Budget, PartialBudget
from penstock.engine.bus import Bus
from penstock.engine.held_log import HeldLog
from penstock.engine.task_body import failed, message_of
from penstock.engine.task_state import TaskState
from penstock.store.logs.log import Log
from penstock.store.projections import Projections
from penstock.tools.policy import Caller
from penstock.tools.tasks.child_forms import outcome_of

DEPENDENCY_FAILED = "DEPENDENCY_FAILED"
_SUCCEEDED = TaskStatus.SUCCEEDED


class ChildWork(ChatWork):
    """Works on children."""

    def __init__(
        self,
        participants: Participants,
        world: World,
        bus: Bus,
        *,
        key: bytes,
        projections: Projections,
        log: Log,
    ) -> None:
        super().__init__(participants, world, bus, key=key)
        self._projections, self._in_tree = projections, self._with_tree
        self.trees = BudgetKeeper(log, projections, world.clock, allowance_of=self._allowance_of)
        self._places: WeakValueDictionary[TaskId, asyncio.Semaphore] = WeakValueDictionary()
        """How many more tasks of each tree may work, by its root."""

    async def work(self, held: HeldLog, task: TaskState) -> None:
        """Run a child until it ends or waits."""
        child = _request(task)
        if task.started is None and (unmet := await self._unmet(task, child)) is not None:
            held.add(failed(task, unmet), task.task_id)
            return
        async with self._place(child.root):
            left = self._world.limits.child_seconds - task.spent.active_ms / 1000
            timeout = asyncio.timeout(max(left, 0))
            try:
                async with timeout:
                    await super().work(held, task)
            except TimeoutError:
                if not timeout.expired():
                    raise
                self._closer.end(held, task, failed(task, self._too_long()))

    def _place(self, root: TaskId) -> asyncio.Semaphore:
        """Return the places of a tree; a task that works holds one."""
        places = self._places.get(root)
        if places is None:
            places = asyncio.Semaphore(self._world.limits.child_parallel)
            self._places[root] = places
        return places

    def _too_long(self) -> ErrorDetail:
        seconds = self._world.limits.child_seconds
        message = f"the task worked for {seconds:g} seconds (limits.child_seconds)"
        return ErrorDetail(code=ToolTimeout.code, message=message, continuable=False)

    async def _dependencies(self, child: ChildRequested) -> dict[str, TaskRecord | None]:
        find = self._projections.find_task
        return {each.alias: await find(each.task_id) for each in child.dependencies}

    async def _unmet(self, task: TaskState, child: ChildRequested) -> ErrorDetail | None:
        """Return why a child may not start: what it depends on did not succeed."""
        if not child.needs_success:
            return None
        ended = task.waits.ended_runs
        bad = [each for each in child.dependencies if ended.get(each.task_id) is not _SUCCEEDED]
        if not bad or (child.any and len(bad) < len(child.dependencies)):
            return None
        first, status = bad[0], ended.get(bad[0].task_id)
        how = "is gone" if status is None else status.value
        return ErrorDetail(
            code=DEPENDENCY_FAILED,
            message=f'the task "{first.alias}" ({first.task_id}), which this one needs, {how}',
            continuable=False,
            details={"alias": first.alias, "task_id": first.task_id, "status": how},
        )

    async def _run_agent(
        self, held: HeldLog, task: TaskState, agent: Agent | None = None, *, is_new: bool
    ) -> End:
        """Run the agent of the child with the settings of its request."""
        child = _request(task)
        if agent is None:
            agent = self._participants.agent(child.agent)
            if agent.toolsets:
                agent = await self._equipped(held, task, agent, is_new=is_new)
            agent = for_child(agent, child)
        if task.started is None:
            await self._begin_child(held, task, agent)
        end = await super()._run_agent(held, task, agent, is_new=is_new)
        if isinstance(end, FinalReply) and end.reply is None and end.finish == BUDGET_EXCEEDED:
            # The notice that ends a chat is for people; a program must see that work is missing.
            message = "the budget of the tree of tasks is used up"
            return ErrorDetail(code=BudgetExceeded.code, message=message, continuable=False)
        return end

    async def _with_tree(self, task: TaskState, own: Budget) -> Budget:
        """Return the budget of the child within that of its tree."""
        tree = await self.trees.of(task, _request(task))
        if tree is None:
            return own
        # Its time has a reason of its own: `work` ends it.
        settings = self._participants.agent(_request(task).agent).settings
        allowance = replace(settings.allowance, seconds=math.inf)
        clock, active_ms = self._world.clock, task.spent.active_ms
        return PartialBudget(allowance, task.spent, clock, outer=tree, active_ms=active_ms)

    def _allowance_of(self, root: TaskRecord) -> Allowance:
        """Return the budget of the task at the root; that of a chat without settings by default."""
        try:
            return self._participants.agent(root.agent).settings.allowance
        except NotFound:
            return DEFAULTS.allowance

    async def _begin_child(self, held: HeldLog, task: TaskState, agent: Agent) -> None:
        """Add the event with which the child starts; it has the text that its model reads."""
        child, message = _request(task), message_of(task)
        profile = profile_of(held.state, message)
        started = self._started(agent, self._participants.model(agent, None), message, profile)
        allowed = child.allowed_tools
        ids = tuple(each for each in started.offered if allowed is None or each in allowed)
        found = await self._dependencies(child)
        outcomes = {alias: outcome_of(each) for alias, each in found.items() if each is not None}
        results = {
            alias: each.output if each.status is _SUCCEEDED else {"error": each.message}
            for alias, each in outcomes.items()
            if each.status.is_final
        }
        text = brief_text(child, results)
        held.add(replace(started, offered=ids, brief=text), task.task_id)
        held.submit()  # lists show that it runs before its model has answered

    async def _offers(self, held: HeldLog, task: TaskState, setup: AgentSetup) -> TaskOffers:
        """Return what the child is offered, within the agents around the call."""
        offers, child = await super()._offers(held, task, setup), _request(task)
        offers.caller = self._limited(child, offers.caller)
        offers.additions = additions(child)
        return offers

    def _limited(self, child: ChildRequested, caller: Caller) -> Caller:
        outer: Caller | None = None
        for name in child.working_for:
            agent = self._participants.agent(name)
            own = caller_for(agent, caller.profile, ())
            own = replace(own, hooks=self._participants.setup(agent).hooks)
            outer = own if outer is None else own.within(outer)
        skills = caller.skills and narrowed(caller.skills, child.allowed_tools)
        caller = replace(caller, skills=skills)
        if outer is not None:
            caller = caller.within(outer)
        return replace(caller, is_autonomous=caller.is_autonomous or child.is_autonomous)


def _request(task: TaskState) -> ChildRequested:
    assert isinstance(task.brief, ChildRequested)  # noqa: S101  the dispatcher chose this body by it
    return task.brief

"""Creates, finds and cancels the tasks that calls request: the port `Children` of tools.

A child is a log of its own with one task, whose first event is its request. Its id is chosen by the
caller and derived from the call, so that creating it again finds it. Shown by
tests/chat/children/test_starting.py.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.agents.tool_offer import offered
from penstock.chat.calls.agent_calls import AgentCalls
from penstock.chat.children.brief import additions, brief_text, for_child, skills_of_child
from penstock.chat.inbox import Inbox
from penstock.chat.participants import Participants
from penstock.core.call_errors import NotPermitted, ToolFailed, tool_failure
from penstock.core.diagnostics import did_you_mean
from penstock.core.errors import NameTaken, NotFound, SessionBusy, TaskOver
from penstock.core.events.child_events import ChildRequested, WaiterAdded
from penstock.core.events.events import CancelRequested, Entry
from penstock.core.events.flow_events import RunEnded
from penstock.core.ids import LogId, TaskId
from penstock.core.profile import Profile
from penstock.core.task import TaskRecord
from penstock.engine.ledger import Ledger
from penstock.store.logs.log import Log
from penstock.store.projections import Page, Projections, TasksOf
from penstock.tools.policy import Caller
from penstock.tools.resources import AgentRequest

_PAGE = 200
Wake = Callable[[LogId], None]


class ChildStarter:
    """Creates, finds and cancels children."""

    def __init__(
        self,
        log: Log,
        projections: Projections,
        inbox: Callable[[], Inbox],
        participants: Callable[[], Participants],
        *,
        agent_calls: Callable[[], AgentCalls],
        wake: Wake,
    ) -> None:
        self._log = log
        self._projections = projections
        self._inbox = inbox
        self._wake = wake
        self._participants = participants
        self._agent_calls = agent_calls

    def check(self, child: ChildRequested, caller: Caller) -> None:
        """Raise ToolFailed (the agent, a skill) or NotPermitted (tools) for a child."""
        try:
            agent = self._participants().agent(child.agent)
        except NotFound as error:
            raise ToolFailed(f"no child task can be started here: {error}") from None
        profile, skills = caller.profile, self._participants().skills
        of_child = skills_of_child(skills, agent, profile, child)
        known = {each.skill_id for each in of_child.visible()}
        for name in child.selected_skills:
            if name not in known:
                hint = did_you_mean(name, known)
                raise tool_failure("no_such_skill", f"there is no skill {name!r}.{hint}")
        if child.allowed_tools is not None:
            self._check_tools(child, agent, profile)

    async def create(self, children: Sequence[tuple[TaskId, ChildRequested]]) -> None:
        """Create children; leave those that exist. Raises SessionBusy if the tree is full.

        Then none of them works: the caller does not know those that had room.
        """
        # Together: the writer puts all of them into one transaction.
        made = [
            self._inbox().request(LogId(task_id), task_id, child) for task_id, child in children
        ]
        for failure in await asyncio.gather(*made, return_exceptions=True):
            if isinstance(failure, SessionBusy):
                await asyncio.gather(*(self._withdraw(task_id) for task_id, _ in children))
            if isinstance(failure, BaseException) and not isinstance(failure, NameTaken):
                raise failure

    async def _withdraw(self, task_id: TaskId) -> None:
        """Cancel a child that was just created, if it was."""
        with suppress(TaskOver, NotFound):
            cancelled = [Entry(CancelRequested(), task_id)]
            await self._log.send(LogId(task_id), cancelled, on_way=self._wake)

    async def find(self, task_ids: Sequence[TaskId], profile: Profile) -> list[TaskRecord | None]:
        """Return tasks of a profile; None for an unknown one."""
        found = await asyncio.gather(*map(self._projections.find_task, task_ids))
        return [_owned(each, profile) for each in found]

    async def attend(self, task_id: TaskId, waiter: TaskId, waiter_log: LogId) -> None:
        """Have the end of a task reported to another one; at once if it has ended or is gone."""
        record = await self._projections.find_task(task_id)
        try:
            if record is not None:
                added = WaiterAdded(waiter=waiter, waiter_log=waiter_log)
                await self._log.send(record.log_id, [Entry(added, task_id)])
                return
        except TaskOver:
            record = await self._projections.find_task(task_id)
        except NotFound:
            record = None
        ended = RunEnded(run_id=task_id, status=record.status if record else None)
        with suppress(TaskOver, NotFound):
            await self._log.send(waiter_log, [Entry(ended, waiter)], on_way=self._wake)

    async def cancel(self, task_id: TaskId, profile: Profile) -> list[TaskId]:
        """Cancel a task and what it spawned, deepest first; return those that had not ended."""
        cancelled: list[TaskId] = []
        for record in reversed(await self._with_children(task_id)):
            if record.status.is_final:
                continue
            request = Entry(CancelRequested(by=profile.profile_id), record.task_id)
            with suppress(TaskOver, NotFound):
                await self._log.send(record.log_id, [request], on_way=self._wake)
                cancelled.append(record.task_id)
        return cancelled

    async def work_here(self, child: ChildRequested, request: AgentRequest, ledger: Ledger) -> str:
        """Run what a child would do in a frame of the call; return its answer."""
        agent = for_child(self._participants().agent(child.agent), child)
        request = replace(
            request,
            agent=agent,
            task=brief_text(child, {}),
            is_typed=False,
            additions=additions(child),
            selected=child.selected_skills,
        )
        answer: str = await self._agent_calls().run(request, ledger)
        return answer

    async def _with_children(self, task_id: TaskId) -> list[TaskRecord]:
        """Return a task and all below it, each after its parent."""
        record = await self._projections.find_task(task_id)
        found = [] if record is None else [record]
        for each in found:  # grows while it is read
            of, page = TasksOf(parent_id=each.task_id), Page(limit=_PAGE)
            children, total = await self._projections.tasks(of=of, page=page)
            while len(children) < total:
                page = Page(limit=_PAGE, offset=len(children))
                more, _ = await self._projections.tasks(of=of, page=page)
                if not more:
                    break
                children = [*children, *more]
            found += children
        return found

    def _check_tools(self, child: ChildRequested, agent: Agent, profile: Profile) -> None:
        """Raise NotPermitted for tools that neither the agent nor the skills have."""
        named = child.allowed_tools or ()
        skills = skills_of_child(self._participants().skills, agent, profile, child)
        selection, invoker = skills.at(()), self._participants().invoker(agent)
        own = {tool.spec.tool_id for tool in offered(agent, invoker, profile)}
        wrong = [each for each in named if each not in own | selection.tools | selection.inline]
        if wrong:
            raise NotPermitted(
                f"a child of the agent {child.agent!r} may not have the tools {', '.join(wrong)}"
            )


def _owned(record: TaskRecord | None, profile: Profile) -> TaskRecord | None:
    is_own = record is not None and profile.owns(record.profile_id, record.log_id)
    return record if is_own else None

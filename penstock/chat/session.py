"""The body of a chat activation: answers one message of a conversation.

`work` may be entered many times for one task: after a crash, an answer, or the end of a run. It
builds everything from the log (the agent, its model, the tools that were offered at the start) and
runs the agent loop, which continues after the last event. What the task started with is fixed in
TaskStarted, so a change of settings does not reach a running task. Errors of the model or the
settings end the task with a reason; a missing part is checked before, by chat/task_bodies.

Shown by tests/chat/test_session.py; tests/journeys resume it after each event.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.agents.call_runner import CallRunner
from penstock.agents.catalog import agents_for
from penstock.agents.definition.options import DIGEST, note_change
from penstock.agents.handoffs import Transfer, handed_off
from penstock.agents.loop import End, FinalReply, has_passed, loop, with_output
from penstock.agents.output_contract import OutputContract, OutputMode, contract_of_schema
from penstock.agents.output_loop import OutputCallRunner, output_loop
from penstock.agents.tool_offer import AgentModel, OutputOffers, TaskOffers, caller_for, offered
from penstock.agents.turn import open_turns
from penstock.chat.participants import AgentSetup, Participants, skill_choice_of
from penstock.chat.summaries import Summaries
from penstock.chat.task_closer import ENDS, TaskCloser, detail, overdue
from penstock.core.envelope import ErrorDetail
from penstock.core.errors import ConfigError, NotFound, Suspend, ToolsetFailed
from penstock.core.events.events import MessageReceived, TaskEnded, TaskStarted
from penstock.core.exhaustion import raise_exhaustion
from penstock.core.ids import MessageId
from penstock.core.limits import World
from penstock.core.profile import LOCAL, Profile
from penstock.core.task import TaskStatus
from penstock.engine.budget import Budget
from penstock.engine.bus import Bus
from penstock.engine.held_log import HeldLog
from penstock.engine.ledger import Ledger
from penstock.engine.session_state import SessionState
from penstock.engine.slash_commands import SLASH, clears_history
from penstock.engine.suspend import park, withdraw
from penstock.engine.task_body import failed, message_of
from penstock.engine.task_state import TaskState
from penstock.models.model import Model
from penstock.tools.hooks.deciding import TaskHooks
from penstock.tools.hooks.hooks import scope_of
from penstock.tools.hooks.reply_hooks import ReplyHooks
from penstock.tools.skills import TaskSkills


class _Work(NamedTuple):
    """The work of an agent on a task."""

    setup: AgentSetup
    ledger: Ledger
    model: Model
    offers: TaskOffers
    hooks: TaskHooks | None
    reply_hooks: ReplyHooks | None
    is_new: bool
    """Whether the task starts, or was handed off to the agent just now."""


class ChatWork:
    """Answers the messages of conversations."""

    def __init__(self, participants: Participants, world: World, bus: Bus, *, key: bytes) -> None:
        self._participants = participants
        self._world = world
        self._bus = bus
        self._key = key
        self._closer = TaskCloser(key)
        self._in_tree: Callable[[TaskState, Budget], Awaitable[Budget]] | None = None

    async def work(self, held: HeldLog, task: TaskState) -> None:
        """Run the task of one message until it ends or waits."""
        arrivals_before = task.waits.arrivals
        if task.expired_waits > 1:
            self._closer.end(held, task, failed(task, overdue(task)))
            return
        try:
            outcome = await self._run_agent(held, task, is_new=task.started is None)
            while isinstance(outcome, Transfer):
                agent = self._participants.agent(outcome.agent)
                if agent.toolsets:
                    agent = await self._equipped(held, task, agent, is_new=True)
                self._hand_off(held, task, agent)
                outcome = await self._run_agent(held, task, agent, is_new=True)
        except Suspend:
            park(held, task, arrivals_before=arrivals_before)
            return
        except (*ENDS, ToolsetFailed) as error:
            raise_exhaustion(error)
            outcome = detail(error)
        if isinstance(outcome, ErrorDetail):
            self._closer.end(held, task, failed(task, outcome))
        else:
            if task.waits.waiting:
                withdraw(held, task)
            held.add(self._ended(task, outcome), task.task_id)

    def start(self, name: str, message: MessageReceived, profile: Profile) -> TaskStarted | None:
        """Return the start event for a message to an agent; None if its parts are not available."""
        try:
            agent = self._participants.agent(name)
            model = self._participants.model(agent, message.model)
            # Toolsets are asked first, which takes time.
            return None if agent.toolsets else self._started(agent, model, message, profile)
        except (ConfigError, NotFound):
            return None

    def _started(
        self, agent: Agent, model: Model, message: MessageReceived | None, profile: Profile
    ) -> TaskStarted:
        wants_tools = message is None or message.enable_tools
        tools = offered(agent, self._participants.invoker(agent), profile) if wants_tools else ()
        ids = tuple(tool.spec.tool_id for tool in tools)
        contract = None if message and message.output_schema is not None else agent.contract
        return TaskStarted(
            model=model.card.model_id,
            offered=ids,
            is_fresh=message is not None
            and message.content.startswith(SLASH)
            and clears_history(message.content),
            agent_schema=None if contract is None else contract.schema,
            agent_digest=agent.profile.content_hash[:DIGEST],
        )

    async def _equipped(
        self, held: HeldLog, task: TaskState, agent: Agent, *, is_new: bool
    ) -> Agent:
        """Return an agent that has toolsets with the tools that they return for the task."""
        scope = scope_of(held, task, profile_of(held.state, _message(task)), agent.name)
        return await self._participants.toolsets.equip(agent, held, scope, is_new=is_new)

    async def _run_agent(
        self, held: HeldLog, task: TaskState, agent: Agent | None = None, *, is_new: bool
    ) -> End:
        """Run an agent to the end of its turns; by default the one that has the conversation."""
        message = _message(task)
        if agent is None:
            replaces = message is not None and message.supersedes
            name = agents_for(held.state, task)[-1] if replaces else held.state.agents.newest
            agent = self._participants.agent(name)
            if agent.toolsets:
                agent = await self._equipped(held, task, agent, is_new=is_new)
        started = task.started
        wanted = started.model if started else message.model if message else None
        model = self._participants.model(agent, wanted)
        if started is None:
            self._begin(held, task, agent, model)
        elif task.agent_digest != agent.profile.content_hash[:DIGEST]:
            note_change(held, task, agent)
        model = self._participants.readable(model, agent, held.state)
        setup = self._participants.setup(agent)
        offers = await self._offers(held, task, setup)
        budget = Budget(agent.settings.allowance, task.spent, self._world.clock)
        if self._in_tree is not None:
            budget = await self._in_tree(task, budget)
        ledger = Ledger(held, task, budget, self._key)
        hooks = reply_hooks = None
        if setup.hooks is not None:
            dependencies = setup.invoker.edition.resources.dependencies
            profile = profile_of(held.state, message)
            hooks = TaskHooks(setup.hooks, ledger, profile, dependencies)
            await hooks.begin(task.main)
            reply_hooks = ReplyHooks(hooks, ledger)
        contract = _contract(task, agent)
        if agent.history.summarises:
            summaries = Summaries(ledger, self._participants.model, reply_hooks)
            await summaries.shorten(model, offers, contract)
        work = _Work(setup, ledger, model, offers, hooks, reply_hooks, is_new)
        if contract is None:
            return await self._run_loop(work)
        return await with_output(contract, model.card, ledger, partial(self._run_loop, work))

    def _hand_off(self, held: HeldLog, task: TaskState, agent: Agent) -> None:
        """Add the event by which another agent takes over, with its model and its tools."""
        message = _message(task)
        # A model that the message names is used by each agent of its task.
        model = self._participants.model(agent, message.model if message else None)
        started = self._started(agent, model, message, profile_of(held.state, message))
        held.add(handed_off(started, agent.name, held.state.agents.newest), task.task_id)

    def _begin(self, held: HeldLog, task: TaskState, agent: Agent, model: Model) -> None:
        """Add the event with which the task starts."""
        message = _message(task)
        started = self._started(agent, model, message, profile_of(held.state, message))
        if len(agents_for(held.state, task)) > 1:
            started = replace(started, agent=agent.name)
        held.add(started, task.task_id)

    async def _run_loop(self, work: _Work, contract: OutputContract | None = None) -> End:
        """Run the loop of the task: to an answer in text, or to an output that fits."""
        setup, ledger, model, offers, hooks, reply_hooks, is_new = work
        agent, task, typed = setup.agent, ledger.task, None
        settings, most, transfers = agent.settings, agent.settings.max_iterations, agent.transfers
        if contract is None:
            call_runner = CallRunner(setup.invoker, ledger, settings)
        else:
            typed = OutputOffers(offers, contract)
            invoker = self._participants.output_invoker(setup, contract)
            call_runner = OutputCallRunner(
                invoker, ledger, settings, contract=contract, dialogue=task.main, hooks=hooks
            )
            if contract.mode is OutputMode.TOOL:
                hooks = None  # it shows them a `final_answer` before it accepts it
        agent_model = AgentModel(
            model, typed or offers, agent, ledger, contract=contract, hooks=reply_hooks
        )
        turns = open_turns(
            agent_model, call_runner, task.main, world=self._world, bus=self._bus, is_new=is_new
        )
        while True:
            if typed is None:
                ended = await loop(turns, task, max_iterations=most, transfers=transfers)
            else:
                ended = await output_loop(
                    turns, ledger, typed, max_iterations=most, transfers=transfers
                )
            if hooks is None or await has_passed(hooks, turns, ended):
                return ended

    async def _offers(self, held: HeldLog, task: TaskState, setup: AgentSetup) -> TaskOffers:
        state, participants, message = held.state, self._participants, _message(task)
        agent, invoker, hooks = setup
        profile, named = profile_of(state, message), message.selected_skills if message else ()
        choice = agent.settings.skill_choice
        if task.fired is not None:
            choice = skill_choice_of(agent, task.fired)
        skills = TaskSkills(
            participants.skills, state, lambda: choice, profile=profile, named=named
        )
        has_tools = agent.settings.tools_enabled and (message is None or message.enable_tools)
        fixed = task.started.offered if task.started else ()
        fixed = fixed if fixed == state.messages.tools else state.messages.listed(fixed)
        prompt_prefix: tuple[str, ...] = ()
        if participants.prompt_prefix is not None:
            prompt_prefix = await participants.prompt_prefix.resolve(
                held, task, profile, self._world.clock
            )
        instructions: str | None = None
        if agent.instruction_parts is not None:
            scope = scope_of(held, task, profile, agent.name)
            dependencies = invoker.edition.resources.dependencies
            instructions = await agent.instruction_parts.of_task(held, task, scope, dependencies)
        caller = caller_for(agent, profile, fixed, skills)
        if hooks is not None:
            caller = replace(caller, hooks=hooks)
        return TaskOffers(
            agent,
            invoker,
            caller,
            fixed=fixed if has_tools else None,
            prompt_prefix=prompt_prefix,
            instructions=instructions,
        )

    def _ended(self, task: TaskState, answer: FinalReply) -> TaskEnded:
        reply = answer.reply
        return TaskEnded(
            status=TaskStatus.SUCCEEDED,
            message_id=reply.message_id if reply else MessageId(self._world.new_id("msg")),
            content=answer.text,
            finish_reason=answer.finish,
            iterations=task.main.iteration,
            usage=task.spent.usage(),
            output=answer.output,
        )


def _message(task: TaskState) -> MessageReceived | None:
    return brief if isinstance(brief := task.brief, MessageReceived) else message_of(task)


def _contract(task: TaskState, agent: Agent) -> OutputContract | None:
    """Return what the task must hand in: by its message, or by its agent; None for text."""
    brief = task.brief
    if isinstance(brief, MessageReceived) and brief.output_schema is not None:
        return contract_of_schema(brief.output_schema, agent.output_form)
    return agent.contract


def profile_of(state: SessionState, message: MessageReceived | None) -> Profile:
    """Return the profile of a task, with the permissions it had when the message was sent."""
    profile_id = state.opened.profile_id if state.opened else LOCAL
    return Profile.from_noted(profile_id, message.permissions if message else ())

"""A conversation at work: the body of a chat activation."""

from collections.abc import Callable

from penstock.agents.agent import Agent
from penstock.agents.hands import Hands
from penstock.agents.loop import Ending, loop
from penstock.agents.offer import Offers, caller_for, offered, skills_of
from penstock.agents.transcript import Transcript, room
from penstock.agents.turn import Turns, Voice
from penstock.chat.closing import Closing
from penstock.core.envelope import ErrorDetail
from penstock.core.errors import ConfigError, ModelError, ModelUnavailable, NotFound, PenstockError
from penstock.core.events import MessageReceived, TaskEnded, TaskStarted
from penstock.core.ids import ASSISTANT, LogId, MessageId
from penstock.core.profile import LOCAL, Profile
from penstock.core.signals import Suspend
from penstock.core.slash import is_fresh
from penstock.core.task import TaskStatus
from penstock.core.world import World
from penstock.engine.activation import failed, usage_of
from penstock.engine.budget import Budget
from penstock.engine.bus import Bus
from penstock.engine.held import HeldLog
from penstock.engine.ledger import Ledger
from penstock.engine.state import SessionState, TaskState
from penstock.engine.suspend import park, withdraw
from penstock.models.model import Model
from penstock.tools.invoker import Invoker
from penstock.tools.skills import NO_SKILLS, Skills, TaskSkills

FindAgent = Callable[[LogId, str], Agent]
"""The agent of a session, by name. Raises NotFound."""
FindInvoker = Callable[[Agent], Invoker]
FindModel = Callable[[Agent, str | None], Model]
"""The model for an agent, or the one a message asks for. Raises ConfigError."""


class Cast:
    """Who takes part: agents, their tools, their models, their skills."""

    __slots__ = ("agent", "invoker", "model", "skills")

    def __init__(
        self,
        agent: FindAgent,
        invoker: FindInvoker,
        model: FindModel,
        skills: Skills = NO_SKILLS,
    ) -> None:
        self.agent = agent
        self.invoker = invoker
        self.model = model
        self.skills = skills


class ChatWork:
    """Answers the messages of conversations."""

    def __init__(self, cast: Cast, world: World, bus: Bus, *, key: bytes) -> None:
        self._cast = cast
        self._world = world
        self._bus = bus
        self._key = key
        self._closing = Closing(key)

    async def work(self, held: HeldLog, task: TaskState) -> None:
        """Go on with the task of one message until it has ended or waits."""
        brief = task.brief
        message = brief if isinstance(brief, MessageReceived) else None
        answered = len(task.answers)
        try:
            turns = self._turns(held, task, message)
            most = self._agent(held.state).settings.max_iterations
            outcome = await loop(turns, task, max_iterations=most)
        except Suspend:
            park(held, task, answered=answered)
            return
        except (ModelError, ConfigError, NotFound) as error:
            outcome = detail(error)
        if isinstance(outcome, ErrorDetail):
            self._closing.end(held, task, failed(task, outcome))
        else:
            withdraw(held, task)
            held.add(self._ended(task, outcome), task.task_id)

    def start(
        self, log_id: LogId, name: str, message: MessageReceived, profile: Profile
    ) -> TaskStarted | None:
        """Return how the task of a message to an agent starts; None when it cannot."""
        try:
            agent = self._cast.agent(log_id, name)
            return self._started(agent, self._cast.model(agent, message.model), message, profile)
        except (ConfigError, NotFound):
            return None

    def _started(
        self, agent: Agent, model: Model, message: MessageReceived | None, profile: Profile
    ) -> TaskStarted:
        wants_tools = message is None or message.enable_tools
        tools = offered(agent, self._cast.invoker(agent), profile) if wants_tools else ()
        ids = tuple(tool.spec.tool_id for tool in tools)
        is_new = message is not None and is_fresh(message.content)
        return TaskStarted(model=model.card.model_id, offered=ids, is_fresh=is_new)

    def _agent(self, state: SessionState) -> Agent:
        opened = state.opened
        return self._cast.agent(state.log_id, opened.agent if opened else ASSISTANT)

    def _turns(self, held: HeldLog, task: TaskState, message: MessageReceived | None) -> Turns:
        agent = self._agent(held.state)
        settings = agent.settings
        invoker = self._cast.invoker(agent)
        profile = profile_of(held.state, message)
        wanted = task.started.model if task.started else message.model if message else None
        model = self._cast.model(agent, wanted)
        if task.started is None:
            started = self._started(agent, model, message, profile)
            held.add(started, task.task_id)
            restart = False
        else:
            started = task.started
            restart = not held.begins and (task.reply is None or not task.reply.calls)
        limit = room(
            model.card.context_tokens, settings.context_max_tokens, settings.llm_max_tokens
        )
        offers = self._offers(agent, held.state, message, started)
        budget = Budget(settings.allowance(), task, self._world.clock)
        hands = Hands(invoker, Ledger(held, task, budget, self._key), settings)
        selected = task.rounds[-1].selected if task.rounds else held.state.selected
        transcript = Transcript(held.state, task, system=offers.at(selected).system, limit=limit)
        voice = Voice(model, offers, settings)
        return Turns(voice, hands, transcript, world=self._world, bus=self._bus, restart=restart)

    def _offers(
        self,
        agent: Agent,
        state: SessionState,
        message: MessageReceived | None,
        started: TaskStarted,
    ) -> Offers:
        invoker, profile = self._cast.invoker(agent), profile_of(state, message)
        named = message.selected_skills if message else ()
        skills = TaskSkills(
            self._cast.skills, state, skills_of(agent), profile=profile, named=named
        )
        has_tools = agent.settings.tools_enabled and (message is None or message.enable_tools)
        caller = caller_for(agent, profile, started.offered, skills)
        return Offers(agent, invoker, caller, fixed=started.offered if has_tools else None)

    def _ended(self, task: TaskState, answer: Ending) -> TaskEnded:
        reply = answer.reply
        return TaskEnded(
            status=TaskStatus.SUCCEEDED,
            message_id=reply.message_id if reply else MessageId(self._world.new_id("msg")),
            content=answer.text,
            finish_reason=answer.finish,
            iterations=task.iteration,
            usage=usage_of(task),
        )


def detail(error: PenstockError) -> ErrorDetail:
    """Return an error that ends a task as its event keeps it: a model's, or one of its own."""
    retryable = isinstance(error, ModelError) and error.retryable
    code = error.code
    if isinstance(error, ConfigError):
        code = ModelUnavailable.code
    elif isinstance(error, NotFound):
        code = PenstockError.code
    return ErrorDetail(code=code, message=str(error), retryable=retryable, continuable=False)


def profile_of(state: SessionState, message: MessageReceived | None) -> Profile:
    """Return for whom the task is done, with what that one was allowed when asking."""
    profile_id = state.opened.profile_id if state.opened else LOCAL
    return Profile.from_noted(profile_id, message.permissions if message else ())

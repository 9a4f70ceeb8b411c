"""Hooks: code of a program that sees what agents do, changes it, or stops it.

Which methods the hooks of an agent override is found once, in `AgentHooks`: an agent without hooks
has None and pays nothing. `HookRegistry` keeps names unique, because the log identifies a hook by
its name. How they are asked, and what is recorded, is in `deciding`.

An agent that works for a call of another one cannot escape the hooks of that one: `inside` adds
them to its own for the methods that see calls (decision 084).
"""

from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from inspect import iscoroutinefunction
from typing import Any, Generic, NamedTuple, get_args, get_origin

from msgspec import Struct
from typing_extensions import TypeVar

from penstock.core.call import CallPath
from penstock.core.diagnostics import did_you_mean
from penstock.core.envelope import Envelope
from penstock.core.errors import ConfigError
from penstock.core.profile import Profile
from penstock.core.reply import ToolCall, UserMessage
from penstock.engine.held_log import HeldLog
from penstock.engine.task_state import TaskState
from penstock.engine.waits import OF_CALLS
from penstock.models.model import ModelRequest
from penstock.resources.dependencies import AgentContext, TaskScope

DepsT_contra = TypeVar("DepsT_contra", contravariant=True, default=object)
BEFORE_MODEL, AFTER_REPLY = "before_model", "after_reply"
BEFORE_CALL, AFTER_CALL = "before_call", "after_call"
ON_INPUT, ON_OUTPUT = "on_input", "on_output"
METHODS = (BEFORE_MODEL, AFTER_REPLY, BEFORE_CALL, AFTER_CALL, ON_INPUT, ON_OUTPUT)


class Refuse(Struct, frozen=True):
    """Stops what a hook was asked about; return it from a hook.

    A refused call does not run, and the model reads the reason as its outcome. A refused message,
    request or reply ends the task as failed, with the reason.

    Example:
        >>> from penstock import Refuse
        >>> Refuse("Refunds over 100 need a person.").reason
        'Refunds over 100 need a person.'
    """

    reason: str
    """Why; the model, or the sender of the message, reads it."""


class Ask(Struct, frozen=True):
    """Lets a person decide about a call; return it from `before_call`.

    Example:
        >>> from penstock import Ask
        >>> Ask("Refund 120 to Ann?").question
        'Refund 120 to Ann?'
    """

    question: str
    """The question; the person approves the call, changes its input, or rejects it."""


class ModelReply(Struct, frozen=True, kw_only=True):
    """A complete reply of a model, as hooks see it.

    Example:
        >>> from penstock import ModelReply
        >>> ModelReply(text="Done.").calls
        ()
    """

    text: str
    """The text for the person."""
    calls: tuple[ToolCall, ...] = ()
    """The calls that it asks for. Their inputs are not checked yet."""
    reasoning: str = ""
    """The model's reasoning, if the provider shows it. Changes of it are ignored."""


class Hooks(Generic[DepsT_contra]):
    """Sees what agents do, and may change or stop it. Override the methods that you need.

    Pass instances to `Agent(hooks=[...])` or, for all agents, to `penstock.open(hooks=[...])`. A
    decision is recorded and not asked for again after a crash. A hook that raises refuses.

    Example:
        >>> from penstock import Agent, Hooks, Refuse
        >>> class SmallRefunds(Hooks):
        ...     async def before_call(self, ctx, call):
        ...         if call.tool == "refund" and call.input["amount"] > 100:
        ...             return Refuse("Refunds over 100 need a person.")
        ...         return call
        >>> Agent("clerk", hooks=[SmallRefunds()]).hooks[0].name
        'SmallRefunds'
    """

    name: str = "Hooks"
    """Identifies it in the log and in errors. Unique in a runtime; the default is the name of the
    class. Set it on an instance if you use several of one class."""

    def __init_subclass__(cls) -> None:
        """Name the class, unless it names itself."""
        super().__init_subclass__()
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    async def before_model(
        self, ctx: AgentContext[DepsT_contra], request: ModelRequest
    ) -> ModelRequest | Refuse:
        """Return the request to send to the model, changed or not, or Refuse.

        Args:
            ctx: The agent and its task.
            request: The system prompt, the messages, the tools and the settings.
        """
        return request

    async def after_reply(
        self, ctx: AgentContext[DepsT_contra], reply: ModelReply
    ) -> ModelReply | Refuse:
        """Return the reply of the model, changed or not, or Refuse. May raise ModelRetry.

        The text of the reply is shown only after this method has returned.

        Args:
            ctx: The agent and its task.
            reply: Its text and the calls that it asks for.
        """
        return reply

    async def before_call(
        self, ctx: AgentContext[DepsT_contra], call: ToolCall
    ) -> ToolCall | Refuse | Ask:
        """Return the call to make, with the same or another input, or Refuse, or Ask.

        It is asked last: the input is valid, and all else allows the call.

        Args:
            ctx: The agent and its task.
            call: The call.
        """
        return call

    async def after_call(
        self, ctx: AgentContext[DepsT_contra], call: ToolCall, envelope: Envelope
    ) -> Envelope:
        """Return the outcome of a call that ran, changed or not. May raise ModelRetry.

        Args:
            ctx: The agent and its task.
            call: The call, with the input that the tool received.
            envelope: Its outcome.
        """
        return envelope

    async def on_input(
        self, ctx: AgentContext[DepsT_contra], message: UserMessage
    ) -> UserMessage | Refuse:
        """Return the message that a task begins with, changed or not, or Refuse.

        Args:
            ctx: The agent and its task.
            message: The message; the model reads the one that you return.
        """
        return message

    async def on_output(self, ctx: AgentContext[DepsT_contra], output: Any) -> None:
        """Look at the output of a task before it ends. May raise ModelRetry.

        Args:
            ctx: The agent and its task.
            output: The text, or the typed output.
        """


class Answer(NamedTuple):
    """A call whose outcome is the output of a task."""

    frame: CallPath | None
    """The frame of the agent; None for the main agent of a task."""
    turn: int
    """Minus the number of the reply that makes the call."""


class AgentHooks:
    """The hooks of one agent, by the methods that they override.

    Those of an agent around it see its calls, too. They are asked after the hooks of the project
    and before its own: each hook can only restrict what the one before left.
    """

    __slots__ = ("_by_method", "_hooks", "_owners", "agent", "answer")

    def __init__(
        self, agent: str, hooks: Sequence[Hooks[Any]], outer: "AgentHooks | None" = None
    ) -> None:
        self.agent = agent
        self.answer: Answer | None = None
        """Set while the agent calls its output function."""
        self._hooks = hooks
        self._by_method = {
            method: tuple(hook for hook in hooks if _overrides(hook, method)) for method in METHODS
        }
        self._owners: dict[Hooks[Any], str] = {}
        if outer is not None:
            for method in OF_CALLS:
                around, own = outer.overriding(method), self._by_method[method]
                self._by_method[method] = tuple(dict.fromkeys((*around, *own)))
                others = (hook for hook in around if hook not in hooks)
                self._owners.update((hook, outer.owner(hook)) for hook in others)

    def overriding(self, method: str) -> tuple[Hooks[Any], ...]:
        """Return the hooks that override a method, in their order."""
        return self._by_method[method]

    def owner(self, hook: Hooks[Any]) -> str:
        """Return the agent whose dependencies a hook gets."""
        return self._owners.get(hook, self.agent)

    def within(self, outer: "AgentHooks") -> "AgentHooks":
        """Return the hooks of this agent while it works for a call of another one."""
        return AgentHooks(self.agent, self._hooks, outer)

    def answering(self, answer: Answer) -> "AgentHooks":
        """Return the hooks for a call whose outcome is an output."""
        made = copy(self)
        made.answer = answer
        return made

    def __bool__(self) -> bool:
        """Whether any method is overridden."""
        return any(self._by_method.values())


def inside(agent: str, own: AgentHooks | None, outer: AgentHooks | None) -> AgentHooks | None:
    """Return the hooks for the calls of an agent that works for a call; None if there are none.

    Args:
        agent: The agent that works.
        own: Its hooks, with those of the project.
        outer: The hooks for the call that it works for.
    """
    return own if outer is None else (own or AgentHooks(agent, ())).within(outer)


class HookRegistry:
    """The hooks of a project, and those of each agent."""

    def __init__(self, hooks: Iterable[Hooks[Any]] = ()) -> None:
        self.project: list[Hooks[Any]] = []
        """The hooks of all agents, in the order in which they are asked."""
        self._agents: dict[str, tuple[Sequence[Hooks[Any]], AgentHooks | None]] = {}
        self.add(hooks)

    def add(self, hooks: Iterable[Hooks[Any]]) -> None:
        """Add hooks for all agents. Raises ConfigError for one that is none, or a name in use."""
        added = checked_hooks(hooks, "hooks of the project")
        for hook in added:
            self._check_free(hook, "")
        self.project += added
        self._agents.clear()

    def select(self, agent: str, own: Sequence[Hooks[Any]]) -> AgentHooks | None:
        """Return the hooks of an agent; None if there are none. Raises ConfigError."""
        known = self._agents.get(agent)
        if known is not None and known[0] is own:
            return known[1]
        for hook in own:
            self._check_free(hook, agent)
        # An instance that is listed twice is asked once, at its first place.
        selected = AgentHooks(agent, tuple(dict.fromkeys((*self.project, *own)))) or None
        self._agents[agent] = own, selected
        return selected

    def _check_free(self, hook: Hooks[Any], agent: str) -> None:
        others = {name: own for name, (own, _) in self._agents.items() if name != agent}
        for owner, hooks in (("", self.project), *others.items()):
            taken = next((each for each in hooks if each.name == hook.name), None)
            if taken is not None and taken is not hook:
                place = f"the agent {owner!r}" if owner else "the project"
                raise ConfigError(
                    f"two hooks are named {hook.name!r}, {taken!r} of {place} is one of them; "
                    "give each instance its own `name`"
                )


def checked_hooks(hooks: Iterable[Any], where: str) -> tuple[Hooks[Any], ...]:
    """Return the hooks. Raises ConfigError for one that is none, or for two of one name."""
    if isinstance(hooks, Hooks):
        raise ConfigError(f"{where} are a list; write [{hooks.name}()]")
    if not isinstance(hooks, Iterable):
        raise ConfigError(f"{where} are a list, found {hooks!r}")
    found = tuple(hooks)
    for number, hook in enumerate(found):
        if not isinstance(hook, Hooks):
            hint = "; create an instance of it" if isinstance(hook, type) else ""
            raise ConfigError(f"{where} must be instances of Hooks, found {hook!r}{hint}")
        name: Any = hook.name
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"{where}: {hook!r} needs a name, found {hook.name!r}")
        if any(each.name == hook.name and each is not hook for each in found[:number]):
            raise ConfigError(
                f"{where}: two are named {hook.name!r}; give each instance its own `name`"
            )
        if near := next(_misspelt(type(hook)), None):
            raise ConfigError(
                f"{where}: no hook is asked by the method {near[0]!r} of {hook.name}.{near[1]} "
                f"There are {', '.join(METHODS)}; a method of your own needs another name"
            )
        for method in METHODS:
            if _overrides(hook, method) and not iscoroutinefunction(getattr(hook, method)):
                raise ConfigError(f"{where}: {hook.name}.{method} must be an `async def`")
    return found


def _misspelt(kind: type) -> Iterator[tuple[str, str]]:
    """Yield the methods that look like those of Hooks but are not, each with what was meant.

    Those that another base class has are left out: something else calls them.
    """
    others = [each for each in kind.__mro__ if not issubclass(each, Hooks)]
    written = {name for each in kind.__mro__ if issubclass(each, Hooks) for name in vars(each)}
    for name in sorted(written.difference(*map(dir, (Hooks, *others)))):
        if name.startswith("_") or not callable(getattr(kind, name)):
            continue
        # The words of other frameworks for a call of a tool and a request to a model.
        usual = name.replace("tool", "call").replace("llm", "model")
        meant = did_you_mean(usual, METHODS)
        if meant or name.startswith(("before_", "after_", "on_")):
            yield name, meant


def needs_of_hook(hook: Hooks[Any]) -> Any:
    """Return the type of the deps that a hook names, as in `Hooks[Pool]`; None if it names none."""
    for kind in type(hook).__mro__:
        for written in kind.__dict__.get("__orig_bases__", ()):
            if get_origin(written) is Hooks:
                (needed,) = get_args(written)
                is_known = needed not in {object, Any} and not isinstance(needed, TypeVar)
                return needed if is_known else None
    return None


def _overrides(hook: Hooks[Any], method: str) -> bool:
    own = getattr(hook, method)
    return getattr(own, "__func__", own) is not getattr(Hooks, method)


def scope_of(held: HeldLog, task: TaskState, profile: Profile, agent: str) -> TaskScope:
    """Return a task as functions of a program see it: those that make dependencies, and hooks."""
    return TaskScope(
        profile=profile,
        session=held.state.session_id,
        task_id=task.task_id,
        agent=agent,
        metadata=task.metadata,
        flow=task.flow,
    )

"""The parts of a project around a replay: its tools, models and network answer from the record."""

import json
from collections.abc import AsyncGenerator, Mapping
from functools import cached_property
from typing import Any

from msgspec import ValidationError, convert, to_builtins
from msgspec.structs import fields, replace

from penstock.agents.agent import Agent, ChatSettings
from penstock.agents.agent_settings import check_settings
from penstock.agents.catalog import ModelSelector
from penstock.app.runtime_parts import RuntimeParts, Storage
from penstock.app.trial.replay_answers import Answers
from penstock.app.trial.replay_children import ReplayChildren, ReplayedChildWork
from penstock.app.wiring import Assembly
from penstock.chat.children.work import ChildWork
from penstock.chat.participants import Participants
from penstock.chat.task_bodies import TaskDispatcher
from penstock.core.envelope import Json
from penstock.core.errors import ConfigError, NotFound
from penstock.core.events.events import ReplyReceived
from penstock.core.events.history_events import Summarised
from penstock.core.ids import BlobId
from penstock.core.limits import World
from penstock.engine.bus import Bus, LiveReply
from penstock.models.model import (
    CallDelta,
    Finished,
    Model,
    ModelCard,
    ModelEvent,
    ModelRequest,
    TextDelta,
)
from penstock.resources.egress import Egress, EgressCaller, HttpResponse, Request
from penstock.store.blobs import Blobs, Memory
from penstock.tools.invocation import Invocation
from penstock.tools.invoker import Invoker
from penstock.tools.resources import Callbacks
from penstock.tools.tool import Registry, Tool

_UNKNOWN_PROVIDER = "recorded"


class ReplayAssembly(Assembly):
    """The parts of a project around a replay."""

    def __init__(
        self, answers: Answers, parts: RuntimeParts, world: World, outputs: Mapping[BlobId, bytes]
    ) -> None:
        self._answers = answers
        self._real = parts
        project = parts.tools.project
        tools = replace(project.tools, egress=_NoEgress(answers, project.tools.egress))
        storage = _storage_for(parts.storage, outputs)
        super().__init__(world, storage, replace(project, tools=tools))
        bus = self._bus = _RecordedBus()
        self._models = _RecordedModels(answers, bus, project.agents)
        self._agents: dict[str, Agent[Any, Any]] = {}

    @property
    def work(self) -> TaskDispatcher:
        """Return the bodies of tasks."""
        return self._work

    def knows(self, agent: str, tool_id: str) -> bool:
        """Whether an agent of the project has a tool. Raises NotFound for an unknown agent."""
        return tool_id in self._participants.invoker(self.agent(agent)).registry

    @cached_property
    def _invoker(self) -> Invoker:
        """Return an invoker whose tools answer from the record."""
        real = self._real.tools.invoker
        return _RecordedInvoker(
            self._answers, real.registry, real.rules, self._resources, world=self._world
        )

    def _child_work(self, of_kind: type[ChildWork]) -> ChildWork:
        return super()._child_work(ReplayedChildWork)

    @cached_property
    def _callbacks(self) -> Callbacks:
        """Return the functions that tools call, which write no task."""
        found = super()._callbacks
        assert found.children is not None  # noqa: S101  every assembly has them
        return replace(found, children=ReplayChildren(found.children, self._answers.log), runs=None)

    @cached_property
    def _participants(self) -> Participants:
        """Return the agents, with the changed prompt."""
        real = self._real.chat.participants
        return Participants(
            self.agent,
            self._invoker,
            self._models.choose,
            skills=real.skills,
            prompt_prefix=real.prompt_prefix,
            attachments=self._attachment_reader,
        )

    def agent(self, name: str) -> Agent[Any, Any]:
        """Return an agent; that of the task with the changed prompt. Raises NotFound."""
        agent = self._project.agents.catalog.get(name)
        changes = self._answers.options.changes
        text, settings = changes.system_prompt, changes.settings
        is_changed = text is not None or settings
        if not is_changed or name != self._answers.log.state.agents.newest:
            return agent
        if name not in self._agents:
            changed = agent.__replace__(settings=_with_settings(agent.settings, settings))
            if text is not None:
                own = changed.settings.llm_system_prompt or agent.instructions
                changed = changed.__replace__(
                    instructions=text,
                    instruction_parts=None,
                    settings=replace(changed.settings, llm_system_prompt=None),
                )
                self._answers.change_prompt(own, text)
            self._agents[name] = changed
        return self._agents[name]


class _RecordedInvoker(Invoker):
    """An invoker whose tools answer from the record."""

    def __init__(self, answers: Answers, *parts: Any, **more: Any) -> None:
        self._answers = answers
        super().__init__(*parts, **more)

    def renew(self, registry: Registry) -> None:
        """Use the tools of a registry, each as one that answers from the record."""
        changes = self._answers.options.changes.tools

        def wrapped(tool: Tool) -> Tool:
            if isinstance(tool, _RecordedTool):
                return tool
            return _RecordedTool(self._answers, tool, changes.get(tool.spec.tool_id, {}))

        granted = {name: wrapped(tool) for name, tool in registry.granted.items()}
        tools = map(wrapped, registry)
        super().renew(Registry(tools, registry.permissions, granted=granted))

    def over(self, registry: Registry) -> Invoker:
        """Return an invoker for other tools, which answers from the record, too."""
        return _RecordedInvoker(
            self._answers,
            registry,
            self.rules,
            self._resources,
            world=self._world,
            threads=self.threads,
            hooks=self.hooks,
        )


class _RecordedTool:
    """A tool whose calls get their recorded outcomes."""

    def __init__(self, answers: Answers, tool: Tool, changes: Json) -> None:
        self._answers = answers
        self._tool = tool
        self.spec = replace(tool.spec, **changes) if changes else tool.spec

    def preview(self, output: Any) -> str | None:
        """Return the preview of the tool."""
        return self._tool.preview(output)

    async def run(self, input: Json, invocation: Invocation) -> Any:
        """Return the recorded outcome."""
        return await self._answers.answer(self._tool, input, invocation)


class _RecordedBus(Bus):
    """Notes which turn asks its model next: requests do not say it."""

    newest: LiveReply | None = None

    def begin(self, reply: LiveReply) -> None:
        """Note a request to a model."""
        self.newest = reply

    def end(self, reply: LiveReply) -> None:
        """Forget it."""
        self.newest = None


class _RecordedModels(ModelSelector):
    """Chooses models that give the recorded replies."""

    def __init__(self, answers: Answers, bus: _RecordedBus, agents: Any) -> None:
        super().__init__(agents.models, agents.model_names)
        self._answers = answers
        self._bus = bus

    def choose(self, agent: Any, requested: str | None) -> Model:
        """Return a model that gives the recorded replies, with the card of the real one."""
        wanted = self._answers.options.changes.model or requested
        try:
            real: Model | None = super().choose(agent, wanted)
        except ConfigError as error:
            if self._answers.options.live:
                raise
            self._answers.warnings.append(f"the model is not available here: {error}")
            real = None
        name = wanted or "recorded"
        unknown = ModelCard(model_id=name, name=name, provider=_UNKNOWN_PROVIDER)
        return _RecordedModel(
            self._answers, self._bus, real, unknown if real is None else real.card
        )


class _RecordedModel:
    """A model that gives the recorded replies; a real one goes on after the first difference."""

    def __init__(
        self, answers: Answers, bus: _RecordedBus, real: Model | None, card: ModelCard
    ) -> None:
        self.card = card
        self._answers = answers
        self._bus = bus
        self._real = real

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Yield the recorded reply. Raises Cancel if the request is another one."""
        live = self._bus.newest
        if live is None and not self._answers.log.is_live:
            for event in self._summary():
                yield event
            return
        recorded = self._answers.reply_to(live, request)
        if recorded is not None:
            for event in _events_of(recorded):
                yield event
            return
        assert self._real is not None  # noqa: S101  `choose` raises with `live`
        async for event in self._real.stream(request):
            if isinstance(event, Finished):
                self._answers.spend(event.usage)
            yield event

    def _summary(self) -> list[ModelEvent]:
        """Return the next recorded summary, which no turn announces."""
        found = self._answers.record.summary()
        if found is None or not isinstance(found.event, Summarised):
            raise self._answers.log.differ(
                "limit",
                "the conversation is summarised now",
                None,
                path=self._answers.record.task_id,
            )
        return [TextDelta(found.event.text), Finished("stop", found.event.usage)]

    async def close(self) -> None:
        """Do nothing: the runtime closes its models."""


class _NoEgress(Egress):
    """The network, which a replay reaches only after its first difference."""

    def __init__(self, answers: Answers, real: Egress | None) -> None:
        self._answers = answers
        self._real = real

    async def fetch(self, request: Request, asker: EgressCaller) -> HttpResponse:
        """Stop the replay: this request was not recorded. With `live`, make it."""
        if self._answers.log.is_live and self._real is not None:
            return await self._real.fetch(request, asker)
        summary = f"{asker.tool_id} sends a request that was not recorded: {request.url}"
        raise self._answers.log.differ("code", summary, None, path=self._answers.record.task_id)


class _OverStored(Memory):
    """Bytes in memory over those of the store, which stay as they are."""

    def __init__(self, stored: Blobs, outputs: Mapping[BlobId, bytes]) -> None:
        super().__init__()
        self._stored = stored
        self._outputs = outputs

    async def find(self, name: str) -> bytes | None:
        """Return the bytes, or None if the name does not exist."""
        mine = await super().find(name)
        mine = self._outputs.get(BlobId(name)) if mine is None else mine
        if mine is not None:
            return mine
        try:
            return await self._stored.get(BlobId(name))
        except NotFound:
            return None


def _with_settings(settings: ChatSettings, changes: Json) -> ChatSettings:
    """Return settings with changes. Raises ConfigError for unknown names and values."""
    known = to_builtins(settings)
    if unknown := sorted(set(changes) - {each.name for each in fields(settings)}):
        raise ConfigError(f"there is no setting {unknown[0]!r} of agents")
    try:
        changed = convert({**known, **changes}, ChatSettings)
    except ValidationError as error:
        raise ConfigError(f"the settings cannot be changed: {error}") from None
    check_settings(changed, ChatSettings)
    return changed


def _storage_for(storage: Storage, outputs: Mapping[BlobId, bytes]) -> Storage:
    """Return the storage of a replay: what is read is real, bytes are written to memory."""
    blobs = Blobs(_OverStored(storage.blobs, outputs))
    return replace(storage, blobs=blobs, database_parts=None, webhooks=())


def _events_of(reply: ReplyReceived) -> list[ModelEvent]:
    events: list[ModelEvent] = [TextDelta(reply.text)] if reply.text else []
    for place, call in enumerate(reply.calls):
        text = call.arguments_text
        if text is None:
            text = json.dumps(call.arguments)
        events += [CallDelta(place, call.name), CallDelta(place, "", text)]
    finish = (
        "length" if any(getattr(each, "is_cut", False) for each in reply.calls) else reply.finish
    )
    return [*events, Finished(finish, reply.usage, carry=reply.carry, refusal=reply.refusal)]

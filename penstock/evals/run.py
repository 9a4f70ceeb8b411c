"""Runs a dataset: each attempt is one task of the log, so a run survives the process.

Guarantees that an attempt of a run is asked once: its message has a key made of the run, the case,
the model and the number, and the log accepts a key once. A run with the id of an earlier one
therefore reads the finished attempts from the log, waits for those under way, and asks only what is
missing. Verdicts of a `Judge` are tasks with keys, too. A run without an id takes that of the last
one with the same plan if that one was cut; `stored_runs` has the ids.

Relies on `Runtime.start` for the key, which also refuses a case whose input has changed since (the
run then needs another id). Shown by tests/evals/test_run.py, which kills runs in the middle, and by
tests/journeys/test_killed_eval.py.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, TypedDict

from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import Unpack

from penstock.agents.agent import Agent
from penstock.agents.attachments.content import Attachment
from penstock.app.runtime import Runtime
from penstock.chat.python.message_options import MessageOptions
from penstock.core.errors import ConfigError, InvalidRequest, PenstockError
from penstock.core.ids import LogId, QuestionId, TaskId
from penstock.core.reply import Question, Reply
from penstock.evals.case import (
    GRANTED,
    MAX_ANSWERS,
    Answered,
    AnyScorer,
    AttemptScorer,
    Case,
    OutputT,
    Score,
    Verdict,
    is_of_person,
    is_share,
    plain,
)
from penstock.evals.dataset import Dataset
from penstock.evals.report import Attempt, Grade, Report
from penstock.evals.scorers import Equal, Judge
from penstock.evals.stored_runs import RunRecord, StoredRuns, plan_of
from penstock.program.opening import open_sync


class RunOptions(TypedDict, total=False):
    """Further options of `evaluate`."""

    models: Sequence[str]
    """Models to compare, each asked with every case; none is the agent's own model."""
    run_id: str
    """The name of the run: the same name continues it. None is needed to continue a cut run."""
    new: bool
    """Whether to start a new run even if the last one with the same cases was cut."""
    on_attempt: Callable[[Attempt], None]
    """Called when an attempt is scored, for progress."""


async def evaluate(
    dataset: Dataset[OutputT],
    *,
    agent: Agent[Any, OutputT] | str,
    runtime: Runtime,
    repeat: int = 1,
    concurrency: int = 8,
    **options: Unpack[RunOptions],
) -> Report:
    """Ask an agent with every case of a dataset, and score the replies.

    Args:
        dataset: The cases and their scorers.
        agent: The agent, or its name.
        runtime: The runtime that does the work; its log keeps every attempt.
        repeat: How often each case is asked.
        concurrency: How many attempts run at once.
        **options: See RunOptions.

    Returns:
        The report. A case whose task failed, or that waits for a person, has not passed.

    Raises:
        ConfigError: A number is below 1, a model is unknown, or a scorer returned no score.
        NotFound: There is no such agent.

    Example:
        >>> import asyncio
        >>> from penstock import Agent
        >>> from penstock.evals import Case, Dataset, Equal, evaluate
        >>> from penstock.testing import ScriptedModel, memory_runtime, say
        >>> sums = Dataset("sums", [Case("two", input="1 + 1", expected="2")], scorers=[Equal()])
        >>> async def main() -> None:
        ...     async with memory_runtime(model=ScriptedModel([say("2")])) as runtime:
        ...         report = await evaluate(sums, agent=Agent("clerk"), runtime=runtime)
        ...         print(report.rate.passed, report.rate.attempts)
        >>> asyncio.run(main())
        1 1
    """
    if min(repeat, concurrency) < 1:
        raise ConfigError(f"repeat and concurrency must be at least 1: {repeat}, {concurrency}")
    agents = runtime.parts.chat.agents
    name = agents.get(agent).name if isinstance(agent, str) else agents.put(agent).name
    places = await _places(runtime, dataset, options.get("models") or ("",), repeat)
    kept = await _kept(runtime, places, options, dataset=dataset.name, agent=name)
    run = _Run(runtime=runtime, agent=agent, run_id=kept.report.run_id, scorers=dataset.scorers)
    return await kept.finish(run.attempts(places, concurrency, options.get("on_attempt")))


def evaluate_sync(
    dataset: Dataset[OutputT],
    *,
    agent: Agent[object, OutputT],
    path: Path | str = ".",
    repeat: int = 1,
    concurrency: int = 8,
    **options: Unpack[RunOptions],
) -> Report:
    """Evaluate an agent in a script or a notebook, in the project of a folder.

    Args:
        dataset: The cases and their scorers.
        agent: The agent.
        path: The folder of the project; `":memory:"` keeps nothing.
        repeat: How often each case is asked.
        concurrency: How many attempts run at once.
        **options: See RunOptions.

    Returns:
        The report.

    Raises:
        PenstockError: The project cannot be opened, or see `evaluate`.

    Example:
        >>> from penstock import Agent
        >>> from penstock.evals import Case, Dataset, Equal, evaluate_sync
        >>> from penstock.testing import ScriptedModel, say
        >>> clerk = Agent("clerk", model=ScriptedModel([say("2")]), tools=())
        >>> sums = Dataset("sums", [Case("two", input="1 + 1", expected="2")], scorers=[Equal()])
        >>> evaluate_sync(sums, agent=clerk, path=":memory:").pass_rate
        1.0
    """

    async def work(runtime: Runtime) -> Report:
        return await evaluate(
            dataset,
            agent=agent,
            runtime=runtime,
            repeat=repeat,
            concurrency=concurrency,
            **options,
        )

    with open_sync(path, agents=[agent], resume=False) as runtime:
        return runtime.do(work)


class _Place(Struct, frozen=True):
    """Which attempt of a run."""

    case: Case[Any]
    model: str
    number: int


async def _places(
    runtime: Runtime, dataset: Dataset[Any], models: Sequence[str], repeat: int
) -> Sequence[_Place]:
    """Return all attempts. Raises ConfigError for an unknown model, and for that of a Judge."""
    for model in filter(None, models):
        await runtime.requests.check_model(model)
    every = [*dataset.scorers, *(scorer for case in dataset.cases for scorer in case.scorers)]
    for judge in dict.fromkeys(each for each in every if isinstance(each, Judge)):
        await judge.check(runtime)
    numbers = range(1, repeat + 1)
    return [_Place(*place) for place in product(dataset.cases, models, numbers)]


async def _kept(
    runtime: Runtime, places: Sequence[_Place], options: RunOptions, *, dataset: str, agent: str
) -> "_Kept":
    """Return a run that is written down: a new one, or the cut one that it continues."""
    world, chat, named = runtime.parts.world, runtime.parts.chat, options.get("run_id")
    new = Report(run_id=named or world.new_id("eval"), dataset=dataset, agent=agent, attempts=())
    report, folder = replace(new, started_at=world.clock.now()), runtime.parts.storage.folder
    if named or folder is None:
        return _Kept(report)
    defined = chat.agents.get(agent).profile.content_hash, chat.models.default
    plan = await asyncio.to_thread(_plan, [dataset, agent, *defined], places)
    runs, is_new = StoredRuns(folder), options.get("new", False)
    record = await asyncio.to_thread(runs.begin, plan, report, is_new=is_new)
    return _Kept(record.report, runs, record)


class _Kept(Struct, frozen=True):
    report: Report
    runs: StoredRuns | None = None
    """None if nothing is written: in memory, and for a run with a name of its own."""
    record: RunRecord | None = None
    """The run as it is written; None like `runs`."""

    async def finish(self, attempts: Awaitable[tuple[Attempt, ...]]) -> Report:
        """Return the report with the attempts, and write it down."""
        if self.runs is None or self.record is None:
            return replace(self.report, attempts=await attempts)
        with self.runs.making(self.record):
            report = replace(self.report, attempts=await attempts)
        await asyncio.to_thread(self.runs.finish, self.record, report)
        return report


def _plan(parts: Sequence[str | int], places: Sequence[_Place]) -> str:
    """Return the hash by which a cut run is found: what is asked, not how it is scored."""
    asked: list[str | bytes | int] = [*parts, max(each.number for each in places)]
    asked += dict.fromkeys(each.model for each in places)
    for case in {each.case.name: each.case for each in places}.values():
        content = [case.input] if isinstance(case.input, str) else case.input
        asked += [case.name, len(content), *map(_said, content), case.approve, repr(case.answers)]
    return plan_of(asked)


def _said(part: str | Attachment) -> str | bytes:
    """Return a part of a message as text or bytes: those of its file, or where they are."""
    if isinstance(part, str):
        return part
    if part.path is not None and part.path.is_file():
        return part.path.read_bytes()
    return part.data or repr(part)


class _Run(Struct, frozen=True, kw_only=True):
    runtime: Runtime
    agent: Agent[Any, Any] | str
    run_id: str
    scorers: Sequence[AnyScorer[Any]]

    async def attempts(
        self,
        places: Sequence[_Place],
        concurrency: int,
        on_attempt: Callable[[Attempt], None] | None,
    ) -> tuple[Attempt, ...]:
        """Make all attempts, so many at once; return them in their order."""
        slots = asyncio.Semaphore(concurrency)

        async def attempt(place: _Place) -> Attempt:
            async with slots:
                result = await self.attempt(place)
            if on_attempt is not None:
                on_attempt(result)
            return result

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(attempt(place)) for place in places]
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return tuple(task.result() for task in tasks)

    async def attempt(self, place: _Place) -> Attempt:
        """Ask one case, or read its reply if it was asked before, and score it."""
        case, key = place.case, f"{self.run_id}:{place.case.name}:{place.model}:{place.number}"
        unasked = Attempt(
            case=case.name, model=place.model, number=place.number, status="failed", passed=False
        )
        try:
            reply = await self._ask(place, key)
        except PenstockError as error:
            return replace(unasked, error=f"{error.code}: {error}")
        seconds = await self._seconds(reply)
        asked = replace(
            unasked,
            status=reply.status,
            seconds=seconds,
            content=reply.content,
            usage=reply.usage,
            task_id=reply.task_id,
            session_id=reply.session,
        )
        if reply.status != "succeeded":
            return replace(asked, error=_why_not(reply))
        answered = Answered(
            case=case, reply=reply, seconds=seconds, runtime=self.runtime, key=f"eval:{key}:judge"
        )
        grades = [await _grade(scorer, answered) for scorer in self._scorers_of(case)]
        return replace(
            asked,
            passed=all(each.passed for each in grades),
            grades=tuple(grades),
            output=plain(reply.output),
        )

    def _scorers_of(self, case: Case[Any]) -> Sequence[AnyScorer[Any]]:
        """Return the scorers of a case. What is expected is never ignored: Equal is the default."""
        own = (*self.scorers, *case.scorers)
        return own or (() if case.expected is None else (Equal(),))

    async def _ask(self, place: _Place, key: str) -> Reply[Any]:
        """Send the message of a case, and wait; its questions are answered as the case says.

        A task that still waits for a person is cancelled, because it would stay in the list of open
        questions. It is resumed first if an earlier process was killed with it.
        """
        options: MessageOptions = {"key": f"eval:{key}"}
        if place.model:
            options["model"] = place.model
        run = await self.runtime.start(place.case.input, agent=self.agent, **options)
        self.runtime.parts.engine.launcher.wake(LogId(run.session))
        reply = await run.reply()
        answered = 0
        for _ in range(MAX_ANSWERS):
            answered = max(answered, _answered(reply))
            if not (given := _answers_to(reply, place.case, answered)):
                break
            answered += len(given)
            try:
                for question, answer in given:
                    await self.runtime.requests.answer(QuestionId(question.id), answer)
            except InvalidRequest:
                await self.runtime.cancel(reply.task_id)
                raise
            reply = await self.runtime.wait(reply)
        if reply.status == "suspended":
            await self.runtime.cancel(reply.task_id)
        return reply

    async def _seconds(self, reply: Reply[Any]) -> float:
        """Return how long the task took, from its start to its end or its question."""
        parts = self.runtime.parts
        task = await parts.storage.projections.find_task(TaskId(reply.task_id))
        if task is None or task.started_at is None:
            return 0.0
        return ((task.ended_at or parts.world.clock.now()) - task.started_at) / 1000


async def _grade(scorer: AnyScorer[Any], answered: Answered) -> Grade:
    """Return what a scorer says. An attempt that a scorer cannot judge has not passed.

    Any other error of a scorer is a mistake in its code: it ends the run, which goes on where it
    was once the scorer is mended.
    """
    name = _name_of(scorer)
    try:
        if isinstance(scorer, AttemptScorer):
            verdict: Verdict = await scorer.grade(answered)
        else:
            returned = scorer(answered.case, answered.reply)
            verdict = await returned if inspect.isawaitable(returned) else returned
    except PenstockError as error:
        return Grade(name, 0.0, passed=False, reason=f"{error.code}: {error}")
    if not isinstance(verdict, Score) and not is_share(verdict):
        raise ConfigError(
            f"the scorer {name} returned {verdict!r}: a scorer returns a bool, a number from 0 to "
            "1 or a Score"
        )
    score = verdict if isinstance(verdict, Score) else Score(float(verdict))
    return Grade(name, score.value, score.has_passed, score.reason, score.usage)


def _name_of(scorer: AnyScorer[Any]) -> str:
    """Return the name of a function, or the expression of a scorer that penstock ships."""
    return getattr(scorer, "__name__", None) or repr(scorer)


def _answered(reply: Reply[Any]) -> int:
    """Return how many questions were answered, also for a process that was killed then."""
    return sum(is_of_person(each.event) for each in reply.recorded.records)


def _answers_to(
    reply: Reply[Any], case: Case[Any], answered: int
) -> Sequence[tuple[Question, Mapping[str, Any]]]:
    """Return the open questions that a case answers, with its answers."""
    given = list(zip(reply.questions, case.answers[answered:], strict=False))
    rest = reply.questions[len(given) :] if case.approve else ()
    return [*given, *((each, GRANTED) for each in rest if each.kind == "approval")]


def _why_not(reply: Reply[Any]) -> str:
    """Return why a task has no output to score."""
    if reply.questions:
        hint = "`answers` has its answers, `approve: true` grants approvals"
        return f"it asks a person: {reply.questions[0].text} ({hint})"
    error = reply.error
    return reply.status if error is None else f"{error.code}: {error.message}"

"""A second planner, written line by line after section 9.2, to compare the real one with."""

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.core.events.flow_events import Outcome
from penstock.flows.definition import Flow, Step
from penstock.flows.steps.agent import AgentStep
from penstock.flows.steps.conditional import Conditional
from penstock.flows.steps.fork import Fork
from penstock.flows.steps.shell import Shell

Jump = tuple[str, str, list[str]]
"""Why, from where, and where to."""
_RANK = ("on_error", "branch", "on_complete")


class PagePlan:
    """`state: seg, active, done, running, jump, later, held, ending, results, visits, status`."""

    def __init__(self, flow: Flow) -> None:
        self.steps = {step.step_id: step for step in flow.steps}
        self.ids = list(self.steps)
        self.most = flow.max_concurrent
        self.segs = segments(flow.steps)
        self.of = {name: k for k, seg in enumerate(self.segs) for name in seg}
        self.running: list[str] = []
        self.later: list[tuple[int, list[str]]] = []
        self.held: tuple[Jump, int] | None = None
        self.ending = False
        self.results: dict[str, Any] = {}
        self.visits = dict.fromkeys(self.ids, 0)
        self.status: str | None = None
        self.said: list[str] = []
        self.enter(0, [])

    def reach(self, k: int, targets: Iterable[str]) -> set[str]:
        reached = set(targets)
        for name in self.segs[k]:  # a step is blocked by earlier ones alone
            if reached & set(self.steps[name].blocked_by):
                reached.add(name)
        return reached

    def enter(self, k: int, targets: list[str]) -> None:
        self.seg, self.done = k, set[str]()
        self.jump: Jump | None = None
        self.active = self.reach(k, targets) if targets else set(self.segs[k])
        for name in self.segs[k]:
            if name not in self.active:
                self.skip(name, "not_on_branch")

    def skip(self, step_id: str, why: str) -> None:
        if step_id not in self.results:
            self.results[step_id] = "skipped"
            self.said.append(f"skip {step_id} ({why})")

    def is_ready(self, step_id: str) -> bool:
        if step_id not in self.active or step_id in {*self.done, *self.running}:
            return False
        blockers = self.steps[step_id].blocked_by
        return all(name in self.done or name not in self.active for name in blockers)

    def next(self) -> list[str]:
        """Return what starts now; nothing is to wait, or the end."""
        while self.status is None:
            if self.jump is None:
                ready = [name for name in self.segs[self.seg] if self.is_ready(name)]
                if start := ready[: self.most - len(self.running)]:
                    return start
            if self.running:
                return []
            self.leave()
        return []

    def start(self, step_id: str) -> int:
        self.running.append(step_id)
        self.visits[step_id] += 1
        return self.visits[step_id]

    def leave(self) -> None:
        jump, held = self.jump, self.held
        if jump is not None and jump[0] != "on_complete":
            self.later, self.held, self.ending = [], None, False
            self.go(jump)
        elif self.later:
            if jump is not None:
                self.held = (jump, self.visits[jump[2][0]])
            self.move(*self.later.pop(0))
        elif jump is not None:
            self.held, self.ending = None, False
            self.go(jump)
        elif held is not None and self.visits[held[0][2][0]] == held[1]:
            self.held, self.ending = None, False
            self.go(held[0])
        elif self.ending or self.seg == len(self.segs) - 1:
            self.finish("success")
        else:
            self.enter(self.seg + 1, [])

    def go(self, jump: Jump) -> None:
        numbers = sorted({self.of[name] for name in jump[2]})
        groups = [(k, [name for name in jump[2] if self.of[name] == k]) for k in numbers]
        first, *self.later = groups
        self.said.append(f"jump {', '.join(sorted(jump[2], key=self.ids.index))}")
        self.move(*first)

    def move(self, k: int, targets: list[str]) -> None:
        if k != self.seg:
            for name in self.segs[self.seg]:
                if name in self.active:
                    self.skip(name, "jumped_over")
            for seg in self.segs[self.seg + 1 : k]:
                for name in seg:
                    self.skip(name, "jumped_over")
        self.enter(k, targets)

    def settled(self, step_id: str, outcome: Outcome, targets: Sequence[str]) -> None:
        step = self.steps[step_id]
        self.running.remove(step_id)
        self.done.add(step_id)
        self.results[step_id] = outcome
        after = step.on_complete
        if outcome is Outcome.HARD or (outcome is Outcome.SOFT and step.on_error is None):
            for name in sorted(self.running, key=self.ids.index):
                self.results[name] = "aborted"
                self.said.append(f"~{name}/{self.visits[name]}")
            self.running = []
            self.finish("error")
        elif outcome is Outcome.SOFT:
            self.ask("on_error", step_id, [step.on_error or ""])
        elif targets:
            self.ask("branch", step_id, list(targets))
        elif after and after not in self.reach(self.of[step_id], [step_id]) - {step_id}:
            self.ask("on_complete", step_id, [after])
        elif step.is_last:
            self.ending = True

    def ask(self, why: str, source: str, to: list[str]) -> None:
        asked = (why, source, to)
        self.jump = asked if self.jump is None else min(self.jump, asked, key=self._rank)

    def _rank(self, jump: Jump) -> tuple[int, int]:
        return _RANK.index(jump[0]), self.ids.index(jump[1])

    def finish(self, status: str) -> None:
        for name in self.ids:
            self.skip(name, "flow_ended")
        self.status = status
        self.said.append(status)


def segments(steps: Iterable[Step]) -> list[list[str]]:
    """P1: consecutive agent steps; every other step alone; `end: true` closes a segment."""
    segments: list[list[str]] = []
    is_open = False
    for step in steps:
        is_agent = step.is_agent_work
        if is_open and is_agent:
            segments[-1].append(step.step_id)
        else:
            segments.append([step.step_id])
        is_open = is_agent and not step.is_last
    return segments


class Dice:
    """Numbers that look like chance, and are the same for each seed."""

    def __init__(self, seed: int) -> None:
        self._state = seed

    def below(self, count: int) -> int:
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self._state >> 33) % count

    def pick(self, ids: Sequence[str]) -> str:
        return ids[self.below(len(ids))]

    def some(self, ids: Sequence[str], count: int) -> list[str]:
        left = list(ids)
        return [left.pop(self.below(len(left))) for _ in range(min(count, len(left)))]


def any_flow(dice: Dice) -> Flow:
    """Return a flow of some steps that lead anywhere."""
    ids = [f"s{number}" for number in range(2 + dice.below(8))]
    steps: list[Step] = []
    for step_id in ids:
        agents = [name.step_id for name in steps if name.is_agent_work]
        steps.append(_any_step(dice, step_id, ids, agents))
    return Flow(name="n", description="d", steps=tuple(steps), max_concurrent=1 + dice.below(4))


def _any_step(dice: Dice, step_id: str, ids: list[str], agents: list[str]) -> Step:
    error = dice.pick(ids) if dice.below(2) else None
    more: dict[str, Any] = {
        "step_id": step_id,
        "on_error": error,
        "on_complete": None if dice.below(5) else dice.pick(ids),
        "is_last": not dice.below(5),
    }
    match dice.below(8):
        case 0:
            options = tuple(dice.some(ids, 3))
            branches = dict(zip(options, options, strict=True))
            return Fork(
                step_id=step_id, question="q", branches=branches, options=options, on_error=error
            )
        case 1:
            one, other = dice.pick(ids), dice.pick(ids)
            return Conditional(step_id=step_id, check="x", present=one, absent=other)
        case 2:
            return Shell(command="x", **more)
        case _:
            blockers = tuple(dice.some(agents, dice.below(3)))
            return AgentStep(agent="a", blocked_by=blockers, **more)


def any_end(dice: Dice, step: Step) -> tuple[Outcome, list[str]]:
    """Return how a visit may end, and where it may lead."""
    if isinstance(step, Conditional):
        return Outcome.SUCCESS, [dice.pick([step.present, step.absent])]
    if not dice.below(5):
        return (Outcome.SOFT if dice.below(10) else Outcome.HARD), []
    if isinstance(step, Fork) and dice.below(10):
        return Outcome.SUCCESS, dice.some(step.options, 1 + dice.below(3))
    return Outcome.SUCCESS, []

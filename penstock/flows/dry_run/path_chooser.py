"""Chooses the outcome of each visit, so that few runs take every path of a flow.

Greedy: a visit first takes an outcome that no run had; else the outcome nearest to a step with
such an outcome; else the shortest way to the end. Distances come from a map of the flow that
ignores state, so a target can turn out to be unreachable (`_hopeless`). When only hopeless ones
are left, runs explore: each visit takes its least used outcome, until 40 runs in a row brought
nothing new. An exhaustive search was not an option: paths grow exponentially with forks. Tests:
tests/flows/dry_run/test_path_chooser.py.
"""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence

from penstock.flows.definition import Choice, Flow, Segments, Step

Edge = tuple[str, Choice]
"""A step and one of its outcomes."""
END = ""
"""The end of the flow; no step has this id."""
_FAR = 1_000_000
_PATIENCE = 40
"""Number of exploring runs without anything new before the rest is given up."""
_DETOURS = 3
"""Visits of a step per run that may lead away from the end, in addition to `max_iterations`."""


class PathChooser:
    """Chooses outcomes: new ones first, then the way to new ones, then the way to the end.

    With `sees_all=False` it only takes the way to the end.
    """

    def __init__(self, flow: Flow, *, sees_all: bool) -> None:
        self._map = _Map(flow)
        self.choices = {step.step_id: step.choices() for step in flow.steps}
        every = ((each, choice) for each, some in self.choices.items() for choice in some)
        self.unseen: dict[Edge, None] = dict.fromkeys(every if sees_all else ())
        """In file order."""
        self._hopeless: set[str] = set()
        """Steps that a run headed for and did not reach."""
        self._taken = Counter[Edge]()
        """Number of times each outcome was chosen, over all runs."""
        self._patience = _PATIENCE
        self.begin()

    @property
    def is_done(self) -> bool:
        """Whether no more run could show anything new."""
        if not self.is_exploring:
            return not self.unseen
        return not (self._patience and any(self._map.may_reach(each) for each, _ in self.unseen))

    @property
    def is_exploring(self) -> bool:
        """Whether every step with a new outcome is hopeless, so that runs only explore.

        The map does not know conditions: some ways open only after others, such as the limit of a
        loop after rounds that another step caused.
        """
        return bool(self.unseen) and all(each in self._hopeless for each, _ in self.unseen)

    def begin(self) -> None:
        """Start another run."""
        self._detours = Counter[str]()
        self._capped: set[str] = set()
        self._heading = ""
        self._had_choice = False
        self._left = len(self.unseen)

    def end(self) -> None:
        """End a run. Without anything new its destination becomes hopeless."""
        has_news = len(self.unseen) < self._left
        if self.is_exploring:
            self._patience = _PATIENCE if has_news else self._patience - 1
        elif not has_news:
            lost = {step_id for step_id, _ in self.unseen}
            self._hopeless |= {self._heading} if self._heading else lost
        if not (has_news or self._had_choice):
            self._patience = 0  # every run from here would be the same

    def see(self, step_id: str, choice: Choice) -> None:
        """Record that an outcome occurred."""
        self.unseen.pop((step_id, choice), None)

    def choose(self, step: Step, possible: Collection[Choice] | None = None) -> Choice:
        """Choose the outcome of a visit among the possible ones."""
        choices = self.choices[step.step_id] if possible is None else tuple(possible)
        chosen = self._choose(step, choices)
        self._taken[step.step_id, chosen] += 1
        if chosen.is_cap:
            self._capped.add(step.step_id)
        else:
            self.see(step.step_id, chosen)
        return chosen

    def _choose(self, step: Step, choices: Sequence[Choice]) -> Choice:
        step_id = step.step_id
        # Once a run repeats a loop to its limit, it does so until the limit: a mixture would never
        # reach it.
        if step_id in self._capped:
            return next(each for each in choices if each.is_cap)
        if len(choices) == 1:
            return choices[0]
        self._had_choice = True
        unseen = [each for each in choices if (step_id, each) in self.unseen]
        if new := next((each for each in unseen if not (each.is_cap and self.is_exploring)), None):
            return new
        if self.is_exploring:
            ways = [each for each in choices if not each.is_cap]
            return min(ways, key=lambda each: self._taken[step_id, each])
        if self._detours[step_id] < _DETOURS + (step.max_iterations or 0):
            self._detours[step_id] += 1
            if ahead := self._towards_unseen(step, choices):
                return ahead
        towards_end = [each for each in choices if not (each.fails or each.is_cap)]
        return min(towards_end, key=lambda each: self._map.distance(step, each, {END})[0])

    def _towards_unseen(self, step: Step, choices: Sequence[Choice]) -> Choice | None:
        goals = {each for each, _ in self.unseen} - self._hopeless
        if not goals:
            return None
        ways = [(self._map.distance(step, each, goals), each) for each in choices]
        (far, goal), choice = min(ways, key=lambda way: way[0][0])
        if far == _FAR:
            return None
        self._heading = self._heading or goal
        return choice


class _Map:
    """Distances between steps, over all outcomes of each step."""

    def __init__(self, flow: Flow) -> None:
        self._segments = Segments(flow.steps)
        self._order = {step.step_id: number for number, step in enumerate(flow.steps)}
        self._next = {step.step_id: self._after(step) for step in flow.steps}
        self._everywhere = {
            step.step_id: [t for each in step.choices() for t in self.targets(step, each)]
            for step in flow.steps
        }
        self._reached = self._from({each.step_id for each in self._segments.all[0]})

    def _from(self, first: Iterable[str]) -> set[str]:
        reached, queue = set[str](), [*first]
        while queue:
            step_id = queue.pop()
            if step_id != END and step_id not in reached:
                reached.add(step_id)
                queue += self._everywhere[step_id]
        return reached

    def targets(self, step: Step, choice: Choice) -> Iterable[str]:
        """Return the steps that an outcome may lead to."""
        if not choice.targets:
            return self._next[step.step_id]
        here = self._order[step.step_id]
        is_bound = step.max_iterations is not None and not choice.fails
        is_back = any(self._order[each] <= here for each in choice.targets)
        if not (is_bound and is_back):
            return choice.targets
        # At its bound a loop takes its exit; other steps fall through.
        at_bound = step.exit_targets or self._next[step.step_id]
        return (*choice.targets, *at_bound)

    def may_reach(self, step_id: str) -> bool:
        """Whether some path leads from the start to a step."""
        return step_id in self._reached

    def distance(self, step: Step, choice: Choice, goals: Collection[str]) -> tuple[int, str]:
        """Return the distance to the nearest of some steps by an outcome, and that step."""
        queue = deque((each, 0) for each in self.targets(step, choice))
        seen = set[str]()
        while queue:
            current, far = queue.popleft()
            if current in goals:
                return far, current
            if current not in seen and current != END:
                seen.add(current)
                queue.extend((each, far + 1) for each in self._everywhere[current])
        return _FAR, END

    def _after(self, step: Step) -> tuple[str, ...]:
        """Return what may follow when control continues after a step."""
        waiting = tuple(self._segments.blocked_by(step.step_id))
        if step.on_complete is not None:
            return (step.on_complete, *waiting)
        number = self._segments.index[step.step_id] + 1
        if step.is_last or number == len(self._segments.all):
            return (*waiting, END)
        return (*waiting, *(each.step_id for each in self._segments.all[number]))

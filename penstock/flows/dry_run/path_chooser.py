"""Which ways runs take, so that a few of them together take every way there is."""

from collections import Counter, deque
from collections.abc import Collection, Iterable, Sequence

from penstock.flows.definition import AnyStep, Flow, LoopDecision
from penstock.flows.dry_run.choices import Choice, choices_of
from penstock.flows.segments import Segments

Edge = tuple[str, Choice]
"""A step, and what came of it."""
END = ""
"""Stands for the end of the flow; no step has this id."""
_FAR = 1_000_000
_PATIENCE = 40
"""Runs that take turns and see nothing new, until what is left is given up."""
_DETOURS = 3
"""Visits of a step in one run that may lead elsewhere than to the end, besides its bound."""


class PathChooser:
    """Chooses what comes of each visit: what was never seen, else what leads there, else the end.

    Without a wish to see everything it heads for the end.
    """

    def __init__(self, flow: Flow, *, sees_all: bool) -> None:
        self._map = _Map(flow)
        self.choices = {step.step_id: choices_of(step) for step in flow.steps}
        every = ((each, choice) for each, some in self.choices.items() for choice in some)
        self.unseen: dict[Edge, None] = dict.fromkeys(every if sees_all else ())
        """In the order of the file."""
        self._hopeless: set[str] = set()
        """Steps that a run set out for, and did not reach."""
        self._taken = Counter[Edge]()
        """How often each way was taken, over all runs."""
        self._patience = _PATIENCE
        self.begin()

    @property
    def is_done(self) -> bool:
        """Whether nothing is left that might be seen."""
        if not self.is_exploring:
            return not self.unseen
        return not (self._patience and any(self._map.may_reach(each) for each, _ in self.unseen))

    @property
    def is_exploring(self) -> bool:
        """Whether runs have headed for every unseen step and reached none.

        The map knows where ways lead, not what they depend on: some are open only after others, as
        the bound of a loop after rounds that something else took. Runs then take turns: at each
        step the way that was taken least so far.
        """
        return bool(self.unseen) and all(each in self._hopeless for each, _ in self.unseen)

    def begin(self) -> None:
        """Begin another run."""
        self._detours = Counter[str]()
        self._capped: set[str] = set()
        self._heading = ""
        self._had_choice = False
        self._left = len(self.unseen)

    def end(self) -> None:
        """End a run; one that saw nothing new set out in vain, or had nowhere to go."""
        has_news = len(self.unseen) < self._left
        if self.is_exploring:
            self._patience = _PATIENCE if has_news else self._patience - 1
        elif not has_news:
            lost = {step_id for step_id, _ in self.unseen}
            self._hopeless |= {self._heading} if self._heading else lost
        if not (has_news or self._had_choice):
            self._patience = 0  # every run from here would be the same

    def see(self, step_id: str, choice: Choice) -> None:
        """Take in that something came of a step."""
        self.unseen.pop((step_id, choice), None)

    def choose(self, step: AnyStep, possible: Collection[Choice] | None = None) -> Choice:
        """Return what comes of a visit of a step, of all that is possible."""
        choices = self.choices[step.step_id] if possible is None else tuple(possible)
        chosen = self._choose(step, choices)
        self._taken[step.step_id, chosen] += 1
        if chosen.is_cap:
            self._capped.add(step.step_id)
        else:
            self.see(step.step_id, chosen)
        return chosen

    def _choose(self, step: AnyStep, choices: Sequence[Choice]) -> Choice:
        step_id = step.step_id
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
        calm = [each for each in choices if not (each.fails or each.is_cap)]
        return min(calm, key=lambda each: self._map.distance(step, each, {END})[0])

    def _towards_unseen(self, step: AnyStep, choices: Sequence[Choice]) -> Choice | None:
        wanted = {each for each, _ in self.unseen} - self._hopeless
        if not wanted:
            return None
        ways = [(self._map.distance(step, each, wanted), each) for each in choices]
        (far, goal), choice = min(ways, key=lambda way: way[0][0])
        if far == _FAR:
            return None
        self._heading = self._heading or goal
        return choice


class _Map:
    """What may be next after each step, whatever comes of it."""

    def __init__(self, flow: Flow) -> None:
        self._segments = Segments(flow.steps)
        self._order = {step.step_id: number for number, step in enumerate(flow.steps)}
        self._next = {step.step_id: self._after(step) for step in flow.steps}
        self._everywhere = {
            step.step_id: [t for each in choices_of(step) for t in self.targets(step, each)]
            for step in flow.steps
        }
        self._reached = self._from({each.step_id for each in self._segments.all[0]})

    def _from(self, first: Iterable[str]) -> set[str]:
        found, ahead = set[str](), [*first]
        while ahead:
            here = ahead.pop()
            if here != END and here not in found:
                found.add(here)
                ahead += self._everywhere[here]
        return found

    def targets(self, step: AnyStep, choice: Choice) -> Iterable[str]:
        """Return where something that comes of a step may lead."""
        if not choice.targets:
            return self._next[step.step_id]
        here = self._order[step.step_id]
        is_bound = step.max_iterations is not None and not choice.fails
        is_back = any(self._order[each] <= here for each in choice.targets)
        if not (is_bound and is_back):
            return choice.targets
        # At its bound a loop takes its exit; other steps fall through.
        at_bound = (
            (step.exit_target,) if isinstance(step, LoopDecision) else self._next[step.step_id]
        )
        return (*choice.targets, *at_bound)

    def may_reach(self, step_id: str) -> bool:
        """Whether some way leads from the beginning to a step."""
        return step_id in self._reached

    def distance(self, step: AnyStep, choice: Choice, wanted: Collection[str]) -> tuple[int, str]:
        """Return how far the nearest of some steps is that way, and which one it is."""
        ahead = deque((each, 0) for each in self.targets(step, choice))
        seen = set[str]()
        while ahead:
            here, far = ahead.popleft()
            if here in wanted:
                return far, here
            if here not in seen and here != END:
                seen.add(here)
                ahead.extend((each, far + 1) for each in self._everywhere[here])
        return _FAR, END

    def _after(self, step: AnyStep) -> tuple[str, ...]:
        """Return what may be next when a step goes on."""
        waiting = tuple(self._segments.blocked_by(step.step_id))
        if step.on_complete is not None:
            return (step.on_complete, *waiting)
        number = self._segments.of[step.step_id] + 1
        if step.is_last or number == len(self._segments.all):
            return (*waiting, END)
        return (*waiting, *(each.step_id for each in self._segments.all[number]))

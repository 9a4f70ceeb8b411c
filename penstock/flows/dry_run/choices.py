"""What can come of a visit of a step, and where each of it leads."""

from collections.abc import Iterator

from msgspec import Struct

from penstock.flows.checks.reachability import ABSENT, ON_ERROR, PRESENT, branches_of
from penstock.flows.definition import AnyStep, Conditional, Fork, LoopDecision

GOES_ON = ""
EXIT, LOOP, CAP = "exit", "loop", "cap"


class Choice(Struct, frozen=True):
    """One thing that can come of a visit."""

    branch: str
    """Its name in reports: that of a branch, `on_error`, or a word for a way of a loop."""
    targets: tuple[str, ...] = ()
    """Where it leads; none: to what is next."""
    fails: bool = False
    options: tuple[str, ...] = ()
    """What of a fork is chosen."""

    @property
    def is_cap(self) -> bool:
        """Whether it is the way round a loop that is taken until its bound ends it."""
        return self.branch == CAP and not self.options

    @property
    def is_reported(self) -> bool:
        """Whether authors think of it as a way that the flow may take."""
        return self.branch != GOES_ON


SUCCESS = Choice(GOES_ON)


def choices_of(step: AnyStep) -> tuple[Choice, ...]:
    """Return what can come of a step, what is usual first."""
    failure = () if step.on_error is None else (Choice(ON_ERROR, (step.on_error,), fails=True),)
    return (*_ways_on(step), *failure)


def _ways_on(step: AnyStep) -> Iterator[Choice]:
    if isinstance(step, Conditional):
        yield Choice(PRESENT, (step.present,))
        yield Choice(ABSENT, (step.absent,))
    elif isinstance(step, LoopDecision):
        yield Choice(EXIT, (step.exit_target,))
        yield Choice(LOOP, (step.loop_target,))
        yield Choice(CAP, (step.loop_target,))
    elif branches := branches_of(step):
        for name, target in branches.items():
            yield Choice(name, (target,), options=(name,))
        if isinstance(step, Fork) and step.is_multiple and len(step.options) > 1:
            targets = tuple(dict.fromkeys(branches[each] for each in step.options))
            yield Choice(", ".join(step.options), targets, options=step.options)
    else:
        yield SUCCESS

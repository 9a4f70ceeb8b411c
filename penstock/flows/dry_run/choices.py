"""Possible outcomes of a step in a dry run, and where each leads."""

from collections.abc import Iterator

from msgspec import Struct

from penstock.flows.checks.reachability import ABSENT, ON_ERROR, PRESENT, branches_of
from penstock.flows.definition import AnyStep, Conditional, Fork, LoopDecision

CONTINUES = ""
EXIT, LOOP, CAP = "exit", "loop", "cap"


class Choice(Struct, frozen=True):
    """One possible outcome of a visit."""

    branch: str
    """Its name in reports: a branch, `on_error`, or `exit`, `loop` or `cap` of a loop step."""
    targets: tuple[str, ...] = ()
    """Steps it leads to; empty: control continues with the next segment."""
    fails: bool = False
    options: tuple[str, ...] = ()
    """Chosen options of a fork."""

    @property
    def is_cap(self) -> bool:
        """Whether it repeats a loop until `max_iterations` ends it."""
        return self.branch == CAP and not self.options

    @property
    def is_reported(self) -> bool:
        """Whether reports list it as a branch."""
        return self.branch != CONTINUES


SUCCESS = Choice(CONTINUES)


def choices_of(step: AnyStep) -> tuple[Choice, ...]:
    """Return the possible outcomes of a step, the most usual first."""
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

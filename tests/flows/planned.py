"""Runs a plan on its own clock, and prints events as the worked examples do."""

import heapq
from collections.abc import Mapping, Sequence

from penstock.core.events.flow_events import Outcome
from penstock.flows.runs.plan import Aborted, FlowEnded, Jumped, Notice, Plan, Skipped
from tests.flows.examples import Answers


def run(plan: Plan, answers: Answers, lasts: Mapping[str, int]) -> str:
    """Run a plan on a clock of its own; returns what happened, in the words of the examples."""
    message: list[str] = []
    ends: list[tuple[int, int, str]] = []
    now = started = 0
    while plan.status is None:
        for step_id in plan.ready():
            started += 1
            message.append(f"+{step_id}/{plan.start(step_id)}")
            heapq.heappush(ends, (now + lasts.get(step_id, 1), started, step_id))
        now, _, step_id = heapq.heappop(ends)
        visit = f"{step_id}/{plan.visits[step_id]}"
        answer = answers.get(visit, answers.get(step_id, []))
        outcome = answer if isinstance(answer, Outcome) else Outcome.SUCCESS
        message.append(f"{'-' if outcome is Outcome.SUCCESS else '!'}{visit}")
        notices = plan.settle(step_id, outcome, [] if isinstance(answer, Outcome) else answer)
        message.extend(tell(plan, notices))
    return " ".join(message)


def tell(plan: Plan, notices: Sequence[Notice]) -> list[str]:
    message: list[str] = []
    for notice in notices:
        match notice:
            case Jumped(targets=targets):
                message.append(f"jump {', '.join(targets)}")
            case Aborted(step_id=step_id):
                message.append(f"~{step_id}/{plan.visits[step_id]}")
            case Skipped(step_id=step_id, why=why) if message and message[-1].endswith(f"({why})"):
                message[-1] = message[-1].replace(f" ({why})", f", {step_id} ({why})")
            case Skipped(step_id=step_id, why=why):
                message.append(f"skip {step_id} ({why})")
            case FlowEnded(status=status):
                message.append(status)
    return message

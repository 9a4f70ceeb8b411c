"""A flow as a picture in Mermaid: segments as boxes, dependencies as arrows, jumps with labels."""

from collections.abc import Iterator
from dataclasses import replace

from penstock.flows.definition import (
    AgentDecision,
    AnyStep,
    CodeDecision,
    Conditional,
    Flow,
    Fork,
    LoopDecision,
)
from penstock.flows.plan import Segments

ON_ERROR = "on_error"
"""The label of the way that a failed step takes."""


def mermaid(flow: Flow) -> str:
    """Return the flow as the text of a Mermaid flowchart."""
    flow = only_known(flow)
    segments = Segments(flow.steps)
    lines = ["flowchart TD"]
    for number, segment in enumerate(segments.all, 1):
        lines.append(f'  subgraph s{number}["{number}"]')
        lines += [f"    {_node(flow.by_id[each.step_id])}" for each in segment]
        lines.append("  end")
    for step in flow.steps:
        lines += [f"  {_id(each)} --> {_id(step.step_id)}" for each in segments.blockers(step)]
    for number in range(1, len(segments.all)):
        lines.append(f"  s{number} --> s{number + 1}")
    for step in flow.steps:
        lines += [
            f"  {_id(step.step_id)} -. {_quoted(label)} .-> {_id(target)}"
            for label, target in jumps(step)
        ]
    return "\n".join(lines)


def jumps(step: AnyStep) -> Iterator[tuple[str, str]]:
    """Yield where control may go besides on: why, and to which step."""
    match step:
        case Fork() | AgentDecision() | CodeDecision():
            yield from step.branches.items()
        case Conditional():
            yield from (("present", step.present), ("absent", step.absent))
        case LoopDecision():
            yield from (("loop", step.loop_target), ("exit", step.exit_target))
        case _:
            pass
    if step.on_complete is not None:
        yield "on_complete", step.on_complete
    if step.on_error is not None:
        yield ON_ERROR, step.on_error


def only_known(flow: Flow) -> Flow:
    """Return the flow without waits for steps that it does not have."""
    ids = flow.by_id
    steps = [
        replace(each, blocked_by=tuple(name for name in each.blocked_by if name in ids))
        for each in flow.steps
    ]
    return replace(flow, steps=tuple(steps))


def _node(step: AnyStep) -> str:
    label = _quoted(f"{step.step_id}: {step.kind.value}")
    opening, closing = ("{", "}") if step.is_router else ("[", "]")
    return f"{_id(step.step_id)}{opening}{label}{closing}"


def _id(step_id: str) -> str:
    """Return an id as Mermaid takes it: none of its words, and no dash."""
    return "n_" + step_id.replace("-", "__")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', "#quot;").replace("\n", " ") + '"'

"""A flow as a picture in Mermaid: segments as boxes, dependencies as arrows, jumps with labels."""

from collections.abc import Iterator

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


def mermaid(flow: Flow) -> str:
    """Return the flow as the text of a Mermaid flowchart."""
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
            for label, target in _jumps(step)
        ]
    return "\n".join(lines)


def _node(step: AnyStep) -> str:
    label = _quoted(f"{step.step_id}: {step.kind.value}")
    opening, closing = ("{", "}") if step.is_router else ("[", "]")
    return f"{_id(step.step_id)}{opening}{label}{closing}"


def _jumps(step: AnyStep) -> Iterator[tuple[str, str]]:
    """Yield where control may go besides on, and why."""
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
        yield "on_error", step.on_error


def _id(step_id: str) -> str:
    """Return an id as Mermaid takes it: none of its words, and no dash."""
    return "n_" + step_id.replace("-", "__")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', "#quot;").replace("\n", " ") + '"'

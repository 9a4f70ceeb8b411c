"""A run of a flow as it happens: a line for each thing that a person wants to know."""

from rich.console import Console
from rich.text import Text

from penstock.cli.render import clean
from penstock.core.events import CallSettled, Record, ReplyReceived
from penstock.core.flow_events import AgentBegan, FlowTold, StepSettled, StepStarted
from penstock.core.step import Outcome
from penstock.core.text import cut, one_line

_SUMMARY = 120
_GOOD, _BAD, _DIM = "green", "bold red", "dim"


class Board:
    """Shows the steps of a run, each with its agent, its calls and what it came to."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began: dict[str, int] = {}
        """When each frame began, in milliseconds."""
        self._tokens: dict[str, int] = {}

    def show(self, record: Record) -> None:
        """Show one event, if it is one that a person wants to know of."""
        event, frame = record.event, record.path or ""
        match event:
            case StepStarted(step_id=step_id, visit=visit, agent=agent):
                self._began[frame] = record.at
                who = f" by {agent}" if agent else ""
                again = f", visit {visit}" if visit > 1 else ""
                self._line(f"▸ {step_id}{who}{again}", "bold")
            case AgentBegan(model=model) if model:
                self._line(f"    {model}", _DIM)
            case ReplyReceived(usage=usage) if frame:
                spent = usage.input_tokens + usage.output_tokens
                self._tokens[frame] = self._tokens.get(frame, 0) + spent
            case CallSettled(tool_id=tool_id, envelope=envelope) if tool_id != "finish":
                self._line(f"    {tool_id}: {envelope.status.value}", _DIM)
            case StepSettled():
                self._settled(record, event, frame)
            case FlowTold(kind=kind, body=body):
                self._told(kind, {name: str(value) for name, value in body.items()})
            case _:
                pass

    def _settled(self, record: Record, event: StepSettled, frame: str) -> None:
        seconds = (record.at - self._began.get(frame, record.at)) / 1000
        tokens = self._tokens.get(frame, 0)
        spent = f", {tokens} tokens" if tokens else ""
        summary = cut(one_line(event.result.summary), _SUMMARY)
        is_good = event.outcome is Outcome.SUCCESS
        mark = "✓" if is_good else "✗"
        why = "" if is_good else f" {event.source}:"
        again = ", tried again" if event.will_retry else ""
        said = f"{mark} {event.step_id} ({seconds:.1f} s{spent}{again}){why} {summary}"
        self._line(said, _GOOD if is_good else _BAD)

    def _told(self, kind: str, body: dict[str, str]) -> None:
        match kind:
            case "flow_loop_iteration":
                most = body["maxIterations"]
                forced = ", forced out" if body["forced"] == "True" else ""
                said = f"  ↻ {body['stepId']}: round {body['iteration']} of {most}{forced}"
                self._line(said, _DIM)
            case "flow_auto_decision":
                self._line(f"  {body['agentName']} decided: {body['chosenBranch']}", _DIM)
            case "flow_step_skipped":
                self._line(f"  · {body['stepId']} is skipped ({body['reason']})", _DIM)
            case "flow_warning":
                self._line(f"  ! {body['message']}", "yellow")
            case _:
                pass

    def _line(self, text: str, style: str) -> None:
        self._console.print(Text(clean(text), style=style), soft_wrap=True)

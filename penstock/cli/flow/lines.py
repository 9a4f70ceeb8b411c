"""A run of a flow as lines of text, one for each event that matters to a person."""

from collections.abc import Callable, Mapping

from rich.text import Text

from penstock.cli.flow.cards import CardState, StepCard
from penstock.cli.terminal.plain import hanging
from penstock.cli.terminal.region import fitted
from penstock.core.call import FINISH
from penstock.core.events.events import CallSettled, Record, TaskBlocked
from penstock.core.events.flow_events import FlowNotified, StepSettled, StepStarted
from penstock.core.task import blocked
from penstock.core.text import one_line

GOOD, BAD, DIM, ODD = "green", "bold red", "dim", "yellow"
_SUMMARY = 120
Show = Callable[[Text], None]
"""Prints a line."""


class Lines:
    """Prints what happens in a run."""

    def __init__(self, show: Show) -> None:
        self._show = show

    def show(self, record: Record, card: StepCard | None) -> None:
        """Print one event, if it matters to a person."""
        match record.event:
            case StepStarted() if card is not None:
                self._line(started_text(card))
            case CallSettled(tool_id=tool_id, envelope=envelope) if tool_id != FINISH:
                self._line(Text(f"    {tool_id}: {envelope.status.value}", DIM))
            case StepSettled() if card is not None:
                self.settled(card)
            case FlowNotified(kind="flow_loop_iteration", body=body):
                self._line(_round_text(body))
            case FlowNotified() as notice:
                self.notified(notice)
            case TaskBlocked(blocked_on=missing):
                self._line(Text(f"  ■ {blocked(missing)}", ODD))
            case _:
                pass

    def settled(self, card: StepCard) -> None:
        """Print the end of a visit of a step."""
        self._line(settled_text(card))

    def notified(self, notice: FlowNotified) -> None:
        """Print a notice of the flow: a decision, a skipped step, a warning."""
        body = notice.body
        match notice.kind:
            case "flow_auto_decision":
                text = f"  {body['agentName']} decided: {body['chosenBranch']}"
                self._line(Text(text, DIM))
            case "flow_step_skipped":
                self._line(Text(f"  · {body['stepId']} is skipped ({body['reason']})", DIM))
            case "flow_warning":
                self._line(Text(f"  ! {body['message']}", ODD))
            case _:
                pass

    def _line(self, text: Text) -> None:
        self._show(Text(hanging(text.plain), style=text.style))


def started_text(card: StepCard) -> Text:
    """Return the line for the start of a visit."""
    agent = f" by {card.agent}" if card.agent else ""
    return Text(f"▸ {card.step_id}{agent}{_again(card)}", "bold")


def settled_text(card: StepCard) -> Text:
    """Return the line for the end of a visit."""
    spent = f", {card.tokens} tokens" if card.tokens else ""
    tried = ", tried again" if card.state is CardState.RETRIED else ""
    is_good = card.state is CardState.DONE
    why = f" {card.source}:" if card.source and not is_good else ""
    seconds = card.milliseconds(card.ended or card.began) / 1000
    summary = fitted(one_line(card.summary or card.state.value), _SUMMARY)
    mark = "✓" if is_good else "✗"
    line = f"{mark} {card.step_id}{_again(card)} ({seconds:.1f} s{spent}{tried}){why} {summary}"
    return Text(line, GOOD if is_good else BAD)


def _again(card: StepCard) -> str:
    return f", visit {card.visit}" if card.visit > 1 else ""


def _round_text(body: Mapping[str, object]) -> Text:
    forced = ", forced out" if body["forced"] else ""
    line = f"  ↻ {body['stepId']}: round {body['iteration']} of {body['maxIterations']}{forced}"
    return Text(line, DIM)

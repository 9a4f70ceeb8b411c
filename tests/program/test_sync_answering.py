"""Questions without async; tests of the runtime cover conversations."""

from penstock.agents.agent import Agent
from penstock.models.scripted import ScriptedModel, call, say
from penstock.program.opening import open_sync
from penstock.tools.python.function import tool


@tool(effect="write", requires_approval=True)
def send(to: str) -> str:
    """Send a letter."""
    return to


def test_one_question_is_answered_by_its_id() -> None:
    model = ScriptedModel([call("send", to="Ann"), say("Done.")])
    with open_sync(":memory:", model=model, tools=[send]) as runtime:
        reply = runtime.chat("Go")
        assert runtime.questions(session=reply.session) == list(reply.questions)
        runtime.approve(reply.questions[0].id, note="fine")
        assert runtime.wait(reply, timeout=30).output == "Done."


def test_a_conversation_is_handed_back() -> None:
    model = ScriptedModel([call("transfer_to_billing"), say("Paid."), say("Triage here.")])
    triage = Agent("triage", handoffs=[Agent("billing")])
    with open_sync(":memory:", model=model, agents=[triage]) as runtime:
        reply = runtime.chat("Pay", agent=triage)
        assert reply.agent == "billing"
        assert runtime.hand_back(reply.session) == "triage"
        assert runtime.chat("Hello", agent=triage, session=reply.session).agent == "triage"

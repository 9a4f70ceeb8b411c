"""Questions without a waiting task: they are closed, and asked again where they are needed."""

import pytest

from penstock.core.events.events import CallRetried, QuestionAnswered
from tests.kit.project import ProjectFolder
from tests.kit.simulated_processes import Stage
from tests.kit.tools import Act

AGAIN = """
    export async function run() {{
      const {{ call }} = await flo.task.getContext<any>();
      const work = {work};
      if (call.attempt === 1) {{
        throw new flo.ToolError({{ code: "BUSY", message: "again", retryable: true }});
      }}
      return await work;
    }}
"""
WAIT = 'flo.task.waitForUserMessage({ user_message: "Which month?" })'
SEND = 'flo.callTool({ tool_id: "send", input: {} })'
MAY = {"resume_reason": "user_message", "user_message": "May"}
SENT = {"status": "success", "output": {"done": "send"}}


@pytest.mark.parametrize(
    ("work", "body", "output"),
    [(WAIT, {"text": "May"}, MAY), (SEND, {"decision": "approve"}, SENT)],
)
async def test_a_further_attempt_asks_the_open_questions_again(
    project: ProjectFolder, work: str, body: dict[str, str], output: dict[str, object]
) -> None:
    """L9: "answers of people are reused, everything else runs again"; a wait "never makes up"."""
    retry = "{max_attempts: 2, initial_backoff_ms: 0}"
    project.tool("ask", AGAIN.format(work=work), retry_policy=retry)
    send = Act("send", direct_call=True, requires_approval=True)
    stage = Stage(project, send)
    assert (await stage.call("ask")).status == "suspended"
    reply = await stage.answer(body)
    assert reply.envelope
    assert reply.envelope.output == output
    assert len(send.runs) == (work == SEND)
    events = await stage.events()
    assert len([each for each in events if isinstance(each, CallRetried)]) == 1
    closed = [each for each in events if isinstance(each, QuestionAnswered)]
    assert [each.status for each in closed] == ["cancelled", "answered"]


async def test_a_call_that_timed_out_leaves_no_question(project: ProjectFolder) -> None:
    """M14: "questions they opened are withdrawn", however the call ended."""
    late = f"export const run = () => Promise.all([{WAIT}, flo.sleep(60_000)]);"
    project.tool("late", late, timeout_ms="60")
    outer = """
        export async function run() {
          const { status } = await flo.callTool({ tool_id: "late", input: {} });
          const said = await flo.task.waitForUserMessage({ user_message: "And now?" });
          return [status, said.user_message];
        }
    """
    project.tool("outer", outer)
    stage = Stage(project)
    await stage.call("outer")
    assert len(await stage.questions()) == 1
    reply = await stage.answer({"text": "this"})
    assert reply.envelope
    assert reply.envelope.output == ["timeout", "this"]

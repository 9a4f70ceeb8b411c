"""Two runtimes on one file: a chat parks in one, and its run is answered and ends in the other."""

import pytest

from penstock.app.runtime import Runtime
from penstock.chat.requests import NewMessage
from penstock.core.events.events import TaskResumed
from penstock.core.events.flow_events import RunEnded
from penstock.core.task import TaskStatus
from tests.kit.flow_server import laid
from tests.kit.logs import events
from tests.kit.project import ProjectFolder
from tests.kit.waiting_chat import ASKS, model, open_one, runs

LIMITS = {"poll_seconds": 0.01, "sweep_seconds": 0.05, "shutdown_seconds": 0.05}
pytestmark = pytest.mark.slow("two runtimes, on a file that is really written")


async def ended(runtime: Runtime, content: str, other: Runtime) -> list[object]:
    """Let a chat park in one runtime, and answer its run in another; returns what it was told."""
    sent = await runtime.requests.send(NewMessage(content=content))
    asked = await open_one(runtime, sent.task_id)
    assert asked.task_id in await runs(other)
    await other.requests.answer(asked.question.question_id, {"value": "Yes"})
    for each in (other, runtime):
        reply = await each.requests.wait(sent.task_id)
        assert reply
        assert (reply.status, reply.content) == (TaskStatus.SUCCEEDED, "All done.")
    happened = await events(other, sent.session_id)
    return [each for each in happened if isinstance(each, RunEnded | TaskResumed)]


async def test_a_run_that_ends_in_one_process_resumes_the_chat_of_another(
    project: ProjectFolder,
) -> None:
    laid(project.root, {"asks.yaml": f"name: asks\ndescription: d\n{ASKS}"})
    scripted = model()
    settings = {"limits": LIMITS, "models": {"default": scripted.card.model_id}}
    fields = {"models": [scripted], "settings": settings}
    async with project.opened(**fields) as here, project.opened(**fields) as second:
        for runtime, other in ((here, second), (second, here)):
            result = await ended(runtime, "asks", other)
            assert [type(each) for each in result] == [RunEnded, TaskResumed]

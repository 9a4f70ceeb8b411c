"""The context of a schedule: scripts of its tasks read it, models do not."""

from typing import Any

from penstock.core.ids import TaskId
from penstock.core.reply import AssistantMessage
from penstock.models.scripted import ScriptedModel, call, say
from tests.kit.project import ProjectFolder

SCHEDULE = """
    schedule_id: morning
    profile_channel: chat
    profile_external_user_id: ann
    user_message: What is new?
    timezone: Europe/Berlin
    cron_expression: 0 8 * * MON-FRI
    context: {region: EU, task_id: task_of_mine, nested: {limit: 3}}
"""
SCRIPT = """
    export const run = async () => {
      const seen = await flo.task.getContext();
      const inner = await flo.callTool({ tool_id: "inner", input: {} });
      return { seen, inner: inner.output };
    };
"""
INNER = """
    export const run = async () => (await flo.task.getContext()).region ?? null;
"""


async def test_a_scheduled_task_sees_the_context_of_its_schedule(project: ProjectFolder) -> None:
    """Spec: "merged into `getContext()` (the runtime's keys win); models do not see it"."""
    project.tool("look", SCRIPT)
    project.tool("inner", INNER)
    project.write("schedules/morning.schedule.yaml", SCHEDULE)
    model = ScriptedModel({"": [call("look"), say("Done."), call("look"), say("Done.")]})
    async with project.opened(model=model, settings={"global_tools": ["look"]}) as runtime:
        task_id = await runtime.schedules.run("morning")
        reply = await runtime.attach(task_id).reply()
        assert (reply.status, reply.output) == ("succeeded", "Done.")
        seen = outputs(await runtime.history(reply.session))[0]
        assert seen["inner"] == "EU"
        context = seen["seen"]
        assert (context["region"], context["nested"]) == ("EU", {"limit": 3})
        assert (context["task_id"], context["session_id"]) == (task_id, reply.session)
        asked = str([each.messages for each in model.requests[:1]])
        assert "What is new?" in asked
        assert "EU" not in asked
        # the next message of the same conversation is no task of the schedule
        later = await runtime.chat("And now?", session=reply.session)
        last = outputs(await runtime.history(later.session))[-1]
        assert (last["inner"], "region" in last["seen"]) == (None, False)


async def test_a_fork_of_a_scheduled_task_sees_the_context_and_is_no_tick(
    project: ProjectFolder,
) -> None:
    project.tool("inner", INNER)
    project.write("schedules/morning.schedule.yaml", SCHEDULE)
    model = ScriptedModel({"": [call("inner"), say("Done.")]})
    async with project.opened(model=model, settings={"global_tools": ["inner"]}) as runtime:
        task_id = await runtime.schedules.run("morning")
        first = await runtime.attach(task_id).reply()
        before = await runtime.schedules.get("morning")
        fork = await runtime.fork(task_id, at=2)
        assert fork.session is not None
        assert (await runtime.attach(fork.task_id).reply()).status == "succeeded"
        assert outputs(await runtime.history(fork.session)) == ["EU"]
        after = await runtime.schedules.get("morning")
        assert after == before
        assert after.last_task_id == first.task_id
        record = await runtime.requests.inbox.task(TaskId(fork.task_id))
        assert record.schedule_id is None


def outputs(messages: Any) -> list[Any]:
    """Return what the calls of the model returned."""
    replies = [each for each in messages if isinstance(each, AssistantMessage)]
    return [each.output for reply in replies for each in reply.calls]

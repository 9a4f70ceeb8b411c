"""Scripts run agents in place: `flo.task.runSubagent`."""

from typing import Any

import pytest

from penstock.chat.requests import NewCall
from penstock.core.events.events import ReplyReceived
from penstock.core.ids import LogId
from penstock.core.task import TaskStatus
from penstock.models.scripted import ScriptedModel, call, fail, say
from penstock.testing.runtime import MemoryStorage
from tests.kit.children import below
from tests.kit.project import ProjectFolder
from tests.kit.simulated_processes import Stage
from tests.kit.tools import Act, echo

WORKER = '{ worker_kind: "extractor", title: "Fruit", objective: "Find the apples", input: [1] }'
TOLD = """
    const told = async (work: () => Promise<unknown>) => {
      try { return await work(); } catch (error: any) {
        return [error.code ?? error.name, error.details?.reason ?? error.message];
      }
    };
"""


def script_of(body: str) -> str:
    return f"{TOLD}\nexport async function run() {{ {body} }}"


async def test_a_subagent_answers_in_the_call_and_has_no_task(project: ProjectFolder) -> None:
    project.tool("ask", script_of(f"return flo.task.runSubagent({WORKER});"))
    model = ScriptedModel({"the apples": [call("look"), say(' {"price": 3} ')]})
    stage = Stage(project, look := Act("look"), place=MemoryStorage())
    async with stage.opened(model=model) as runtime:
        task_id = await runtime.start_call(NewCall(tool_id="ask", input={}))
        reply = await runtime.requests.wait(task_id)
        children = await below(runtime, task_id)
    assert reply
    assert reply.envelope
    output = reply.envelope.output
    assert output.pop("subagent_task_id").startswith("subagent_")
    assert output == {
        "worker_kind": "extractor",
        "status": "completed",
        "output": {"price": 3},
        "output_text": ' {"price": 3} ',
    }
    assert (children, len(look.runs)) == ({}, 1)
    first = model.requests[0]
    assert str(first.messages[0].content) == "Fruit\n\nFind the apples\n\nInput (JSON):\n[1]"
    assert "Take out of the input exactly what the objective asks for" in first.system
    assert "Your last message is the result of this task" in first.system


async def test_a_script_that_runs_again_repeats_no_reply(project: ProjectFolder) -> None:
    body = f"""
        const found = await flo.task.runSubagent({WORKER});
        await flo.task.waitForUserMessage({{ user_message: "Go on?" }});
        const again = await flo.task.runSubagent({WORKER});
        return [found.output, again.output];
    """
    project.tool("ask", script_of(body))
    stage = Stage(project)
    model = ScriptedModel({"the apples": [say("3")]})
    async with stage.opened(model=model) as runtime:
        stage.task_id = await runtime.start_call(NewCall(tool_id="ask", input={}))
        reply = await runtime.requests.wait(stage.task_id)
        assert reply
        assert reply.status is TaskStatus.SUSPENDED
        await runtime.requests.answer((await stage.questions())[0], {"text": "yes"})
        reply = await runtime.requests.wait(stage.task_id)
    assert reply
    assert reply.envelope
    assert reply.envelope.output == ["3", "3"]
    events = [each.event for each in await stage.place.log.read(LogId(stage.task_id))]
    assert sum(isinstance(each, ReplyReceived) for each in events) == 2


async def test_a_subagent_that_needs_a_person_is_continued_by_the_same_arguments(
    project: ProjectFolder,
) -> None:
    body = f"""
        const first = await flo.task.runSubagent({WORKER});
        const ids = (first.suspension as any).question_ids;
        await flo.task.waitForUserMessage({{ user_message: "Did you answer?" }});
        const second = await flo.task.runSubagent({WORKER});
        return [first.status, ids.length, second.status, second.output_text];
    """
    project.tool("ask", script_of(body))
    stage = Stage(project, send := Act("send", echo, requires_approval=True))
    model = ScriptedModel({"the apples": [call("send", to="ann"), say("Sent.")]})
    async with stage.opened(model=model) as runtime:
        stage.task_id = await runtime.start_call(NewCall(tool_id="ask", input={}))
        await runtime.requests.wait(stage.task_id)
        approval, question = await stage.questions()
        await runtime.requests.answer(approval, {"decision": "approve"})
        await runtime.requests.wait(stage.task_id)
        await runtime.requests.answer(question, {"text": "yes"})
        reply = await runtime.requests.wait(stage.task_id)
    assert reply
    assert reply.envelope
    assert reply.envelope.output == ["suspended", 1, "completed", "Sent."]
    assert len(send.runs) == 1


async def test_a_subagent_whose_model_fails_is_a_result(project: ProjectFolder) -> None:
    project.tool("ask", script_of(f"return flo.task.runSubagent({WORKER});"))
    model = ScriptedModel({"the apples": [fail(400, "no such model")]})
    async with Stage(project).opened(model=model) as runtime:
        envelope = await runtime.call("ask", {})
    assert envelope.output["status"] == "failed"
    assert "no such model" in envelope.output["error"]
    assert (envelope.output["output"], envelope.output["output_text"]) == (None, "")


MORE = """
    skill_id: more
    name: More
    description: Asks again.
    tools: [ask]
    instruction_file: more.md
"""
REFUSED: dict[str, tuple[str, list[str]]] = {
    "no skill": (
        f'{{ ...{WORKER}, selected_skill_ids: ["nope"] }}',
        ["TOOL_FAILED", "no_such_skill"],
    ),
    "a kind that is none": (
        f'{{ ...{WORKER}, worker_kind: "cook" }}',
        [
            "TypeError",
            "worker_kind must be one of extractor, matcher, classifier",
        ],
    ),
    "another member": (f'{{ ...{WORKER}, key: "a" }}', ["TypeError", "takes no"]),
    "no objective": (f'{{ ...{WORKER}, objective: " " }}', ["TypeError", "objective must be"]),
}


@pytest.mark.parametrize(("worker", "refusal"), REFUSED.values(), ids=REFUSED)
async def test_what_no_subagent_can_be_is_refused(
    project: ProjectFolder, worker: str, refusal: list[str]
) -> None:
    code = f"flo.task.runSubagent({worker} as any)"
    project.tool("ask", script_of(f"return told(async () => {code});"))
    output: Any = await Stage(project).output("ask")
    assert output[0] == refusal[0]
    assert refusal[1] in output[1]


async def test_subagents_are_not_inside_each_other_without_end(project: ProjectFolder) -> None:
    project.write("skills/more/more.skill.yaml", MORE)
    project.write("skills/more/more.md", "Ask again.")
    asked = f'{{ ...{WORKER}, selected_skill_ids: ["more"] }}'
    body = f"return told(async () => (await flo.task.runSubagent({asked} as any)).output_text);"
    project.tool("ask", script_of(body))
    model = ScriptedModel({"the apples": [call("ask"), say("Done.")]})
    project.write("penstock.toml", "[limits]\nrun_depth = 3\n")
    async with project.opened(model=model) as runtime:
        envelope = await runtime.call("ask", {})
    assert envelope.output == "Done."
    assert len(model.requests) == 6
    assert "DEPTH_EXCEEDED" in str(model.requests[3].messages)

"""The promises of *Nested Tool Calls*: each sentence that can be tested, on a project of files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace

from penstock.agents.agent import Agent
from penstock.app.runtime import Runtime
from penstock.chat.requests import NewCall, NewMessage
from penstock.manifest.bundle import load_bundle
from penstock.models.scripted import ScriptedModel, call, say
from penstock.server.application import create_application
from tests.kit.logs import settled
from tests.kit.project import ProjectFolder
from tests.kit.server import HERE
from tests.kit.visibility import (
    SKILLS,
    Outcomes,
    outcomes,
    search_knowledge,
    write_project,
    write_skill,
)

Found = Mapping[tuple[str, bool], Outcomes]
NOT_FOUND, DENIED = "TOOL_NOT_FOUND", "NOT_PERMITTED"
EVERYTHING_IS_SAID = say("That is all.")
SENDER = """
name: {name}
description: Sends an attachment, as the seed has it.
input_schema:
  type: object
  additionalProperties: false
execution:
  type: script
  script_file: send.mts
"""
SEND = """
export async function run() {
  const path = "task://report.txt";
  await flo.callTool({ tool_id: "write_text_file", input: { path, content: "All is well." } });
  const kept = await flo.callTool({ tool_id: "media_push_vfs", input: { input_path: path } });
  const sent = await flo.callTool({
    tool_id: "send_media_attachment",
    input: { media_id: kept.output?.media_id ?? kept.status },
  });
  return { status: sent.status, code: sent.error?.code };
}
"""
HELPERS = "[send_media_attachment, media_push_vfs, write_text_file]"


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, machine_code: Path) -> Found:
    """What each origin of the visibility table gets, by tool."""
    return outcomes(tmp_path_factory.mktemp("nested"), machine_code)


def assert_allowed(outcome: str) -> None:
    assert outcome not in {NOT_FOUND, DENIED}


async def said(runtime: Runtime, text: str, *skills: str) -> list[Any]:
    """Say something; returns the outcomes of all calls of the model."""
    sent = await runtime.requests.send(NewMessage(content=text, selected_skills=skills))
    await runtime.requests.wait(sent.task_id)
    return [each for each in await settled(runtime, sent.session_id) if each.call_id]


async def directly(runtime: Runtime, tool_id: str, input: dict[str, Any], *skills: str) -> Any:
    """Make a direct call; returns its envelope."""
    asked = NewCall(tool_id=tool_id, input=input, selected_skills=skills)
    reply = await runtime.requests.wait(await runtime.start_call(asked))
    assert reply
    assert reply.envelope
    return reply.envelope


def model_of(*replies: Any) -> tuple[ScriptedModel, Agent]:
    model = ScriptedModel([*replies, EVERYTHING_IS_SAID])
    return model, Agent("assistant", model=model)


def names(model: ScriptedModel, number: int = 0) -> set[str]:
    """Return the names of the tools of a request."""
    return {each.name for each in model.requests[number].tools}


async def test_n03_a_script_sees_an_activated_skill_at_its_next_call(
    project: ProjectFolder,
) -> None:
    """Seed N03: "scoped by the selected skill set"."""
    write_project(project)
    script = """
      export async function run() {
        const other = () => flo.callTool({ tool_id: "t_other", input: {} });
        const before = await other();
        await flo.callTool({ tool_id: "activate_skill", input: { skill_id: "c" } });
        return [before.error?.code, (await other()).status];
      }
    """
    project.tool("t_listed", script, direct_call="false")
    _, agent = model_of(call("t_listed"))
    async with project.opened(agents=[agent]) as runtime:
        (listed,) = await said(runtime, "Go", "a")
    assert listed.envelope.output == [DENIED, "success"]


async def test_n03_a_model_sees_its_activated_skill_at_its_next_turn(
    project: ProjectFolder,
) -> None:
    """Seed N03: "scoped by the selected skill set"."""
    write_project(project)
    model, agent = model_of(
        call("activate_skill", skill_id="c") + call("t_other", n=1), call("t_other", n=2)
    )
    async with project.opened(agents=[agent]) as runtime:
        events = await said(runtime, "Go")
    errors = {(each.tool_id, each.envelope.ok) for each in events}
    assert errors == {("activate_skill", True), ("t_other", False), ("t_other", True)}
    assert "t_other" not in names(model, 0)
    assert "t_other" in names(model, 1)
    assert "Mind skill c." not in model.requests[0].messages[-1].content
    assert "Mind skill c." in model.requests[1].messages[-2].content


@pytest.mark.parametrize("origin", ["S", "S2", "D", "D0", "H"])
def test_n04_global_tools_are_there_for_every_script(found: Found, origin: str) -> None:
    """Seed N04: "globally available runtime tools"; N09: direct call: "globally available"."""
    assert found[origin, False]["list_available_skills"] == "ok"


@pytest.mark.parametrize("tool", ["read_text_file", "t_listed", "t_req"])
def test_n05_a_script_has_the_tools_of_the_skills(found: Found, tool: str) -> None:
    """Seed N05: "the skill manifest's tools"."""
    assert_allowed(found["S", False][tool])


@pytest.mark.parametrize("tool", ["t_helper", "t_reqh"])
def test_n06_a_script_has_the_script_tools_of_the_skills(found: Found, tool: str) -> None:
    """Seed N06: "the skill manifest's script_tools"."""
    assert found["S", False][tool] == "ok"


def test_n07_a_script_has_the_inline_tools_of_the_skills(found: Found) -> None:
    """Seed N07: "inline tools declared via tool_definitions"."""
    assert found["S", False]["t_inline"] == "ok"


def test_n08_a_direct_call_has_a_scope_of_its_own(found: Found) -> None:
    """Seed N08: "through /call, nested calls are scoped differently"."""
    outcome = [found[origin, False]["t_own"] for origin in ("S", "D", "D0")]
    assert outcome == [DENIED, "ok", "ok"]


def test_n10_a_direct_call_has_the_selected_skills(found: Found) -> None:
    """Seed N10: "reachable through the current selected skill set"."""
    assert_allowed(found["D", False]["read_text_file"])
    assert found["D0", False]["read_text_file"] == DENIED


async def test_n11_a_direct_call_may_call_itself_to_depth_16(project: ProjectFolder) -> None:
    """Seed N11: "the direct-call tool itself"."""
    script = """
      export async function run({ depth = 1 }: any) {
        const input = { depth: depth + 1 };
        const { output, error } = await flo.callTool({ tool_id: "down", input });
        return error ? { depth, code: error.code } : output;
      }
    """
    project.tool("down", script)
    async with project.opened() as runtime:
        envelope = await directly(runtime, "down", {})
    assert envelope.output == {"depth": 16, "code": "DEPTH_EXCEEDED"}


@pytest.mark.parametrize("origin", ["D", "D0", "H"])
def test_n12_a_direct_call_has_its_own_script_tools(found: Found, origin: str) -> None:
    """Seed N12: "that tool manifest's script_tools"."""
    assert found[origin, False]["t_own"] == "ok"


async def test_n13_script_tools_are_only_for_scripts(project: ProjectFolder) -> None:
    """Seed N13: script_tools "without adding it to the LLM-visible tool list"."""
    write_project(project)
    model, agent = model_of(call("t_listed", tools=["t_helper"]))
    async with project.opened(agents=[agent]) as runtime:
        (listed,) = await said(runtime, "Go", "a")
    assert listed.envelope.output == {"t_helper": "ok"}
    assert {"t_listed", "t_inline", "t_req", "read_text_file"} <= names(model)
    assert not {"t_helper", "t_reqh", "t_direct", "t_own"} & names(model)


async def test_n14_inline_tools_need_no_list(project: ProjectFolder) -> None:
    """Seed N14: "compiled into the selected skill's runtime tool set automatically"."""
    write_project(project)
    model, agent = model_of(call("t_inline"))
    async with project.opened(agents=[agent]) as runtime:
        (inline,) = await said(runtime, "Go", "a")
    assert inline.envelope.output == 1
    assert "t_inline" in names(model)


def test_n14_an_inline_tool_that_is_listed_too_is_a_mistake(project: ProjectFolder) -> None:
    """Seed N14: "compiled into the selected skill's runtime tool set automatically"."""
    write_skill(project, "a", **(SKILLS["a"] | {"tools": "[t_inline]", "requires_skills": "[]"}))
    codes = [each.code for each in load_bundle(project.root).diagnostics]
    assert "inline-listed" in codes


@pytest.mark.parametrize("tool", ["read_text_file", "t_listed"])
def test_n21_the_model_calls_tools_itself(found: Found, tool: str) -> None:
    """Seed N21: "Use tools when the LLM should be able to call the tool directly"."""
    assert_allowed(found["M", False][tool])


@pytest.fixture
def sending(project: ProjectFolder) -> ProjectFolder:
    """Write the seed's `file_sender` and `publish_report`."""
    write_skill(
        project,
        "file_sender",
        name="File Sender",
        description="Send workspace files to the user.",
        tools="[prepare_file]",
        script_tools=HELPERS,
    )
    project.write("skills/file_sender/prepare_file.tool.yaml", SENDER.format(name="prepare_file"))
    project.write("skills/file_sender/send.mts", SEND)
    more = f"direct_call: true\nscript_tools: {HELPERS}\n"
    project.write("publish_report.tool.yaml", SENDER.format(name="publish_report") + more)
    project.write("send.mts", SEND)
    return project


async def test_n22_helpers_of_a_skill_are_for_its_scripts(sending: ProjectFolder) -> None:
    """Seed N22: the `file_sender` manifest."""
    model, agent = model_of(call("prepare_file"))
    async with sending.opened(agents=[agent]) as runtime:
        (prepared,) = await said(runtime, "Go", "file_sender")
    assert prepared.envelope.output == {"status": "success"}
    assert "prepare_file" in names(model)
    assert "send_media_attachment" not in names(model)


async def test_n23_a_direct_call_may_use_its_helpers(sending: ProjectFolder) -> None:
    """Seed N23: the `publish_report` manifest."""
    async with sending.opened() as runtime:
        envelope = await directly(runtime, "publish_report", {})
    assert envelope.output == {"status": "success"}


async def test_n24_a_helper_is_not_a_direct_call(sending: ProjectFolder) -> None:
    """Seed N24: "stays nested-only unless it separately declares direct_call"."""
    async with sending.opened() as runtime:
        envelope = await directly(runtime, "send_media_attachment", {"media_id": "med_1"})
    assert envelope.error.code == NOT_FOUND


@pytest.mark.parametrize(
    ("tool_id", "status", "code"),
    [("publish_report", 200, None), ("send_media_attachment", 404, NOT_FOUND)],
)
async def test_n25_the_same_holds_for_external_apps(
    sending: ProjectFolder, tool_id: str, status: int, code: str | None
) -> None:
    """Seed N25: "also governs typed direct-call invocations from external apps"."""
    async with sending.opened() as runtime:
        transport = httpx2.ASGITransport(app=create_application(runtime))
        async with httpx2.AsyncClient(transport=transport, base_url=HERE) as client:
            answer = await client.post(f"/api/direct-calls/{tool_id}", json={"input": {}})
    assert answer.status_code == status
    assert (answer.json().get("error") or {}).get("code") == code


def test_n26_direct_call_opens_two_ways(found: Found) -> None:
    """Seed N26: "two runtime behaviors" of direct_call."""
    assert [found[origin, False]["t_direct"] for origin in ("C", "S")] == ["ok", "ok"]


async def test_n27_direct_call_shows_a_tool_to_no_model(project: ProjectFolder) -> None:
    """Seed N27: does not "add the tool to the normal … LLM tool list"."""
    write_project(project)
    model, agent = model_of(call("t_direct"))
    async with project.opened(agents=[agent]) as runtime:
        (direct,) = await said(runtime, "Go", "a")
    assert direct.envelope.error.code == NOT_FOUND
    assert "t_direct" not in names(model)


async def test_n28_helpers_stay_hidden_after_a_direct_call(project: ProjectFolder) -> None:
    """Seed N28: does not "expose that tool's helpers to the LLM"."""
    write_project(project)
    model, agent = model_of(call("t_own"))
    async with project.opened(agents=[agent]) as runtime:
        assert (await directly(runtime, "t_direct", {"through": ["t_own"]})).ok
        (own,) = await said(runtime, "Go", "a")
    assert own.envelope.error.code == NOT_FOUND
    assert "t_own" not in names(model)


@pytest.mark.parametrize("tool", ["t_helper", "t_inline", "t_other"])
def test_n29_a_direct_call_does_not_open_the_helpers_of_skills(found: Found, tool: str) -> None:
    """Seed N29: does not make "every other selected-skill-only helper" callable."""
    assert found["D0", False][tool] == DENIED


def test_n30_tools_are_there_for_the_model_while_the_skill_is_selected(found: Found) -> None:
    """Seed N30: "tools controls what the … LLM can call for a selected skill"."""
    assert found["M", False]["t_listed"] == "ok"
    assert found["M0", False]["t_listed"] == NOT_FOUND


@pytest.mark.parametrize("origin", ["S", "S2"])
def test_n31_a_direct_call_is_reachable_from_any_script(found: Found, origin: str) -> None:
    """Seed N31: reachable "even when it is outside the current selected-skill tool set"."""
    assert found[origin, False]["t_direct"] == "ok"


@pytest.mark.parametrize("origin", ["D", "D0", "H"])
def test_n32_a_helper_of_a_helper_is_not_granted(found: Found, origin: str) -> None:
    """Seed N32: "a helper used from a direct-call tool still needs to be …"."""
    assert found[origin, False]["t_own2"] == DENIED


@pytest.mark.parametrize("origin", ["S", "D"])
def test_n33_permissions_count_inside_of_calls_too(found: Found, origin: str) -> None:
    """Seed N33: "profile permission checks still apply to nested calls"."""
    assert [found[origin, may]["t_perm"] for may in (False, True)] == [DENIED, "ok"]


@pytest.mark.parametrize("skills", [(), ("a",)])
async def test_n42_script_tools_do_not_change_the_request_to_the_model(
    project: ProjectFolder, skills: Sequence[str]
) -> None:
    """Seed N42: "without polluting the prompt tool list"."""
    write_project(project)
    requests = []
    for script_tools in ("[]", "[t_plain, t_own]"):
        write_skill(project, "b", tools="[t_req]", script_tools=script_tools)
        model, agent = model_of()
        async with project.opened(agents=[agent], tools=[search_knowledge]) as runtime:
            await said(runtime, "Go", *skills)
        # each run is another conversation
        requests += [replace(request, conversation=None) for request in model.requests]
    assert repr(requests[0]) == repr(requests[1])

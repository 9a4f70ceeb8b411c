"""The sources that engines evaluate: the guest sources as one text, modules under their URLs."""

import json
import re

from penstock.sandbox.guest_sources import (
    fixed_part,
    guest_source,
    known_outputs,
    plan_of,
    source_of,
    url_of,
)
from penstock.sandbox.script import RUNTIME, RUNTIME_NAMES, Module
from tests.kit.scripts import script_of

DECLARED = re.compile(r"^declare (?:const|function|class) (\w+)", re.MULTILINE)


def test_the_guest_source_is_one_function_of_the_host_functions() -> None:
    source = guest_source()
    assert source.startswith("(function (post, answer, ")
    assert source.endswith("})")


def test_any_json_becomes_a_module() -> None:
    module = Module(name="a.json", source='{"__proto__": "\u2028"}', imports={}, is_json=True)
    assert source_of(module) == 'export default JSON.parse("{\\"__proto__\\": \\"\\u2028\\"}");'


def test_the_runtime_keeps_its_name_and_files_get_a_url() -> None:
    assert [url_of(name) for name in (RUNTIME, "lib/a.mts")] == [RUNTIME, "tool:///lib/a.mts"]


def test_a_plan_lists_each_module_with_its_imports() -> None:
    plan = json.loads(plan_of(script_of("1;", {"b.mjs": "2;"})))
    assert plan["entry"] == "tool:///main.mjs"
    assert sorted(plan["modules"]) == [RUNTIME, "tool:///b.mjs", "tool:///main.mjs"]
    assert plan["modules"]["tool:///b.mjs"]["imports"]["./main.mjs"] == "tool:///main.mjs"


def test_the_module_has_every_member_of_flo() -> None:
    """It declares the module `flo:runtime`, the frozen global `flo`."""
    module = fixed_part().partition('declare module "flo:runtime" {')[2].partition("}")[0]
    assert set(re.findall(r"export const (\w+):", module)) == set(RUNTIME_NAMES)


def test_every_global_of_scripts_is_declared() -> None:
    """Globals [flo: fetch, URL, URLSearchParams, Blob, File, FormData; rest own]."""
    declared = set(DECLARED.findall(fixed_part()))
    names = """flo console fetch URL URLSearchParams Blob File FormData TextEncoder TextDecoder
        structuredClone crypto atob btoa AbortController AbortSignal setTimeout setInterval
        clearTimeout clearInterval queueMicrotask performance"""
    assert declared == set(names.split())


def test_unavailable_functions_are_declared_as_such() -> None:
    """Functions of later deliveries are declared with `Not available in this version`."""
    later = re.findall(r"/\*\* Not available in this version \*/\n  (\w+)", fixed_part())
    assert len(later) == 6
    assert {"run", "importState"} <= set(later)


def test_outputs_of_built_in_tools_are_known() -> None:
    assert {"read_text_file", "csv_read", "ask_user", "send_media_attachment"} <= known_outputs()

"""Sources as engines read them: our world as one text, modules by the names of stacks."""

import json

from penstock.sandbox.script import RUNTIME, Module
from penstock.sandbox.sources import guest_source, plan_of, source_of, url_of
from tests.kit.scripts import script_of


def test_our_world_is_one_function_of_what_it_needs() -> None:
    source = guest_source()
    assert source.startswith("(function (post, answer, ")
    assert source.endswith("})")


def test_json_is_a_module_whatever_stands_in_it() -> None:
    module = Module(name="a.json", source='{"__proto__": "\u2028"}', imports={}, is_json=True)
    assert source_of(module) == 'export default JSON.parse("{\\"__proto__\\": \\"\\u2028\\"}");'


def test_the_runtime_keeps_its_name_and_files_get_one() -> None:
    assert [url_of(name) for name in (RUNTIME, "lib/a.mts")] == [RUNTIME, "tool:///lib/a.mts"]


def test_a_plan_names_each_module_and_what_it_may_import() -> None:
    plan = json.loads(plan_of(script_of("1;", {"b.mjs": "2;"})))
    assert plan["entry"] == "tool:///main.mjs"
    assert sorted(plan["modules"]) == [RUNTIME, "tool:///b.mjs", "tool:///main.mjs"]
    assert plan["modules"]["tool:///b.mjs"]["imports"]["./main.mjs"] == "tool:///main.mjs"

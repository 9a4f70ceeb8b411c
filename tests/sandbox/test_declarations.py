"""The part of the declarations that is the same for all."""

import re

from penstock.sandbox.declarations import fixed_part, known_outputs
from penstock.sandbox.script import RUNTIME_NAMES

DECLARED = re.compile(r"^declare (?:const|function|class) (\w+)", re.MULTILINE)


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


def test_functions_of_later_versions_say_so() -> None:
    """Functions of later deliveries are declared with `Not available in this version`."""
    later = re.findall(r"/\*\* Not available in this version \*/\n  (\w+)", fixed_part())
    assert len(later) == 7 + 6 + 6
    assert {"spawnChildren", "cancel", "claimDueSubjects", "importState"} <= set(later)


def test_outputs_of_built_in_tools_are_known() -> None:
    assert {"read_text_file", "csv_read", "ask_user", "send_media_attachment"} <= known_outputs()

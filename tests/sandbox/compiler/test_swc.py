"""Objects behind the handles of the blob are released."""

from pathlib import Path

import pytest

from penstock.core.clock import SystemClock
from penstock.sandbox.compiler.swc import IMPORTS, Objects, Swc


def test_handles_are_reused() -> None:
    objects = Objects()
    first = objects.add("a")
    assert objects.take(first) == "a"
    assert objects.add("b") == first
    assert objects.drop(131) == 0
    assert objects.get(130) is True


@pytest.mark.parametrize(
    ("first", "second", "equal"), [(128, 129, 1), (129, 130, 0), (131, 131, 1)]
)
def test_undefined_equals_null(first: int, second: int, equal: int) -> None:
    assert Objects().equals(first, second) == equal


def test_an_import_that_stripping_does_not_need_traps() -> None:
    (expected,) = (each for each in IMPORTS if each.name == "__wbindgen_is_function")
    with pytest.raises(
        RuntimeError, match="the blob called an import that stripping does not need"
    ):
        expected.call(Objects(), [128])


def test_a_thousand_sources_leak_no_handle(machine_code: Path) -> None:
    swc = Swc(SystemClock(), machine_code)
    for source in ("let a: 1", "enum A {}", "let a: ="):
        for _ in range(3):
            swc.strip(source, 5)
        before = swc.handles, swc.size
        for _ in range(100):
            swc.strip(source, 5)
        assert (swc.handles, swc.size) == before
    swc.close()

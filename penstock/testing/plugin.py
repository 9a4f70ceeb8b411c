"""The pytest plug-in: a scripted model and a runtime as fixtures, for tests without async.

pytest loads this file in every run where penstock is installed, so it imports nothing of the
runtime before a fixture is used. Shown by tests/testing/test_plugin.py, which runs pytest.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.core.late import late

MARKER = "penstock_project(folder): the project that the fixture penstock_runtime opens"


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def scripted() -> Iterator[Any]:
    """Yield a ScriptedModel to which a test adds replies with `play`.

    The test fails at its end if a reply was left over, or if the model was asked for one more.
    """
    make: Any = late("penstock.testing.expectations:ScriptedTest")
    model = make()
    yield model
    model.check()


@pytest.fixture
def penstock_clock() -> Any:
    """Return the FakeClock of `penstock_runtime`.

    Move it in the loop of the runtime: `runtime.do(lambda _: clock.elapse(60))`.
    """
    make: Any = late("penstock.testing.clock:FakeClock")
    return make()


@pytest.fixture
def penstock_runtime(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Yield a SyncRuntime that asks no provider: in memory, or of the marker's project.

    The model is `scripted` if the test uses that fixture, else the offline model. A project keeps
    what it stores in a temporary folder.
    """
    scripted = "scripted" in request.fixturenames
    model = request.getfixturevalue("scripted") if scripted else None
    marker = request.node.get_closest_marker("penstock_project")
    if marker is None:
        open_memory: Any = late("penstock.testing.sync_runtime:memory_runtime_sync")
        storage: Any = late("penstock.testing.runtime:MemoryStorage")
        opening = open_memory(
            model=model, place=storage(clock=request.getfixturevalue("penstock_clock"))
        )
    else:
        (folder,) = marker.args
        open_project: Any = late("penstock.program.opening:open_sync")
        options: dict[str, Any] = {"model": model} if scripted else {}
        settings = {"data_dir": str(tmp_path / "penstock"), "allow_models": False}
        opening = open_project(request.path.parent / folder, settings=settings, **options)
    with opening as runtime:
        yield runtime

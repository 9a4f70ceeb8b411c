"""Makes a pytest worker send one report per test, where pytest sends five messages."""

import pytest
from _pytest.runner import runtestprotocol


def pytest_configure(config: pytest.Config) -> None:
    """Send all reports if the run asks for durations or an XML file."""
    options = config.option
    if hasattr(config, "workerinput") and not (options.durations or options.xmlpath):
        config.pluginmanager.register(OneReport())


class OneReport:
    """Sends the outcome of each test, without successful set-ups and tear-downs.

    The messages of ten thousand tests keep two processes busy for ten seconds.
    """

    @pytest.hookimpl
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Remove what counts and prints reports a second time, into a closed terminal."""
        session.config.pluginmanager.unregister(name="terminalreporter")

    @pytest.hookimpl
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test."""
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed:
                report.keywords = {}
                item.ihook.pytest_runtest_logreport(report=report)
        return True

"""What a worker tells whoever started it: one report a test, where pytest sends five messages."""

import pytest
from _pytest.runner import runtestprotocol


def pytest_configure(config: pytest.Config) -> None:
    """Tell everything where somebody wants to know how long each phase took, or a file of XML."""
    options = config.option
    if hasattr(config, "workerinput") and not (options.durations or options.xmlpath):
        config.pluginmanager.register(OneReport())


class OneReport:
    """Says how the test went, and nothing of a set-up and a tear-down that went well.

    The messages of ten thousand tests keep two processes busy for ten seconds.
    """

    @pytest.hookimpl
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test."""
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed:
                report.keywords = {}
                item.ihook.pytest_runtest_logreport(report=report)
        return True

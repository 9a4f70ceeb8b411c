"""The bar of `Runtime.map`."""

import pytest

from penstock.chat.python.progress import ProgressBar


def test_a_bar_shows_how_many_are_done(capsys: pytest.CaptureFixture[str]) -> None:
    bar = ProgressBar(2)
    bar.advance()
    bar.advance()
    bar.stop()
    assert "2/2" in capsys.readouterr().err

"""What reads workbooks is loaded with the first of them."""

import subprocess
import sys

import pytest

from penstock.builtins.sheets.operations import VERBS

PROGRAM = """
import sys
import penstock.builtins
print("openpyxl" in sys.modules)
"""


@pytest.mark.slow("another Python is started")
def test_the_tools_alone_load_no_openpyxl() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
    content = VERBS["create"](b"", "One", [[1]])
    assert VERBS["inspect"](content)["sheets"][0]["preview"] == [[1]]

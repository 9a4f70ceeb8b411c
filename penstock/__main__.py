"""The command line: `python -m penstock`, without the folder it is started in."""

import sys

from penstock.core.late import late, leave_working_folder

leave_working_folder()
sys.exit(late("penstock.cli.main:main")())

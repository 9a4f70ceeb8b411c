"""The command line: `python -m penstock`."""

import sys

from penstock.cli.main import main

sys.exit(main())

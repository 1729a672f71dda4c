"""The command `retrax` with one experiment more. A file, because worker processes read it too."""

import sys

from tests.experiments.conftest import register_tiny

from retrax.cli import main

register_tiny()

if __name__ == "__main__":
    sys.exit(main())

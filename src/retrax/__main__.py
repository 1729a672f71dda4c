"""`python -m retrax` is the command `retrax`."""

import sys

from retrax.cli import main

if __name__ == "__main__":
    sys.exit(main())

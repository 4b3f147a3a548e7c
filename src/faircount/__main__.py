"""`python -m faircount` is `faircount`."""

import sys

from faircount.cli import main

if __name__ == "__main__":
    sys.exit(main())

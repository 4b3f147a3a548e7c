"""`python -m faircount` is `faircount`."""

import sys

from faircount.cli import main

sys.exit(main())

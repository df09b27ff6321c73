"""`python -m bench`: every comparison, or one."""

import sys

from bench.run import main

sys.exit(main())

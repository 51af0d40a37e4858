"""``python -m uav_privacy_sc``: the command line."""

import sys

from uav_privacy_sc.cli import main

if __name__ == "__main__":
    sys.exit(main())

"""The operator's process, with all imported that it would import once it runs."""

import sys

from mikan_operator import __main__


def main() -> int:
    """As ``python -m mikan_operator``, which is what begins anew when its Lease is lost."""
    sys.orig_argv = [sys.executable, "-m", "mikan_operator"]
    return __main__.main()

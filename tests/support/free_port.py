"""Ports for servers that have to be told theirs."""

import random
import socket

RANGE = range(20000, 30000)
"""Below those that Linux gives to outgoing connections (32768 and up) and Kubernetes to node ports (30000 and up).

A server that is killed and started again has to find its port free: of the others, a connection may take it meanwhile.
"""

# Not the tests' own generator, which every worker sets to the same seed.
_CANDIDATES = iter(random.SystemRandom().sample(RANGE, len(RANGE)))


def free_port() -> int:
    """A port of the loopback address that was free a moment ago, another one at every call."""
    for port in _CANDIDATES:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"all ports between {RANGE[0]} and {RANGE[-1]} are taken or were given out")

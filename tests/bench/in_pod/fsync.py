"""Runs in the gateway's pod: what it costs to make a small append durable on its state volume.

Prints one JSON line of milliseconds.
"""

import json
import os
import tempfile
import time

COUNT = 100
taken = []
with tempfile.TemporaryFile(dir="/var/lib/mikan") as file:
    for _ in range(COUNT):
        began = time.perf_counter()
        os.write(file.fileno(), bytes(4096))
        os.fsync(file.fileno())
        taken.append((time.perf_counter() - began) * 1000)
print(json.dumps({"fsync": taken}))

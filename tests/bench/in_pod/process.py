"""Runs in any of our Python pods: what the pod's first process has used. Prints one JSON line.

``cpu`` seconds so far, ``resident_mb`` now and ``peak_mb`` at most so far, and ``started``, seconds of the epoch.
"""

import json
import os
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
fields = Path("/proc/1/stat").read_text().rsplit(")", 1)[1].split()
status = dict(line.split(":", 1) for line in Path("/proc/1/status").read_text().splitlines())
age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / TICKS
print(
    json.dumps(
        {
            "cpu": (int(fields[11]) + int(fields[12])) / TICKS,
            "resident_mb": int(status["VmRSS"].split()[0]) / 1024,
            "peak_mb": int(status["VmHWM"].split()[0]) / 1024,
            "started": time.time() - age,
        }
    )
)

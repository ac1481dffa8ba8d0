"""Runs in the gateway's pod: the size of its SQLite database with what goes with it. Prints one JSON line (``mb``)."""

import json
import os
from pathlib import Path

from mikan_gateway.config import DEFAULT_DATABASE

path = Path(os.environ.get("MIKAN_DATABASE_URL", DEFAULT_DATABASE).partition("///")[2])
print(json.dumps({"mb": sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*")) / 1e6}))

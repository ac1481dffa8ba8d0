"""The agent's process for tests without pods: the real one, but for a workspace of its own and files in memory."""

import os
from pathlib import Path

import uvloop

import census
from agent_peers.executor import MemoryExecutor
from agent_peers.office import workspace_in
from mikan_agent.app import Agent
from mikan_agent.backoff import Backoff
from mikan_agent.config import Config
from mikan_agent.harness.model_calls import Retries
from mikan_api.kill_points import arm
from mikan_api.logs import configure_logging

ROOT_VARIABLE = "TEST_WORKSPACE"
PATIENT_VARIABLE = "TEST_PATIENT"
"""Set: wait between tries as long as the product does."""
REPORT, PICTURE = "report.txt", "picture.png"
"""Files in the office directory."""


def main() -> int:
    """As ``python -m mikan_agent``, until killed."""
    config = Config.from_environ(os.environ)
    configure_logging("agent", config.log_level)
    arm(os.environ)
    census.answer(os.environ)
    workspace = workspace_in(Path(os.environ[ROOT_VARIABLE]))
    directory = workspace.office(config.office).directory
    files = MemoryExecutor()
    files.files[directory / REPORT] = b"the whole report"
    files.files[directory / PICTURE] = b"\x89PNG\r\n\x1a\n" + bytes(64)
    patient = PATIENT_VARIABLE in os.environ
    quick = Backoff(0.01, 0.1)
    agent = Agent(
        config,
        workspace=workspace,
        make_executor=lambda: files,
        retries=None if patient else Retries(count=3, backoff=quick, longest=1.0),
        reconnect=None if patient else quick,
    )
    uvloop.run(agent.run())
    return 0

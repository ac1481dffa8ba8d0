"""A test that hangs ends by its timeout whatever it waits in, or a run of all tests would never end."""

import re
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).resolve().parents[1] / "conftest.py"
HUNG = """
import asyncio, time, pytest

async def test_that_waits():
    await asyncio.sleep(60)

async def stubborn():
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

async def test_with_a_task_that_refuses_to_end():
    await asyncio.create_task(stubborn())

@pytest.fixture
async def slow_to_leave():
    yield
    await asyncio.sleep(60)

async def test_with_a_teardown_that_waits(slow_to_leave):
    pass

def test_that_blocks():
    time.sleep(60)

async def test_that_follows():
    pass
"""


def test_hung_tests_end_and_say_where_they_waited(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "test_hung.py").write_text(HUNG)
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "-o", "asyncio_mode=auto", "-o", "timeout=0.3"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--reruns=1", "-rfE", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert re.search(r"3 failed, \d passed, \d errors?, 5 rerun", run.stdout), run.stdout
    for told in ("TimedOut", "in test_that_waits", "in stubborn"):
        assert told in run.stdout

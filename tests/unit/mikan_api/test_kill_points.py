"""Places are reached in order, counted, and nothing at all unless the environment names one.

That a process is killed at each of them is for the integration tests, which are parametrised by `kill_points`; that
there is one wherever something is done that others depend on is looked into here.
"""

import ast
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType

import pytest
from telegram import Bot

from kill_places import AGENT, ELSEWHERE, GATEWAY, OPERATOR, TELEGRAM
from mikan_api.exceptions import ConfigError
from mikan_api.kill_points import VARIABLE, Step, after, arm, around, before
from mikan_gateway.platforms.telegram.requests import METHODS

ROOT = Path(__file__).parents[3]
PACKAGES = [ROOT / name for name in ("gateway", "agent", "operator")]
CODE = PACKAGES[0] / "mikan_gateway"


class Killed(BaseException):
    """In place of SIGKILL."""


def kill() -> None:
    raise Killed


@pytest.fixture(autouse=True)
def disarmed() -> Iterator[None]:
    yield
    arm({})


def test_unarmed_a_step_is_only_done() -> None:
    arm({VARIABLE: ""}, kill)
    with around(Step.MESSAGE_COMMIT):
        before(Step.MESSAGE_COMMIT)
        after(Step.MESSAGE_COMMIT)


def test_an_armed_place_kills_and_the_others_do_not() -> None:
    arm({VARIABLE: "gateway.message.commit.after"}, kill)
    done = []
    with around(Step.REPORT_COMMIT):
        done.append("another")
    with pytest.raises(Killed), around(Step.MESSAGE_COMMIT):
        done.append("it")
    assert done == ["another", "it"]


def test_before_is_before() -> None:
    arm({VARIABLE: "gateway.message.commit.before"}, kill)
    with pytest.raises(Killed), around(Step.MESSAGE_COMMIT):
        pytest.fail("it was done")


def test_the_nth_time_counts() -> None:
    arm({VARIABLE: "agent.tool.run.before:3"}, kill)
    before(Step.TOOL_RUN)
    before(Step.TOOL_RUN)
    with pytest.raises(Killed):
        before(Step.TOOL_RUN)


def test_a_step_that_fails_has_no_place_after_it() -> None:
    arm({VARIABLE: "gateway.platform.post.after"}, kill)
    with pytest.raises(ValueError, match="refused"), around(Step.PLATFORM_POST):
        raise ValueError("refused")


@pytest.mark.parametrize(
    "named",
    ["gateway", "gateway.message.commit", "gateway.nothing.before", "agent.tool.run.during", "agent.tool.run.after:0"],
)
def test_what_names_no_place_is_refused(named: str) -> None:
    with pytest.raises(ConfigError, match="MIKAN_KILL_POINT"):
        arm({VARIABLE: named})


def test_being_armed_is_told(caplog: pytest.LogCaptureFixture) -> None:
    arm({VARIABLE: "agent.tool.run.after"}, kill)
    assert [(r.levelno, r.place) for r in caplog.records] == [(logging.WARNING, "agent.tool.run.after")]  # type: ignore[attr-defined]


def test_every_step_is_somewhere_in_the_code() -> None:
    code = "\n".join(path.read_text() for package in PACKAGES for path in package.rglob("*.py"))
    assert [step.name for step in Step if f"Step.{step.name}" not in code] == []


def test_every_commit_of_the_gateway_is_a_step() -> None:
    unnamed = []
    for path in CODE.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("_database.write"):
                named = [*call.args[2:], *(k.value for k in call.keywords if k.arg == "step")]
                if not named or not ast.unparse(named[0]).startswith("Step."):
                    unnamed.append(f"{path.relative_to(CODE)}:{call.lineno}")
    assert unnamed == []


def test_every_method_of_telegram_that_is_called_is_a_step() -> None:
    code = "\n".join(path.read_text() for path in (CODE / "platforms" / "telegram").glob("*.py"))
    called = {
        name for name in re.findall(r"(?:\b|_)bot\.(\w+)", code) if isinstance(getattr(Bot, name, None), FunctionType)
    }
    # A method that is called by its name, which a constant of that file says.
    called = (called - {"do_api_request"}) | set(re.findall(r'^_METHOD = "(\w+)"', code, re.MULTILINE))
    assert {name.replace("_", "").lower() for name in called} == {name.lower() for name in METHODS}


def test_every_change_of_an_office_object_is_a_step() -> None:
    code = (CODE / "offices" / "api.py").read_text()
    writes = re.findall(r"_objects\.((?:create|patch|replace|delete)\w+)\(", code)
    assert len(writes) == code.count("around(Step.") == 3


def test_every_place_is_hit_by_a_test_that_kills() -> None:
    listed = [*GATEWAY, *TELEGRAM, *AGENT, *OPERATOR]
    assert sorted(listed) == sorted(f"{s}.{side}" for s in Step if s not in ELSEWHERE for side in ("before", "after"))
    assert [s.name for s, file in ELSEWHERE.items() if f"Step.{s.name}" not in (ROOT / file).read_text()] == []

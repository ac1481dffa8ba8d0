"""Package sources: one text, one meaning, whoever reads it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mikan_api.exceptions import InvalidPackage
from mikan_api.packages import (
    MAX_SOURCE,
    DeclaredPackages,
    GitSource,
    PackageSource,
    PathSource,
    Scope,
    build_declared,
    parse_declared,
    parse_package_source,
    shown,
    slugify,
    with_source,
)

GITHUB = "https://github.com/acme/tools"


@pytest.mark.parametrize(
    ("text", "url", "ref", "subpath"),
    [
        ("github:acme/tools", GITHUB, "", ""),
        ("github:acme/tools@v2", GITHUB, "v2", ""),
        ("github:acme/tools@release/1.2#extensions/board", GITHUB, "release/1.2", "extensions/board"),
        ("github:acme/tools.git#board", GITHUB, "", "board"),
        ("https://github.com/acme/tools.git", GITHUB, "", ""),
        ("https://GitHub.com/acme/tools/", GITHUB, "", ""),
        ("https://git.test:8443/a/b.git@main", "https://git.test:8443/a/b.git", "main", ""),
        ("https://git.test:443/a/b.git", "https://git.test/a/b.git", "", ""),
        ("git+https://git.test/a/b@" + "a" * 40, "https://git.test/a/b", "a" * 40, ""),
        ("http://127.0.0.1:3000/a.git", "http://127.0.0.1:3000/a.git", "", ""),
    ],
)
def test_a_git_source_is_repository_ref_and_subpath(text: str, url: str, ref: str, subpath: str) -> None:
    assert parse_package_source(text) == GitSource(url, ref, subpath)


def test_a_path_source_is_a_directory_below_the_volumes_local() -> None:
    source = parse_package_source("/mikan/packages/local/board")

    assert isinstance(source, PathSource)
    assert str(source) == "/mikan/packages/local/board"
    assert source.name == "board"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "is github:<owner>/<repository>"),
        ("npm:left-pad", "is github:<owner>/<repository>"),
        ("ssh://git.test/a/b.git", "is github:<owner>/<repository>"),
        ("http://git.test/a/b.git", "is github:<owner>/<repository>"),
        ("file:///etc/passwd", "is github:<owner>/<repository>"),
        ("ext::sh -c id", "no space"),
        ("git@github.com:acme/tools.git", "is github:<owner>/<repository>"),
        ("https://token@git.test/a.git", "no user name or password"),
        ("https://user:hunter2@git.test/a.git", "no user name or password"),
        ("github:acme", "github:<owner>/<repository>"),
        ("github:acme/tools/more", "github:<owner>/<repository>"),
        ("https://git.test/", "path of a repository"),
        ("https://git.test/../a.git", "path of a repository"),
        ("https://git.test/a/-b.git", "path of a repository"),
        ("https://git.test/a%2e.git", "path of a repository"),
        ("https://git.test/a.git?x=1", "path of a repository"),
        ("https://git..test/a.git", "no host"),
        ("https://-git.test/a.git", "no host"),
        ("https://git.test/a.tar.gz", "archives are not fetched"),
        ("github:acme/tools@", "no branch, tag or commit"),
        ("github:acme/tools@--upload-pack=id", "no branch, tag or commit"),
        ("github:acme/tools@a..b", "no branch, tag or commit"),
        ("github:acme/tools@a:b", "no branch, tag or commit"),
        ("github:acme/tools@+main", "no branch, tag or commit"),
        ("github:acme/tools@a.lock", "no branch, tag or commit"),
        ("github:acme/tools@a//b", "no branch, tag or commit"),
        ("github:acme/tools@a@{1}", "no branch, tag or commit"),
        ("github:acme/tools#", "part of the subpath"),
        ("github:acme/tools#../../etc", "part of the subpath"),
        ("github:acme/tools#/etc", "part of the subpath"),
        ("github:acme/tools#a/./b", "part of the subpath"),
        ("github:acme/tools#a/.GIT/hooks", "part of the subpath"),
        ("github:acme/tools#--help", "part of the subpath"),
        ("github:acme/tools#a\\b", "part of the subpath"),
        ("/etc", "below /mikan/packages/local"),
        ("/mikan/packages/local", "below /mikan/packages/local"),
        ("/mikan/packages/local/", "part of the path"),
        ("/mikan/packages/local/../checkouts/x", "part of the path"),
        ("/mikan/packages/locality/x", "below /mikan/packages/local"),
        ("github:acme/t\u00f6\u00f6ls", "ASCII"),
        ("github:acme/tools\n", "ASCII"),
        (f"github:acme/{'t' * MAX_SOURCE}", "at most 253"),
    ],
)
def test_what_is_no_source_is_refused_with_the_rule(text: str, rule: str) -> None:
    with pytest.raises(InvalidPackage, match=re.escape(rule)) as caught:
        parse_package_source(text)
    assert "hunter2" not in str(caught.value)


NAME = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,11}", fullmatch=True).filter(
    lambda n: (
        not n.endswith((".", ".lock", ".git"))
        and ".." not in n
        and not re.search(r"\.(tar|tgz|zip|whl|gz|bz2|xz)", n, re.I)
    )
)
PATH = st.lists(NAME, min_size=1, max_size=4).map("/".join)
SOURCES: st.SearchStrategy[PackageSource] = st.one_of(
    st.builds(
        GitSource,
        st.one_of(
            st.builds("https://github.com/{}/{}".format, NAME, NAME),
            st.builds(
                "https://git.test{}/{}{}".format, st.sampled_from(["", ":8443"]), PATH, st.sampled_from(["", ".git"])
            ),
        ),
        st.one_of(st.just(""), PATH),
        st.one_of(st.just(""), PATH),
    ),
    PATH.map(lambda path: parse_package_source(f"/mikan/packages/local/{path}")),
)


@given(SOURCES)
def test_every_source_is_read_back_from_its_text(source: PackageSource) -> None:
    assert parse_package_source(str(source)) == source


@given(
    st.text(alphabet=st.characters(min_codepoint=32, max_codepoint=126), max_size=60),
    st.sampled_from(["", "github:", "https://git.test/"]),
)
def test_whatever_is_accepted_stays_inside(text: str, start: str) -> None:
    """No accepted text has a part that git, a shell or a path could take for something else."""
    try:
        source = parse_package_source(start + text)
    except InvalidPackage:
        return
    if isinstance(source, GitSource):
        assert re.fullmatch(r"https?://[a-z0-9.:-]+(/[A-Za-z0-9._~+-]+)+", source.url)
        parts = [*source.url.split("/")[3:], *source.subpath.split("/")]
        assert not source.ref.startswith(("-", "+", ".", "/"))
    else:
        parts = list(source.path.parts[1:])
    assert not {".", "..", ".git"} & set(parts)
    assert not any(part.startswith("-") for part in parts)
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]{0,47}", slugify(source.name))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("github:acme/tools", "https://github.com/Acme/Tools.git@v2"),
        ("https://git.test/a/b.git", "git+https://git.test/a/b@main"),
        ("github:acme/tools@v1#board", "github:acme/tools@v2#board"),
    ],
)
def test_one_package_at_two_refs_has_one_identity(one: str, other: str) -> None:
    assert parse_package_source(one).identity == parse_package_source(other).identity


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("github:acme/tools#board", "github:acme/tools#poll"),
        ("github:acme/tools", "github:acme/tools#poll"),
        ("https://git.test/a/b.git", "https://git.test/A/b.git"),
        ("https://git.test/a/b.git", "https://git.test:8443/a/b.git"),
    ],
)
def test_different_packages_have_different_identities(one: str, other: str) -> None:
    assert parse_package_source(one).identity != parse_package_source(other).identity


def git(text: str) -> GitSource:
    source = parse_package_source(text)
    assert isinstance(source, GitSource)
    return source


def test_subpaths_share_a_checkout_only_at_the_same_ref() -> None:
    board, poll = git("github:acme/tools@v1#board"), git("github:acme/tools@v1#poll")
    newer, elsewhere = git("github:acme/tools@v2#board"), git("github:other/tools@v1#board")

    assert board.checkout == poll.checkout == "tools-301052b52c00bd34"
    assert len({board.checkout, newer.checkout, elsewhere.checkout}) == 3
    assert len({source.skills for source in (board, poll, newer, elsewhere)}) == 4


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Board", "board"),
        ("acme_follow.up", "acme-follow-up"),
        ("...", "package"),
        ("checkouts", "checkouts-package"),
        ("x" * 60, "x" * 40),
        ("y" * 39 + "-z", "y" * 39),
    ],
)
def test_a_slug_fits_paths_and_object_names(name: str, slug: str) -> None:
    assert slugify(name) == slug


def resolved(everywhere: list[str], here: list[str]) -> tuple[list[str], list[str], tuple[str, ...]]:
    found = DeclaredPackages(tuple(everywhere), tuple(here)).resolve()
    active = [f"{package.scope} {package.source}" for package in found.active]
    return active, [str(package.source) for package in found.shadowed], found.faults


def test_both_scopes_add_up_global_ones_first() -> None:
    assert resolved(["github:acme/audit"], ["github:acme/board"]) == (
        ["global github:acme/audit", "office github:acme/board"],
        [],
        (),
    )


def test_the_offices_own_ref_wins_and_the_global_one_is_shown_as_shadowed() -> None:
    assert resolved(["github:acme/audit@v1", "github:acme/board@v1"], ["github:acme/audit@v2"]) == (
        ["global github:acme/board@v1", "office github:acme/audit@v2"],
        ["github:acme/audit@v1"],
        (),
    )


def test_a_package_is_loaded_once_and_a_repeat_is_told() -> None:
    assert resolved(["github:acme/audit", "https://github.com/acme/audit.git@v2"], []) == (
        ["global github:acme/audit"],
        [],
        ("github:acme/audit@v2: declared twice; github:acme/audit comes first",),
    )


def test_no_two_packages_share_a_name() -> None:
    assert resolved(["github:acme/board"], ["github:other/board"]) == (
        ["global github:acme/board"],
        [],
        ("github:other/board: the name board is taken by github:acme/board",),
    )


def test_one_broken_source_takes_no_other_with_it_and_shows_no_password() -> None:
    active, _, faults = resolved(["https://me:hunter2@git.test/a.git", "github:acme/board"], [])

    assert active == ["global github:acme/board"]
    assert faults == ("https://***@git.test/a.git: a package source holds no user name or password",)
    assert shown("https://a@b:c@git.test/x") == "https://***@git.test/x"
    assert shown("https://user:hunter/2@git.test/x") == "https://***@git.test/x"
    assert shown("https://git.test/x.git?token=hunter2") == "https://git.test/x.git"


def test_the_order_of_scopes_is_known_to_every_package() -> None:
    found = DeclaredPackages(("github:acme/board",), ()).resolve()

    assert [(p.scope, p.slug) for p in found.active] == [(Scope.GLOBAL, "board")]


def test_the_lists_cross_a_process_boundary_unchanged() -> None:
    declared = DeclaredPackages(("github:acme/audit",), ("not a source", "/mikan/packages/local/x"))

    assert parse_declared(build_declared(declared)) == declared
    assert bool(declared)
    assert not DeclaredPackages()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"global": [], "office": "x"}', '{"global": [1], "office": []}'])
def test_what_are_no_lists_is_refused(text: str) -> None:
    with pytest.raises(InvalidPackage, match="not the lists"):
        parse_declared(text)


def test_adding_a_package_again_moves_its_ref_and_keeps_its_place() -> None:
    sources = ("github:acme/audit@v1", "broken", "github:acme/board")

    assert with_source(sources, parse_package_source("github:acme/audit@v2")) == (
        "github:acme/audit@v2",
        "broken",
        "github:acme/board",
    )
    assert with_source(sources, parse_package_source("github:acme/new")) == (*sources, "github:acme/new")

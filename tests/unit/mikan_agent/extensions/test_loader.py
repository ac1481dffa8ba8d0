"""Extensions load apart from each other, afresh, and break nothing but themselves."""

import asyncio
import sys

import pytest

from extension_world import SHORT, ExtensionWorld
from mikan_agent.extensions.calls import Limits
from mikan_agent.extensions.loader import LoadedExtensions

NOTES = """
    def activate(api):
        def note(line):
            with (api.paths.data_dir / "notes").open("a") as file:
                file.write(line + "\\n")
        note({0!r})
        api.on_dispose(lambda: note("disposed {0}"))
        return lambda: note("returned {0}")
"""


async def test_each_is_activated_once_in_order(world: ExtensionWorld) -> None:
    world.write("a/extension.py", NOTES.format("a"))
    world.write("b/extensions/one.py", NOTES.format("one"))
    world.write("b/extensions/two/__init__.py", NOTES.format("two").replace("def activate", "async def activate"))
    extensions = await world.load("a", "b")

    assert extensions.slugs == ("a", "one", "two")
    assert [world.notes(name) for name in ("a", "one", "two")] == [["a"], ["one"], ["two"]]


async def test_disposers_run_once_the_last_one_first(world: ExtensionWorld) -> None:
    world.write(
        "a/extension.py",
        """
        from pathlib import Path

        def activate(api):
            for name in ("one", "two"):
                api.on_dispose(lambda name=name: note(api, name))
            async def returned(): note(api, "returned")
            return returned

        def note(api, line):
            with (api.paths.shared_data_dir.parents[1] / "notes").open("a") as file:
                file.write(api.slug + " " + line + "\\n")
        """,
    )
    world.write("b/extension.py", (world.root / "packages/a/extension.py").read_text())
    extensions = await world.load("a", "b")

    await extensions.dispose()
    await extensions.dispose()
    assert (world.root / "shared" / "notes").read_text().splitlines() == [
        "b returned",
        "b two",
        "b one",
        "a returned",
        "a two",
        "a one",
    ]


async def test_a_disposer_that_fails_or_hangs_keeps_no_other_from_its_turn(
    world: ExtensionWorld, caplog: pytest.LogCaptureFixture
) -> None:
    world.write(
        "a/extension.py",
        """
        import asyncio

        async def activate(api):
            async def last(): (api.paths.data_dir / "notes").write_text("released")
            async def hangs(): await asyncio.Event().wait()
            async def fails(): raise RuntimeError("oops")
            for disposer in (last, hangs, fails):
                api.on_dispose(disposer)
        """,
    )
    extensions = await world.load("a", limits=SHORT)
    caplog.clear()

    await extensions.dispose()
    assert world.notes("a") == ["released"]
    assert ["TookTooLong" in r.getMessage() for r in caplog.records] == [False, True]


BROKEN = {
    "1 / 0": "not activated: ZeroDivisionError: division by zero",
    "import board": "not activated: ModuleNotFoundError: No module named 'board'",
    "raise SystemExit(3)": "not activated: Ended: raised SystemExit",
    "activate = 7": "not activated: ExtensionError: it defines no function activate(api)",
}


@pytest.mark.parametrize("line", BROKEN)
async def test_what_cannot_be_imported_is_named_and_the_others_load(world: ExtensionWorld, line: str) -> None:
    world.write("a/extension.py", f"def activate(api): ...\n{line}\n")
    world.write("a/board.py", "")
    world.write("b/extension.py", NOTES.format("b"))
    extensions = await world.load("a", "b")

    assert [str(d) for d in extensions.diagnostics] == [f"a: {BROKEN[line]}"]
    assert extensions.slugs == ("b",)


async def test_what_a_failed_activation_opened_is_released(world: ExtensionWorld) -> None:
    world.secret("a", TOKEN="hunter2")
    world.write(
        "a/extension.py",
        """
        def activate(api):
            (api.paths.data_dir / "notes").write_text("open\\n")
            api.on_dispose(lambda: (api.paths.data_dir / "notes").write_text("closed"))
            raise RuntimeError("no answer with " + api.secrets.get("TOKEN"))
        """,
    )
    extensions = await world.load("a")

    assert [str(d) for d in extensions.diagnostics] == ["a: not activated: RuntimeError: no answer with ***"]
    assert world.notes("a") == ["closed"]


async def test_an_activation_that_hangs_is_given_up_and_may_register_nothing_later(world: ExtensionWorld) -> None:
    world.write(
        "a/extension.py",
        """
        import asyncio

        async def activate(api):
            try:
                await asyncio.Event().wait()
            finally:
                api.register_command("late", "d", print)
        """,
    )
    extensions = await world.load("a", limits=Limits(activate=0.3))

    assert [str(d) for d in extensions.diagnostics] == ["a: activation did not end within 0.3 s"]
    assert extensions.commands.all == ()


async def test_modules_of_two_packages_do_not_meet(world: ExtensionWorld) -> None:
    for package in ("a", "b"):
        world.write(f"{package}/extension.py", "from .board import activate\n")
        world.write(f"{package}/board.py", NOTES.format(package))
    extensions = await world.load("a", "b")

    assert extensions.diagnostics == ()
    assert (world.notes("a"), world.notes("b")) == (["a"], ["b"])
    assert "board" not in sys.modules


async def test_a_reload_gives_fresh_code_and_leaves_nothing_of_the_old(world: ExtensionWorld) -> None:
    before = set(sys.modules)
    for word in ("one", "two"):
        world.write("a/extension.py", "from .board import activate\n")
        world.write("a/board.py", NOTES.format(word))
        extensions = await world.load("a")
        await extensions.dispose()

    assert world.notes("a") == ["one", "returned one", "disposed one", "two", "returned two", "disposed two"]
    assert {name for name in set(sys.modules) - before if "mikan_extension" in name} == set()


async def test_two_runners_have_an_extension_each(world: ExtensionWorld) -> None:
    world.write("a/extension.py", "count = []\n" + "def activate(api): count.append(1); api.log(str(len(count)))\n")
    first, second = await world.load("a"), await world.load("a")

    assert (first.slugs, second.slugs) == (("a",), ("a",))
    await first.dispose()
    assert [name for name in sys.modules if name.startswith("mikan_extension_")]
    await second.dispose()


async def test_one_name_is_loaded_once(world: ExtensionWorld) -> None:
    world.write("a/extensions/board.py", NOTES.format("a"))
    world.write("board/extension.py", NOTES.format("board"))
    extensions = await world.load("a", "board")

    assert extensions.slugs == ("board",)
    assert world.notes("board") == ["a"]
    assert [str(d) for d in extensions.diagnostics] == [
        "board: the package a has an extension of this name already; this one is left out"
    ]


async def test_extensions_of_one_package_read_the_packages_secret(world: ExtensionWorld) -> None:
    world.secret("kit", TOKEN="hunter2")
    world.write(
        "kit/extensions/one.py", "def activate(api): api.register_command(api.secrets.get('TOKEN'), 'd', print)"
    )
    extensions = await world.load("kit")

    assert [command.name for command in extensions.commands.all] == ["hunter2"]


async def test_skills_are_listed_with_the_path_that_commands_see(world: ExtensionWorld) -> None:
    world.write("kit/extensions/one/extension.py", "def activate(api): ...")
    world.write("kit/extensions/one/skills/inner/SKILL.md", "x")
    world.write("kit/skills/outer/SKILL.md", "x")
    extensions = await world.load("kit")

    assert [(skills.directory, str(skills.shown)) for skills in extensions.skills] == [
        (world.root / "packages/kit/skills", "/mikan/packages/kit/skills"),
        (world.root / "packages/kit/extensions/one/skills", "None"),
    ]


async def test_a_load_that_is_cancelled_releases_what_was_active(world: ExtensionWorld) -> None:
    world.write("a/extension.py", NOTES.format("a"))
    world.write(
        "b/extension.py",
        """
        import asyncio

        async def activate(api):
            (api.paths.data_dir / "notes").write_text("activating")
            await asyncio.Event().wait()
        """,
    )
    loading: asyncio.Task[LoadedExtensions] = asyncio.create_task(world.load("a", "b"))
    async with asyncio.timeout(30):
        while not world.notes("b"):  # noqa: ASYNC110  a file that the extension writes
            await asyncio.sleep(0.01)
    loading.cancel()

    with pytest.raises(asyncio.CancelledError):
        await loading
    assert world.notes("a") == ["a", "returned a", "disposed a"]

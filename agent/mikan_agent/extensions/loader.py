"""Loading the extensions of a runner, and letting go of them.

Whatever goes wrong in one extension is a diagnostic that names it; the others load, and so does the runner.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from mikan_agent.extensions.api import ExtensionApi
from mikan_agent.extensions.commands import ExtensionCommands
from mikan_agent.extensions.exceptions import TookTooLong
from mikan_agent.extensions.extension import Diagnostic, Extension
from mikan_agent.extensions.hooks import ExtensionHooks
from mikan_agent.extensions.importing import ImportedExtension
from mikan_agent.extensions.log import told
from mikan_agent.extensions.packages import Located, LocatedPackage, SkillDirectory
from mikan_agent.extensions.ports import ExtensionHost
from mikan_agent.extensions.registry import Disposer, Registry
from mikan_agent.extensions.tools import ExtensionTool
from mikan_api.package_contents import FoundExtension

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Loaded:
    extension: Extension
    imported: ImportedExtension


class LoadedExtensions:
    """All extensions of one runner."""

    def __init__(
        self,
        registry: Registry,
        loaded: Sequence[_Loaded],
        skills: Sequence[SkillDirectory],
        found: Sequence[Diagnostic],
    ) -> None:
        self._registry, self._loaded, self._found = registry, list(loaded), tuple(found)
        self.hooks = ExtensionHooks(registry)
        """For the turn loop."""
        self.commands = ExtensionCommands(registry.commands)
        """For texts that begin with a slash and are no built-in command."""
        self.skills = tuple(skills)
        """Directories for the skills index, below an office's and the workspace's own."""

    @property
    def slugs(self) -> tuple[str, ...]:
        """Active extensions, in the order of their activation."""
        return tuple(one.extension.slug for one in self._loaded)

    @property
    def tools(self) -> tuple[ExtensionTool, ...]:
        """For the toolbox, beside the built-in ones."""
        return tuple(self._registry.tools.values())

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What could not be loaded, and why."""
        return (*self._found, *self._registry.diagnostics)

    async def dispose(self) -> None:
        """Run the disposers, the last registered one first, and forget the code. Harmless when repeated."""
        loaded, self._loaded = self._loaded, []
        await _run_disposers(self._registry.take_disposers())
        for one in loaded:
            _forget(one)


async def load_extensions(located: Located, host: ExtensionHost) -> LoadedExtensions:
    """Import and activate every extension of the packages that are there, in order."""
    registry = Registry(host.builtin_tools)
    loaded: list[_Loaded] = []
    diagnostics = list(located.diagnostics)
    try:
        for package, found in _each(located.packages, diagnostics):
            one = _Loaded(Extension.of(found.slug, package.slug, host.secrets, host.limits), ImportedExtension(found))
            loaded.append(one)
            if fault := await _activated(one, registry, host):
                loaded.remove(one)
                diagnostics.append(Diagnostic(found.slug, fault))
    except BaseException:
        await LoadedExtensions(registry, loaded, (), ()).dispose()
        raise
    skills = [skill for package in located.packages for skill in package.skills]
    result = LoadedExtensions(registry, loaded, skills, diagnostics)
    for diagnostic in result.diagnostics:
        logger.warning("extensions: %s", diagnostic)
    return result


def _each(
    packages: Sequence[LocatedPackage], diagnostics: list[Diagnostic]
) -> Sequence[tuple[LocatedPackage, FoundExtension]]:
    """Each extension once: data and schedules go by its slug."""
    taken: dict[str, str] = {}
    found: list[tuple[LocatedPackage, FoundExtension]] = []
    for package in packages:
        for extension in package.extensions:
            if extension.slug in taken:
                text = (
                    f"the package {taken[extension.slug]} has an extension of this name already; this one is left out"
                )
                diagnostics.append(Diagnostic(extension.slug, text))
            else:
                taken[extension.slug] = package.slug
                found.append((package, extension))
    return found


async def _activated(one: _Loaded, registry: Registry, host: ExtensionHost) -> str:
    """Activate an extension; why it could not be, if it could not. Nothing of it is left then."""
    extension = one.extension
    try:
        activate = await extension.call(one.imported.load, seconds=host.limits.activate)
        api = ExtensionApi(extension, registry, host)
        disposer = await extension.call(activate, api, seconds=host.limits.activate)
        if disposer is not None:
            registry.add_disposer(extension, disposer)
    except Exception as error:  # noqa: BLE001  an extension breaks nothing else
        extension.log.failed("activation", error)
        await _run_disposers(registry.withdraw(extension)[::-1])
        _forget(one)
        what = "activation" if isinstance(error, TookTooLong) else f"not activated: {type(error).__name__}:"
        return extension.secrets.mask(f"{what} {told(error)}")[:500]
    return ""


async def _run_disposers(disposers: Sequence[tuple[Extension, Disposer]]) -> None:
    for extension, disposer in disposers:
        try:
            await extension.call(disposer, seconds=extension.limits.dispose)
        except Exception as error:  # noqa: BLE001  the others must have their turn
            extension.log.failed("a disposer", error)


def _forget(one: _Loaded) -> None:
    one.extension.active = False
    one.extension.caller.close()
    one.imported.forget()

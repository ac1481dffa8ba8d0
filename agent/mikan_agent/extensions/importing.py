"""An extension's code as modules of its own: no name is shared with another package, and every load is fresh.

An entrypoint in a directory is the package of that directory's modules, so ``from .board import Board`` works and
``import board`` does not. Dependencies are not installed: what the agent's image has is there.
"""

import importlib
import itertools
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

from mikan_agent.extensions.exceptions import ExtensionError
from mikan_api.package_contents import FoundExtension

_numbers = itertools.count(1)


class ImportedExtension:
    """A loaded entrypoint."""

    def __init__(self, found: FoundExtension) -> None:
        self._found = found
        self.name = f"mikan_extension_{next(_numbers)}_{found.slug.replace('-', '_')}"

    def load(self) -> Callable[[Any], Any]:
        """Import it and return its ``activate``. Blocking.

        Raises:
            ExtensionError: it has no usable ``activate``.
            Exception: whatever its top level raises.
        """
        importlib.invalidate_caches()
        directory = self._found.directory
        spec = spec_from_file_location(
            self.name, self._found.entrypoint, submodule_search_locations=[str(directory)] if directory else None
        )
        if spec is None or spec.loader is None:
            raise ExtensionError(f"{self._found.entrypoint.name} can't be imported")
        module = module_from_spec(spec)
        sys.modules[self.name] = module
        spec.loader.exec_module(module)
        return _activate(module)

    def forget(self) -> None:
        """Take its modules out of the process."""
        for name in [n for n in sys.modules if n == self.name or n.startswith(f"{self.name}.")]:
            del sys.modules[name]


def _activate(module: ModuleType) -> Callable[[Any], Any]:
    activate = getattr(module, "activate", None)
    if not callable(activate):
        raise ExtensionError("it defines no function activate(api)")
    function: Callable[[Any], Any] = activate
    return function

"""``python -m mikan_operator.uninstall``: takes our finalizer off every Office, once no operator is left to honour it.

The chart runs it after an uninstall, so that Offices deleted later do not wait for a clean-up that will never come.
Their data stays on the volume. A new install puts the finalizer back where ``dataRetention: Delete`` asks for it.
"""

import asyncio
import logging
import os
import sys

from mikan_api import names
from mikan_api.environment import Environment
from mikan_api.exceptions import ConfigError
from mikan_api.logs import configure_logging
from mikan_operator.exceptions import ApiError, NotFound
from mikan_operator.storage.kinds import OFFICE
from mikan_operator.storage.kubernetes import KubernetesApi, connect, load_configuration

logger = logging.getLogger(__name__)


async def strip_finalizers(store: KubernetesApi) -> list[str]:
    """Take the finalizer off; returns the names of the Offices that had it. Another's finalizer is left alone."""
    stripped = []
    for office in await store.list_all(OFFICE):
        metadata = office["metadata"]
        if names.FINALIZER in metadata.get("finalizers", ()):
            try:
                await store.apply(OFFICE, metadata["name"], {"metadata": {"uid": metadata["uid"]}})
            except NotFound:
                continue
            stripped.append(metadata["name"])
    return stripped


async def run(namespace: str) -> None:
    """Strip the finalizers of a namespace."""
    async with connect(await load_configuration()) as api:
        try:
            stripped = await strip_finalizers(KubernetesApi(api, namespace))
        except NotFound:
            stripped = []  # the CustomResourceDefinitions went with the chart
    logger.info("finalizers stripped", extra={"offices": stripped})


def main() -> int:
    """Returns 2 for a wrong configuration, 1 where a repetition may help."""
    configure_logging("uninstall")
    try:
        asyncio.run(run(Environment(os.environ).required("MIKAN_OFFICES_NAMESPACE")))
    except (ConfigError, ApiError) as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, ConfigError) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

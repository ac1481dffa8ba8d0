"""Kopf as the watcher, and as nothing else: it reconnects watches and hands over each event.

No handler here makes kopf keep state in an object: no finalizer, no annotation, no timer, no daemon, no peering, and
no Event of its own (architecture section 4, point 8).
"""

import logging
from typing import Any

import kopf

from mikan_operator.intake import Intake
from mikan_operator.storage.kinds import Kind
from mikan_operator.watches import SELECTORS, Watches

SERVER_TIMEOUT = 300
"""Whole seconds: the API server takes no fraction."""
INACTIVITY_TIMEOUT = 70.0
CONNECT_TIMEOUT = 10.0
ERROR_BACKOFFS = (0.5, 1.0, *(2.0,) * 30)
"""Seconds between tries of a request. Kopf's own grow to 21 s, which is then the time until a new office is seen."""


def build_registry(intake: Intake, watches: Watches) -> kopf.OperatorRegistry:
    """One event handler for each watched kind, and the login."""
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry, id="login", errors=kopf.ErrorsMode.PERMANENT)(_login)
    for kind in SELECTORS:
        _watch(registry, kind, intake, watches)
    return registry


def _login(**kwargs: Any) -> Any:
    return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)


def _watch(registry: kopf.OperatorRegistry, kind: Kind, intake: Intake, watches: Watches) -> None:
    async def observe(event: Any, **_: Any) -> None:
        watches.delivered(kind)
        intake.observe(kind, event["object"], deleted=event["type"] == "DELETED")

    selector = (kind.group, kind.version, kind.plural) if kind.group else (kind.version, kind.plural)
    kopf.on.event(*selector, registry=registry, id=f"watch-{kind.plural}")(observe)


def build_settings() -> kopf.OperatorSettings:
    """Kopf with everything off but the watches, and those with limits on silence."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.execution.max_workers = 1
    settings.networking.error_backoffs = ERROR_BACKOFFS
    settings.watching.server_timeout = SERVER_TIMEOUT
    settings.watching.client_timeout = SERVER_TIMEOUT + 30
    settings.watching.connect_timeout = CONNECT_TIMEOUT
    settings.watching.inactivity_timeout = INACTIVITY_TIMEOUT
    for kind, labels in SELECTORS.items():
        if labels:
            settings.watching.label_selectors[kind.version, kind.plural] = labels
    # Kopf logs each event with its object, at debug level, and that it was handled: a Secret is one such object.
    logging.getLogger("kopf").setLevel(logging.WARNING)
    return settings

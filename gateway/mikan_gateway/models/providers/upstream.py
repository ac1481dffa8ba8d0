"""What an upstream's refusal becomes for the client: one owner of status, code and message, whatever the provider."""

import re

import httpx

from mikan_gateway.models.exceptions import UpstreamFailed

MAX_MESSAGE = 1000
_OVERFLOW = re.compile(
    r"context[ _]length|context window|maximum context|prompt is too long|too many (input )?tokens|"
    r"input (length|token count).{0,40}exceed|exceeds? the (model's )?(maximum|max)\b.{0,30}tokens",
    re.IGNORECASE,
)
_CODE = re.compile(r"[a-z0-9_.-]{1,64}")


class Refusals:
    """Builds errors about one provider; its secrets never show in them."""

    def __init__(self, provider: str, secrets: list[str]) -> None:
        self._provider = provider
        self._secrets = sorted((s for s in secrets if len(s) >= 4), key=len, reverse=True)

    def refused(self, status: int, code: str, message: str, retry_after: str | None = None) -> UpstreamFailed:
        """The error for a refusal with an HTTP status. ``code`` and ``message`` are the upstream's own."""
        said = self.clean(message)
        code = code if _CODE.fullmatch(code) else ""
        if status in {401, 403}:
            # Upstreams quote the key here, masked more or less.
            name = "provider_key_refused" if status == 401 else "provider_forbidden"
            text = f"provider {self._provider} refused the key it is configured with; an admin must replace it"
            return UpstreamFailed(status, "authentication_error", name, text)
        if status in {400, 413, 422} and (code == "context_length_exceeded" or _OVERFLOW.search(said)):
            return UpstreamFailed(400, "invalid_request_error", "context_length_exceeded", said)
        if status == 404:
            return UpstreamFailed(404, "invalid_request_error", "model_not_found", said)
        if status == 429:
            return UpstreamFailed(429, "rate_limit_error", code or "rate_limit_exceeded", said, _wait(retry_after))
        if status in {408, 504}:
            return UpstreamFailed(504, "upstream_error", "upstream_timeout", said, _wait(retry_after))
        if status >= 500:
            return UpstreamFailed(min(status, 599), "upstream_error", code or "server_error", said, _wait(retry_after))
        if 400 <= status < 500:
            return UpstreamFailed(status, "invalid_request_error", code or "upstream_refused", said)
        return UpstreamFailed(502, "upstream_error", "server_error", f"{said} (HTTP status {status})")

    def unreachable(self, error: Exception) -> UpstreamFailed:
        """The error for no connection. Its name says enough; its text may hold the address."""
        if isinstance(error, httpx.TimeoutException):
            message = f"provider {self._provider} did not answer in time ({type(error).__name__}); try again"
            return UpstreamFailed(504, "upstream_error", "upstream_timeout", message)
        message = f"provider {self._provider} cannot be reached ({type(error).__name__}); an admin checks its apiBase"
        return UpstreamFailed(502, "upstream_error", "upstream_unreachable", message)

    def clean(self, message: str) -> str:
        """An upstream's message, short, on printable lines, without secrets, and with its origin."""
        for secret in self._secrets:
            message = message.replace(secret, "***")
        message = "".join(c if c.isprintable() else " " for c in message)[:MAX_MESSAGE].strip()
        return f"{self._provider}: {message or 'no reason given'}"


def _wait(value: str | None) -> str | None:
    """A ``retry-after`` that can be passed on as a header."""
    return value if value and re.fullmatch(r"[\w ,:.+-]{1,64}", value, re.ASCII) else None

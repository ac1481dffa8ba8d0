"""The HTTP client that talks to our own services. Imported where it is needed, after the first connection."""

import ssl

import httpx


def open_client(url: str, timeout: httpx.Timeout) -> httpx.AsyncClient:
    """A client for one service. No proxies or other settings of the environment: these services are in the cluster."""
    # Reading the certificate store takes 0.1 s, and a plain address has no use for it.
    verify = ssl.create_default_context() if url.startswith("https://") else False
    limits = httpx.Limits(max_connections=None, keepalive_expiry=4.0)
    return httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=False, verify=verify)

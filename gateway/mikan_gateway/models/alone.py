"""``python -m mikan_gateway.models.alone``: the models process for one office on this machine, with no cluster.

For the development of extensions. Listens on the loopback interface, writes the office's token to a file that only this
user may read, prints its address as one line, and ends with standard input, hence with whoever started it.
"""

import argparse
import asyncio
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mikan_api.environment import Listen
from mikan_api.identity import OfficeKey, parse_office_key
from mikan_api.logs import configure_logging
from mikan_api.tokens import OfficeClaims, issue_token
from mikan_gateway.models.config import Config, ModelsConfig, ProviderEntry
from mikan_gateway.models.process import DefaultSettings, ModelsProcess, Server, listener

_UID = "alone"
GIVEN = "given"
"""Provider of the upstream that was named."""


@dataclass(frozen=True, slots=True)
class OneOffice:
    """An `OfficeLookup` that knows one office."""

    key: OfficeKey
    listed: bool = True

    def get(self, key: OfficeKey) -> tuple[str, int] | None:
        """Uid and epoch."""
        return (_UID, 0) if key == self.key else None

    def fault(self) -> str:
        """Nothing can go wrong."""
        return ""


async def serve(office: OfficeKey, token_file: Path, directory: Path, models: ModelsConfig, keys: Path) -> None:
    """Serve until standard input ends."""
    config = Config(
        offices_namespace="",
        settings_dir=directory,
        keys_dir=directory / "keys",
        models_config=directory / "models.json",
        models_keys_dir=keys,
        listen=Listen("127.0.0.1", 0),
        log_level="WARNING",
    )
    key = secrets.token_bytes(32)
    config.keys_dir.mkdir()
    (config.keys_dir / "current").write_bytes(key)
    config.models_config.write_text(models.model_dump_json(by_alias=True, exclude_none=True))
    _write_private(token_file, issue_token(key, "models", OfficeClaims(office, _UID, 0)))
    process = ModelsProcess(config, OneOffice(office), DefaultSettings())
    server = Server(listener(process.app, config))
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()  # whoever is told the address may dial at once
        serving = asyncio.create_task(server.serve([listening]))
        sys.stdout.write(f"http://127.0.0.1:{listening.getsockname()[1]}\n")
        sys.stdout.flush()
        await _input_ended()
        server.should_exit = True
        await serving


async def _input_ended() -> None:
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    try:
        while await reader.read(1024):
            pass
    finally:
        transport.close()


def _write_private(file: Path, text: str) -> None:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as opened:
        opened.write(text)


def main(arguments: Sequence[str]) -> int:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="mikan_gateway.models.alone", allow_abbrev=False)
    parser.add_argument("--office", required=True, type=parse_office_key, help="key of the one office")
    parser.add_argument("--token-file", required=True, type=Path, help="where to write its token")
    parser.add_argument("--api-base", help="an OpenAI-compatible upstream, up to and with /v1; its models are given/…")
    parser.add_argument("--key-file", type=Path, help="file with the upstream's key")
    asked = parser.parse_args(arguments)
    configure_logging("models", "WARNING")
    providers = {"scripted": ProviderEntry(kind="scripted")}
    if asked.api_base:
        key_file = asked.key_file.name if asked.key_file else None
        providers[GIVEN] = ProviderEntry(kind="openai", api_base=asked.api_base, key_file=key_file)
    with tempfile.TemporaryDirectory(prefix="mikan-models-") as directory:
        keys = asked.key_file.resolve().parent if asked.key_file else Path(directory)
        asyncio.run(serve(asked.office, asked.token_file, Path(directory), ModelsConfig(providers=providers), keys))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

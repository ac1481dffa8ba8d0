"""A store of images in the OCI image layout, and layers that are built once per key.

Blobs are named by their digest, so images that share a layer share its file. One process changes the store at a
time: `ImageStore.locked` is held for a whole build. Source: OCI image layout specification 1.0.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

OCI = "application/vnd.oci.image."
NAME_ANNOTATION = "io.containerd.image.name"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Blob:
    """A file of the store: its digest (`sha256:…`) and its size in bytes."""

    digest: str
    size: int


class ImageStore:
    """Images below one directory, readable by any tool that knows the OCI layout."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._blobs = root / "blobs" / "sha256"
        self._keys = root / "layers"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the store alone; others wait."""
        for directory in (self._blobs, self._keys):
            directory.mkdir(parents=True, exist_ok=True)
        with (self._root / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def layer(self, key: str, build: Callable[[Path], None]) -> Blob:
        """Layer known by ``key``; ``build`` writes its tar to the given path only when the store lacks it."""
        marker = self._keys / hashlib.sha256(key.encode()).hexdigest()
        if marker.exists():
            known = Blob(**json.loads(marker.read_text()))
            if self.path(known).exists():
                marker.touch()
                return known
        fresh = self._root / "layer.tmp"
        build(fresh)
        with fresh.open("rb") as file:
            blob = Blob("sha256:" + hashlib.file_digest(file, "sha256").hexdigest(), fresh.stat().st_size)
        fresh.rename(self.path(blob))
        marker.write_text(json.dumps(vars(blob)))
        return blob

    def path(self, blob: Blob) -> Path:
        """Where a blob is, or would be."""
        return self._file(blob.digest)

    def put(self, name: str, config: Mapping[str, object], layers: Sequence[Blob]) -> None:
        """Name an image, lowest layer first; an earlier image of that name is replaced and its own blobs go."""
        image = {
            "architecture": ARCHITECTURES[platform.machine()],
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in layers]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": OCI + "manifest.v1+json",
            "config": self._put_json(OCI + "config.v1+json", image),
            "layers": [{"mediaType": OCI + "layer.v1.tar", **vars(layer)} for layer in layers],
        }
        entry = {**self._put_json(OCI + "manifest.v1+json", manifest), "annotations": {NAME_ANNOTATION: name}}
        others = [other for other in self._index() if other["annotations"][NAME_ANNOTATION] != name]
        self._write_index([*others, entry])
        self._collect()

    def names(self) -> list[str]:
        """Names of all images."""
        return [entry["annotations"][NAME_ANNOTATION] for entry in self._index()]

    def archive(self, names: Collection[str], out: BinaryIO, *, without: Collection[str] = ()) -> None:
        """Write images as one tar that `ctr images import` reads, less the blobs that its reader has already.

        Raises:
            KeyError: There is no image of one of the names.
        """
        by_name = {entry["annotations"][NAME_ANNOTATION]: entry for entry in self._index()}
        entries = [by_name[name] for name in names]
        with tarfile.open(fileobj=out, mode="w|") as tar:
            _add(tar, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
            for digest in sorted({digest for entry in entries for digest in self._reachable(entry)}):
                if digest not in without:
                    tar.add(self._file(digest), "blobs/sha256/" + digest.removeprefix("sha256:"))
            _add(tar, "index.json", json.dumps(_index_of(entries)).encode())

    def _file(self, digest: str) -> Path:
        return self._blobs / digest.removeprefix("sha256:")

    def _put_json(self, kind: str, value: Mapping[str, object]) -> dict[str, Any]:
        data = json.dumps(value).encode()
        digest = "sha256:" + hashlib.sha256(data).hexdigest()
        self._file(digest).write_bytes(data)
        return {"mediaType": kind, "digest": digest, "size": len(data)}

    def _index(self) -> list[dict[str, Any]]:
        index = self._root / "index.json"
        manifests: list[dict[str, Any]] = json.loads(index.read_text())["manifests"] if index.exists() else []
        return manifests

    def _write_index(self, entries: Sequence[Mapping[str, Any]]) -> None:
        (self._root / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
        fresh = self._root / "index.json.tmp"
        fresh.write_text(json.dumps(_index_of(entries)))
        fresh.rename(self._root / "index.json")

    def _reachable(self, entry: Mapping[str, Any]) -> Iterator[str]:
        manifest = json.loads(self._file(entry["digest"]).read_text())
        yield entry["digest"]
        yield manifest["config"]["digest"]
        for layer in manifest["layers"]:
            yield layer["digest"]

    def _collect(self) -> None:
        """Remove what no image uses, except the layers used last: a build under way has not named its image yet."""
        used = {digest for entry in self._index() for digest in self._reachable(entry)}
        used |= {json.loads(marker.read_text())["digest"] for marker in self._recent_keys()}
        for blob in self._blobs.iterdir():
            if "sha256:" + blob.name not in used:
                blob.unlink()

    def _recent_keys(self) -> list[Path]:
        """Keys of the layers used last, newest first: more than one build of every image takes."""
        return sorted(self._keys.iterdir(), key=lambda key: key.stat().st_mtime, reverse=True)[:24]


def _index_of(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"schemaVersion": 2, "mediaType": OCI + "index.v1+json", "manifests": list(entries)}


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))

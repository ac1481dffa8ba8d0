"""Layers are built once, images share them, and archives hold what their reader lacks."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from mikan_dev.oci import Blob, ImageStore


@pytest.fixture
def store(tmp_path: Path) -> ImageStore:
    store = ImageStore(tmp_path / "oci")
    with store.locked():
        return store


def content(data: bytes) -> Callable[[Path], None]:
    def write(out: Path) -> None:
        out.write_bytes(data)

    return write


def members(store: ImageStore, names: list[str], without: set[str] | None = None) -> dict[str, bytes]:
    buffer = io.BytesIO()
    store.archive(names, buffer, without=without or set())
    buffer.seek(0)
    with tarfile.open(fileobj=buffer) as tar:
        files = {member.name: tar.extractfile(member) for member in tar.getmembers()}
        return {name: file.read() for name, file in files.items() if file is not None}


def test_a_layer_is_named_by_the_digest_of_its_content(store: ImageStore) -> None:
    layer = store.layer("key", content(b"layer"))
    assert layer == Blob("sha256:" + hashlib.sha256(b"layer").hexdigest(), 5)
    assert store.path(layer).read_bytes() == b"layer"


def test_a_layer_of_a_known_key_is_not_built_again(store: ImageStore) -> None:
    first = store.layer("key", content(b"once"))
    assert store.layer("key", content(b"twice")) == first


def test_a_layer_whose_file_is_gone_is_built_again(store: ImageStore) -> None:
    store.path(store.layer("key", content(b"once"))).unlink()
    assert store.path(store.layer("key", content(b"again"))).read_bytes() == b"again"


def test_an_archive_is_a_complete_oci_layout(store: ImageStore) -> None:
    layer = store.layer("key", content(b"layer"))
    store.put("localhost/app:1", {"User": "10001:10001"}, [layer])
    files = members(store, ["localhost/app:1"])
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["annotations"] == {"io.containerd.image.name": "localhost/app:1"}
    manifest = json.loads(files["blobs/sha256/" + entry["digest"].removeprefix("sha256:")])
    assert [layer["digest"] for layer in manifest["layers"]] == [layer.digest]
    config = json.loads(files["blobs/sha256/" + manifest["config"]["digest"].removeprefix("sha256:")])
    assert config["config"] == {"User": "10001:10001"}
    assert config["rootfs"] == {"type": "layers", "diff_ids": [layer.digest]}
    for name, data in files.items():
        if name.startswith("blobs/"):
            assert name == "blobs/sha256/" + hashlib.sha256(data).hexdigest()


def test_a_shared_layer_is_in_an_archive_once(store: ImageStore) -> None:
    base = store.layer("base", content(b"base"))
    for name in ("one", "two"):
        store.put(name, {}, [base, store.layer(name, content(name.encode()))])
    layers = [data for data in members(store, ["one", "two"]).values() if not data.startswith(b"{")]
    assert sorted(layers) == [b"base", b"one", b"two"]


def test_what_the_reader_has_is_left_out(store: ImageStore) -> None:
    base = store.layer("base", content(b"base"))
    store.put("app", {}, [base])
    assert b"base" not in members(store, ["app"], without={base.digest}).values()


def test_an_archive_of_an_unknown_image_is_an_error(store: ImageStore) -> None:
    with pytest.raises(KeyError, match="nothing"):
        store.archive(["nothing"], io.BytesIO())


def test_an_image_put_again_replaces_the_earlier_one(store: ImageStore) -> None:
    store.put("app", {"User": "1"}, [])
    store.put("app", {"User": "2"}, [])
    assert store.names() == ["app"]
    assert any(b'"User": "2"' in data for data in members(store, ["app"]).values())


def test_layers_that_no_image_uses_go_after_later_builds(store: ImageStore) -> None:
    kept = store.layer("kept", content(b"kept"))
    store.put("keeper", {}, [kept])
    superseded = store.layer("old", content(b"old"))
    for number in range(30):
        store.layer(f"new {number}", content(f"new {number}".encode()))
    store.put("app", {}, [])
    assert store.path(kept).exists()
    assert not store.path(superseded).exists()

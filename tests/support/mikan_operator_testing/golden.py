"""Golden files: what a builder makes, as reviewed. ``pytest --update-golden`` rewrites them."""

from pathlib import Path

import yaml

from mikan_operator.storage.kinds import Manifest

DATA = Path(__file__).resolve().parents[2] / "data" / "operator"


class _Plain(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def check_golden(name: str, manifest: Manifest, *, update: bool) -> None:
    """Compare a manifest with its golden file, or rewrite that."""
    file = DATA / f"{name}.yaml"
    text = yaml.dump(manifest, Dumper=_Plain, sort_keys=False, width=110)
    if update:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert file.exists(), f"{file} does not exist; run pytest --update-golden and review it"
    assert text == file.read_text(), f"{file.name} differs; run pytest --update-golden and review the diff"

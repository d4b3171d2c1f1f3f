"""Golden files of the boot data: per distribution, version, role and pod network.

Make them again after a wanted change, and read the difference before committing it:

    .venv/bin/python -m tests.bootstrap.make_golden

Keys and certificates are replaced by the digest of their bytes: a change of them is still seen, and no private key,
not even a test's, lies in the repository.
"""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from bootstrap import BootData, BootInput, boot_data
from domain.clusters import Cni
from tests.bootstrap.examples import BUILT, ROLES, SUPERVISORS, VERSIONS, example_input

FOLDER = Path(__file__).parent / "golden"
_PEM = re.compile(r"-----BEGIN (?P<kind>[A-Z ]+)-----.*?-----END (?P=kind)-----", re.DOTALL)
_BASE64 = re.compile(r"[A-Za-z0-9+/]{120,}={0,2}")


def cases() -> Iterator[tuple[str, BootInput]]:
    """Every golden case: its folder's name and what is rendered."""
    for distribution in BUILT:
        for version in VERSIONS[distribution]:
            for role in ROLES:
                yield f"{distribution.value}/{version}/{role}", example_input(role, distribution, version)
        newest = f"{distribution.value}/{VERSIONS[distribution][0]}"
        for role in ROLES:
            cilium = example_input(role, distribution, cni=Cni.CILIUM, kube_proxy_replacement=True)
            yield f"{newest}/{role}.cilium", cilium
        if distribution not in SUPERVISORS:
            continue
        yield f"{newest}/first-server.calico", example_input("first-server", distribution, cni=Cni.CALICO)
        fetched = example_input("worker", distribution, artifact_url="http://192.0.2.9/programs/", has_programs=False)
        yield f"{newest}/worker.fetching", fetched


def masked(text: str) -> str:
    """Replaces keys and certificates by their digests."""
    text = _PEM.sub(lambda found: f"<{found['kind']} {_digest(found[0])}>", text)
    return _BASE64.sub(lambda found: f"<base64 {_digest(found[0])}>", text)


def golden_texts(data: BootData) -> dict[str, str]:
    """File name to content, as the golden folder has it."""
    return {field.name.replace("_", "-"): masked(getattr(data, field.name)) for field in fields(data)}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def main() -> None:
    """Writes all golden files and removes those of cases that are gone."""
    wanted: set[Path] = set()
    for name, given in cases():
        for file, text in golden_texts(boot_data(given)).items():
            path = FOLDER / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            wanted.add(path)
    for path in FOLDER.rglob("*"):
        if path.is_file() and path not in wanted:
            path.unlink()


if __name__ == "__main__":
    main()

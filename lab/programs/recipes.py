"""Which programs there are, from which modules and with which flags they are built."""

from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
DEFAULT_VERSION = "v1.36.3"
COMPANIONS = {"v1.36": ("3.6.8-0", "v1.14.2", "3.10.2"), "v1.35": ("3.6.6-0", "v1.13.1", "3.10.1")}
"""Tags of etcd, CoreDNS and pause that kubeadm of a minor asks for (its constants, read in v1.36.3 and v1.35.4). The
programs inside are the same for all: etcd 3.6.16, CoreDNS 1.14.2."""


@dataclass(frozen=True)
class Recipe:
    """One program.

    `folder` below lab/programs holds its module; `package` is what is built; `modfile` another go.mod than the
    folder's own (with the .sum beside it); `variables` are set by the linker.
    """

    name: str
    folder: str
    package: str = "."
    modfile: str = "go.mod"
    tags: str = ""
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def sources(self) -> list[Path]:
        """Every file that decides what comes out, in a stable order."""
        folder = HERE / self.folder
        sums = Path(self.modfile).with_suffix(".sum").name
        code = folder / self.package if self.package.startswith("./") else folder
        found = {folder / self.modfile, folder / sums, *code.rglob("*.go")}
        return sorted(path for path in found if path.exists())


def versions() -> list[str]:
    """The Kubernetes versions whose modules are pinned here, newest first."""
    found = [path.stem for path in (HERE / "kube").glob("v*.mod")]
    return sorted(found, key=lambda text: tuple(int(part) for part in text[1:].split(".")), reverse=True)


def kube(version: str) -> Recipe:
    """The multi-call program of Kubernetes.

    Raises:
        ValueError: the version's modules are not pinned.
    """
    if version not in versions():
        raise ValueError(
            f"Kubernetes {version} is not pinned here; known: {', '.join(versions())}. "
            f"Add it with: python -m lab.programs pin --version {version}"
        )
    major, minor, _ = version[1:].split(".")
    said = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": "0" * 40,
        "buildDate": "2026-01-01T00:00:00Z",
    }
    places = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return Recipe(
        f"kube-{version}",
        "kube",
        modfile=f"{version}.mod",
        tags="providerless",
        variables={f"{place}.{key}": value for place in places for key, value in said.items()},
    )


def companions(versions: list[str]) -> dict[str, list[str]]:
    """Tags by image for several Kubernetes versions, the newest minor's always among them.

    Raises:
        ValueError: nobody has read a minor's tags yet.
    """
    minors = {version.rpartition(".")[0] for version in versions} | {DEFAULT_VERSION.rpartition(".")[0]}
    unknown = minors - COMPANIONS.keys()
    if unknown:
        raise ValueError(f"the tags of etcd, CoreDNS and pause of {', '.join(sorted(unknown))} are not written down")
    found = [COMPANIONS[minor] for minor in sorted(minors)]
    return {name: sorted({tags[place] for tags in found}) for place, name in enumerate(("etcd", "coredns", "pause"))}


def others() -> list[Recipe]:
    """The programs that do not depend on the Kubernetes version."""
    return [
        Recipe("pause", "pause"),
        Recipe("etcd", "etcd"),
        Recipe("coredns", "coredns"),
        Recipe("crictl", "crictl", package="sigs.k8s.io/cri-tools/cmd/crictl"),
        Recipe("kube-vip", "standins", package="./kube-vip"),
        Recipe("proxmox-cloud-controller-manager", "standins", package="./proxmox-cloud-controller-manager"),
        Recipe("podnetwork", "standins", package="./podnetwork"),
    ]

"""Settings that are accepted but not built yet are said, each by its condition."""

import pytest

from domain.clusters import Cni, Distribution, Headlamp, OidcProvider, Rancher, UpgradeMode, Upgrades
from domain.conditions import ConditionType, Reason, unbuilt
from tests.domain.builders import spec

QUIET = {"proxmox_ha": False, "rancher": Rancher(registers=False)}
PROVIDER = OidcProvider(issuer_url="https://id.example.org", client_id="k8s")


def types(**changes) -> set[ConditionType]:
    return {one.type for one in unbuilt(spec(**(QUIET | changes)))}


def test_volumes_are_always_said() -> None:
    (one,) = unbuilt(spec(**QUIET))
    assert (one.type, one.status, one.reason) == (ConditionType.VOLUMES_READY, False, Reason.NOT_BUILT_YET)
    assert "volumes" in one.message


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"headlamp": Headlamp(enabled=True)}, ConditionType.HEADLAMP_READY),
        ({"rancher": Rancher(install=True, registers=False)}, ConditionType.RANCHER_READY),
        ({"rancher": Rancher()}, ConditionType.RANCHER_READY),
        ({"proxmox_ha": True}, ConditionType.HIGH_AVAILABILITY_READY),
        ({"upgrades": Upgrades(mode=UpgradeMode.PATCH)}, ConditionType.UPGRADES_READY),
        ({"oidc": (PROVIDER,)}, ConditionType.IDENTITY_READY),
    ],
)
def test_each_setting_has_its_condition(changes, kind) -> None:
    assert types(**changes) == {ConditionType.VOLUMES_READY, kind}


@pytest.mark.parametrize(
    "changes",
    [
        {"oidc": ()},
        {"upgrades": Upgrades()},
        {"headlamp": Headlamp(hostname="lamp.example.org")},
        {"cni": Cni.CALICO},
        {"cni": Cni.CILIUM, "kube_proxy_replacement": True},
        {"distribution": Distribution.K3S, "cni": Cni.CILIUM},
        {"distribution": Distribution.KUBEADM, "cni": Cni.CILIUM, "kube_proxy_replacement": True},
        {"distribution": Distribution.K3S, "cni": Cni.FLANNEL},
        {"distribution": Distribution.K3S},
    ],
)
def test_what_is_not_asked_for_is_not_said(changes) -> None:
    assert types(**changes) == {ConditionType.VOLUMES_READY}


def test_one_condition_of_a_type() -> None:
    everything = unbuilt(
        spec(
            distribution=Distribution.KUBEADM,
            cni=Cni.CILIUM,
            kube_proxy_replacement=True,
            headlamp=Headlamp(enabled=True),
            rancher=Rancher(install=True),
            upgrades=Upgrades(mode=UpgradeMode.MINOR),
            oidc=(PROVIDER,),
        )
    )
    assert len({one.type for one in everything}) == len(everything) == 6

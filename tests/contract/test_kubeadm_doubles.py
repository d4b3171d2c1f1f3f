"""The cases of a kubeadm cluster are worth something: deliberately wrong simulated nodes turn them red.

The cases are those of `test_kubeadm_cluster`, on machines that are simulated in this process.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import pytest_asyncio

from domain.clusters import Distribution
from lab.kube import identity
from lab.nodes import kubelet
from lab.nodes.kubeadm import kubelet_program, tokens, uploads
from tests.contract import test_kubeadm_cluster as cases
from tests.contract.kubeadm_laboratory import KubeadmCluster
from tests.lab.nodes.harness import Simulated, eventually

Case = Callable[[KubeadmCluster], Awaitable[None]]


def forgets_the_taint(patch: pytest.MonkeyPatch) -> None:
    register = kubelet.register

    def without(api: Any, hardware: Any, looks: kubelet.Looks) -> None:
        register(api, hardware, replace(looks, taints=()))

    patch.setattr(kubelet, "register", without)


def accepts_expired_tokens(patch: pytest.MonkeyPatch) -> None:
    """It must not be swept up either, or it would be refused as one that is not there."""
    never_sweeps_tokens_up(patch)
    patch.setattr(identity, "parse_time", lambda text: None)


def never_sweeps_tokens_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tokens, "parse_time", lambda text: None)


def labels_no_server(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(uploads, "mark_control_plane", lambda api, node: api.find("nodes", "", node.name) is not None)


def shows_no_static_pods(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kubelet_program.KubeletProgram, "_mirror", lambda self: None)


def signs_with_another_secret(patch: pytest.MonkeyPatch) -> None:
    """Then nobody joins: what is to be red is the join itself."""
    signature = tokens.signature
    patch.setattr(tokens, "signature", lambda content, identity, secret: f"{signature(content, identity, secret)}.x")


@dataclass(frozen=True)
class Wrong:
    """A fault of the double, and the case that must see it."""

    fault: Callable[[pytest.MonkeyPatch], None]
    case: Case


WRONG = (
    Wrong(forgets_the_taint, cases.test_every_node_waits_for_a_cloud_controller_and_no_server_is_tainted),
    Wrong(accepts_expired_tokens, cases.test_an_expired_token_opens_nothing_and_is_swept_up),
    Wrong(never_sweeps_tokens_up, cases.test_an_expired_token_opens_nothing_and_is_swept_up),
    Wrong(labels_no_server, cases.test_servers_are_labelled_and_workers_are_not),
    Wrong(shows_no_static_pods, cases.test_static_pods_are_mirrored),
    Wrong(signs_with_another_secret, cases.test_a_token_is_signed_for_while_its_secret_stands),
)


@pytest_asyncio.fixture
async def lab() -> AsyncIterator[Simulated]:
    made = Simulated(Distribution.KUBEADM)
    yield made
    await made.close()


async def cluster_of(lab: Simulated, patience: float) -> KubeadmCluster:
    """One server alone, as the cases look at a cluster."""
    first = lab.server(1)
    await eventually(lambda: lab.node(first), 60)
    await eventually(lambda: "trilithon: done" in lab.log(first), 60)
    uuids = {first.name: first.bios_uuid.lower()}
    return KubeadmCluster(lab.spec, {first.name: first}, lab.authorities, lab.tokens, uuids, patience=patience)


@pytest.mark.parametrize("wrong", WRONG, ids=lambda one: one.fault.__name__)
async def test_a_wrong_double_turns_its_case_red(lab: Simulated, monkeypatch: pytest.MonkeyPatch, wrong: Wrong) -> None:
    wrong.fault(monkeypatch)
    cluster = await cluster_of(lab, 3)
    try:
        with pytest.raises((AssertionError, ValueError)):
            await wrong.case(cluster)
    finally:
        await cluster.close()


async def test_the_right_one_is_green(lab: Simulated) -> None:
    cluster = await cluster_of(lab, 60)
    try:
        for case in dict.fromkeys(wrong.case for wrong in WRONG):
            await case(cluster)
    finally:
        await cluster.close()

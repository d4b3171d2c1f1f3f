"""Good manifests in the lab's network, and the lab's site as the rules see it."""

import copy
from typing import Any

from domain.clusters import Distribution
from domain.validation import SiteContext

Document = dict[str, Any]

ZONES = frozenset({"UTC", "Europe/Berlin"})


def lab_context() -> SiteContext:
    """The simulated datacenter: reached over loopback, with templates for RKE2 and k3s."""
    return SiteContext(
        site_id="site-lab",
        site_name="lab",
        bridges=("vmbr0",),
        storages=("shared", "fast"),
        templates=frozenset({(Distribution.RKE2, "v1.36.5+rke2r1"), (Distribution.K3S, "v1.36.5+k3s1")}),
        endpoints=("127.0.70.1", "127.0.70.2", "127.0.70.3"),
        time_zones=ZONES,
    )


_PROD: Document = {
    "apiVersion": "cluster.x-k8s.io/v1beta2",
    "kind": "Cluster",
    "metadata": {"name": "prod", "namespace": "clusters"},
    "spec": {
        "clusterNetwork": {"pods": {"cidrBlocks": ["10.42.0.0/16"]}, "services": {"cidrBlocks": ["10.43.0.0/16"]}},
        "topology": {
            "classRef": {"name": "trilithon-rke2", "namespace": "trilithon-system"},
            "version": "v1.36.5+rke2r1",
            "controlPlane": {"replicas": 3},
            "workers": {"machineDeployments": [{"class": "worker", "name": "md-0", "replicas": 3}]},
            "variables": [
                {"name": "controlPlaneEndpoint", "value": "127.80.1.50"},
                {
                    "name": "network",
                    "value": {
                        "bridge": "vmbr0",
                        "addresses": ["127.80.1.51-127.80.1.69"],
                        "prefix": 16,
                        "gateway": "127.80.0.1",
                        "dnsServers": ["127.80.0.1"],
                    },
                },
                {"name": "storage", "value": "shared"},
                {"name": "cni", "value": "cilium"},
                {
                    "name": "upgrades",
                    "value": {
                        "mode": "patch",
                        "window": {
                            "weekdays": ["Sat"],
                            "start": "02:00",
                            "durationMinutes": 240,
                            "timeZone": "Europe/Berlin",
                        },
                    },
                },
            ],
        },
    },
}


def prod() -> Document:
    """Three RKE2 servers and three workers: the reference document's manifest, moved to the lab."""
    return copy.deepcopy(_PROD)


def edge() -> Document:
    """One k3s server, no workers, nothing set that may be left out."""
    document = prod()
    del document["spec"]["clusterNetwork"]
    document["metadata"] = {"name": "edge"}
    document["spec"]["topology"] = {
        "classRef": {"name": "trilithon-k3s"},
        "version": "v1.36.5+k3s1",
        "variables": document["spec"]["topology"]["variables"][:3],
    }
    return document


def full() -> Document:
    """Every field that a manifest can have, each with a value of its own."""
    document = prod()
    document["metadata"]["labels"] = {"team": "platform", "example.org/tier": "gold"}
    document["metadata"]["annotations"] = {"trilithon.dev/site": "lab", "example.org/note": "kept as it is"}
    network = variable(document, "network")
    network["value"]["vlan"] = 120
    network["value"]["addresses"] = ["127.80.1.51-127.80.1.60", "127.80.1.64/28", "127.80.1.90"]
    document["spec"]["topology"]["workers"]["machineDeployments"].append({"class": "worker", "name": "big"})
    document["spec"]["topology"]["variables"][3:] = [
        {"name": "allowedNodes", "value": ["pve1", "pve2"]},
        {"name": "proxmoxHA", "value": False},
        {"name": "controlPlaneMachine", "value": {"cores": 4, "memoryMiB": 8192, "diskGiB": 50}},
        {"name": "workerMachine", "value": {"cores": 8}},
        {"name": "cni", "value": "cilium"},
        {"name": "kubeProxyReplacement", "value": True},
        {"name": "headlamp", "value": {"enabled": True, "hostname": "headlamp.example.org", "tlsSecret": "web"}},
        {"name": "rancher", "value": {"install": True, "hostname": "rancher.example.org"}},
        {"name": "oidc", "value": [{"issuerURL": "https://id.example.org/realm", "clientID": "k8s", **_OIDC}]},
        document["spec"]["topology"]["variables"][4],
    ]
    return copy.deepcopy(document)


# A self-signed certificate whose key was thrown away.
CERTIFICATE = """-----BEGIN CERTIFICATE-----
MIIBKzCB0aADAgECAgEBMAoGCCqGSM49BAMCMB4xHDAaBgNVBAMME0V4YW1wbGUg
aWRlbnRpdHkgQ0EwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMB4x
HDAaBgNVBAMME0V4YW1wbGUgaWRlbnRpdHkgQ0EwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAToj5k0odB00HSnuHSjEGaxdqtN9JjfA4+/MPkL6xRmECwAAhwRcDfE
HfYqx/slVNlf5tQ993yY7yZrO1vUAcQuMAoGCCqGSM49BAMCA0kAMEYCIQDhuaFn
2sjBbxFYwj7J8XZf1m4ctURbKHZq3PbZ7yQfyQIhAPj6qI5ms7dEWTS5KNSG2Elr
xuSrD/FC6NuYDp8DvSbO
-----END CERTIFICATE-----
"""

_OIDC = {
    "usernameClaim": "sub",
    "usernamePrefix": "id:",
    "groupsClaim": "roles",
    "groupsPrefix": "id-",
    "scopes": ["email", "groups"],
    "certificateAuthority": CERTIFICATE,
}


def variable(document: Document, name: str) -> Document:
    """The entry of a variable in a manifest, added without value when it has none."""
    variables: list[Document] = document["spec"]["topology"]["variables"]
    for entry in variables:
        if entry["name"] == name:
            return entry
    variables.append({"name": name, "value": None})
    return variables[-1]

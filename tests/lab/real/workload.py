"""A Deployment of two behind a Service, and a client beside it, of the image that the real nodes have."""

import json
from typing import Any

WEB_IMAGE = "registry.lab/web:1"
NAME = "web.default.svc.cluster.local"
_SERVERS_TOO = [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}]


def web(*, apart: bool, client_on: str = "") -> str:
    """The objects, as JSON for `kubectl apply`.

    Args:
        apart: the two pods stand on different nodes.
        client_on: the node of the pod `client`; a server too. Empty leaves it to the scheduler.
    """
    spread = {
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }  # fmt: skip
    server = {
        "name": "web", "image": WEB_IMAGE,
        "command": ["sh", "-c", "hostname > /www/index.html; exec httpd -f -p 80 -h /www"],
        "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1},
    }  # fmt: skip
    pod: dict[str, Any] = {"terminationGracePeriodSeconds": 1, "containers": [server]}
    if apart:
        pod["topologySpreadConstraints"] = [spread]
    client: dict[str, Any] = {
        "terminationGracePeriodSeconds": 1, "tolerations": _SERVERS_TOO,
        "containers": [{"name": "c", "image": WEB_IMAGE, "command": ["sleep", "100000"]}],
    }  # fmt: skip
    if client_on:
        client["nodeSelector"] = {"kubernetes.io/hostname": client_on}
    items = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod}}},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
         "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "client"}, "spec": client},
    ]  # fmt: skip
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})

"""What the Proxmox VE cloud controller manager is given: its configuration and the values of its chart.

Source: facts/proxmox-addons.md B (run against the real one) and the chart's own documentation.
"""

from typing import Any

import yaml

from clients.proxmox import ApiToken
from domain.sites import Site

RELEASE = "proxmox-cloud-controller-manager"
CHART = "proxmox-cloud-controller-manager"
NAMESPACE = "kube-system"
SECRET = "proxmox-cloud-controller-manager"  # noqa: S105 - the Secret's name
CONFIG_KEY = "config.yaml"
"""Where in the Secret the configuration lies."""


def cloud_config(site: Site, token: ApiToken) -> str:
    """The controller's configuration file: where the site is, and the cluster's own token.

    `insecure` is true: the controller can pin no fingerprint, and its configuration names no authority of its own
    (docs/guarantees.md says so). Its token sees and changes nothing beyond the cluster's own pool.
    """
    return yaml.safe_dump(
        {
            "features": {"provider": "default", "network": {"mode": "default"}},
            "clusters": [
                {
                    "url": f"{site.endpoints[0].rstrip('/')}/api2/json",
                    "insecure": True,
                    "token_id": token.token_id,
                    "token_secret": token.secret,
                    "region": site.region,
                }
            ],
        },
        sort_keys=False,
    )


def chart_values() -> dict[str, Any]:
    """Values of the controller's chart.

    A DaemonSet on the host network runs before any pod network does. The control-plane label has different values in
    the distributions, so the affinity asks for its existence. The Secret is made by us beforehand.
    """
    return {
        "useDaemonSet": True,
        "existingConfigSecret": SECRET,
        "existingConfigSecretKey": CONFIG_KEY,
        "enabledControllers": ["cloud-node", "cloud-node-lifecycle"],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]}
                    ]
                }
            }
        },
        "nodeSelector": None,
        "tolerations": [{"operator": "Exists"}],
    }

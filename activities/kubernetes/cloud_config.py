"""What the Proxmox VE cloud controller manager is given: its configuration (its chart: domain.releases).

Source: facts/proxmox-addons.md B (run against the real one).
"""

import yaml

from clients.proxmox import ApiToken
from domain.releases import CLOUD_CONTROLLER_KEY as CONFIG_KEY
from domain.releases import CLOUD_CONTROLLER_SECRET as SECRET
from domain.sites import Site

__all__ = ["CONFIG_KEY", "NAMESPACE", "SECRET", "cloud_config"]

NAMESPACE = "kube-system"


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

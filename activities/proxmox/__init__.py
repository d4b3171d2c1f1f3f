"""Effects on Proxmox VE and waits for it. Construct `ProxmoxActivities` in a worker."""

from activities.proxmox.accounts import Accounts
from activities.proxmox.cloning import Cloning
from activities.proxmox.placing import Placing
from activities.proxmox.power import Power
from activities.proxmox.seeding import Seeding
from activities.proxmox.sites import SiteClients
from activities.proxmox.sizing import Sizing
from activities.proxmox.tasks import Tasks


class ProxmoxActivities(Tasks, Accounts, Placing, Cloning, Sizing, Seeding, Power):
    """All activities of domain.contracts.activities, section proxmox."""


__all__ = ["ProxmoxActivities", "SiteClients"]

"""Effects on Proxmox VE and waits for it. Construct `ProxmoxActivities` in a worker."""

from activities.proxmox.accounts import Accounts
from activities.proxmox.cloning import Cloning
from activities.proxmox.power import Power
from activities.proxmox.seeding import Seeding
from activities.proxmox.self_test import SelfTesting
from activities.proxmox.sites import SiteClients
from activities.proxmox.sizing import Sizing
from activities.proxmox.tasks import Tasks
from activities.proxmox.watching import Watching


class ProxmoxActivities(Accounts, Cloning, Sizing, Seeding, Power, Watching, SelfTesting, Tasks):
    """All activities of domain.contracts.activities, section proxmox."""


__all__ = ["ProxmoxActivities", "SiteClients"]

"""What a node is given to become a node: certificates, tokens, cloud-init data, the boot ISO. Pure.

Start at `bootstrap.boot.boot_data`. Secrets of a cluster: `bootstrap.authorities.make`, `bootstrap.tokens.make`. The
image: `bootstrap.iso.iso`. A distribution is one module in `bootstrap.distributions`.
"""

from bootstrap.boot import boot_data
from bootstrap.boot_input import KUBE_VIP_IMAGE, BootData, BootInput, UnsupportedDistribution

__all__ = ["KUBE_VIP_IMAGE", "BootData", "BootInput", "UnsupportedDistribution", "boot_data"]

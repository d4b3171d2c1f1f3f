"""The seam between the boot data and a distribution of Kubernetes.

One module per distribution, named as `domain.clusters.Distribution` names it, with an object `DISTRIBUTION` that
fulfils the protocol below. Nothing else has to be changed to add one (docs/contracts/distribution.md).
"""

import importlib
from typing import Protocol, cast

from bootstrap.boot_input import BootInput, NodeFile, UnsupportedDistribution
from domain.clusters import Distribution as DistributionName


class Distribution(Protocol):
    """What a distribution must give."""

    @property
    def name(self) -> DistributionName:
        """The name that specs use."""
        ...

    def files(self, boot: BootInput) -> tuple[NodeFile, ...]:
        """Every file that makes this machine a first server, a joining server or a worker."""
        ...

    def commands(self, boot: BootInput) -> tuple[tuple[str, ...], ...]:
        """What cloud-init runs at the end of the first boot; it must not wait for another machine."""
        ...


def distribution(name: DistributionName) -> Distribution:
    """Finds a distribution's module.

    Raises:
        UnsupportedDistribution: there is none of this name yet.
    """
    module_name = f"{__name__}.{name.value}"
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name:
            raise
        raise UnsupportedDistribution(f"{name.value} is not built yet") from error
    return cast(Distribution, module.DISTRIBUTION)

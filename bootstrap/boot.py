"""From a machine and its cluster to the boot data that makes the one join the other."""

from bootstrap.boot_input import BootData, BootInput
from bootstrap.cloud_init import meta_data, network_config, user_data
from bootstrap.distributions import distribution


def boot_data(boot: BootInput) -> BootData:
    """Renders a machine's boot data. The same input gives the same bytes.

    Raises:
        UnsupportedDistribution: the spec's distribution is not built yet.
        ValueError: the input contradicts itself (a first server that is no server, no ranges, a foreign version).
    """
    if boot.first_server and not boot.machine.is_server:
        raise ValueError(f"{boot.machine.name} is a worker and cannot be the first server")
    if not boot.spec.pod_cidrs or not boot.spec.service_cidrs:
        raise ValueError("the spec has no pod or service ranges; they are chosen before it is stored")
    chosen = distribution(boot.spec.distribution)
    return BootData(
        user_data=user_data(boot, chosen.files(boot), chosen.commands(boot)),
        network_config=network_config(boot),
        meta_data=meta_data(boot),
    )

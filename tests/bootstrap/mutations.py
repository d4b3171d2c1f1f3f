"""The table of mutations: every key of every rendered file, dropped or altered, and what comes of it.

A row says whether the machine still joins, why, and where upstream says so (`mutation_rows.Mutation`). `test_mutations`
checks that no key is left out and that each change does something; the simulated nodes are then judged by all rows
(tests/lab/nodes). A real kubeadm is asked about its configuration (`test_kubeadm`), real nodes about some of the rest
(tests/real).
"""

from tests.bootstrap import (
    mutations_cloud_init,
    mutations_files,
    mutations_kubeadm,
    mutations_kubeadm_files,
    mutations_supervisor,
    mutations_virtual_ip,
)
from tests.bootstrap.mutation_rows import Breaks, Mutation

MUTATIONS: tuple[Mutation, ...] = (
    *mutations_supervisor.ROWS,
    *mutations_virtual_ip.ROWS,
    *mutations_cloud_init.ROWS,
    *mutations_files.ROWS,
)

KUBEADM_MUTATIONS: tuple[Mutation, ...] = (*mutations_kubeadm.ROWS, *mutations_kubeadm_files.ROWS)

__all__ = ["KUBEADM_MUTATIONS", "MUTATIONS", "Breaks", "Mutation"]

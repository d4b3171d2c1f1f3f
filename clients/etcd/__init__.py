"""How we speak to etcd itself: its JSON gateway on the client port, with a certificate that we signed.

No shell on a node, no exec into a pod, no etcd library: it works while the API server is down
(facts/kubernetes.md 1.11). Only kubeadm's etcd offers it on the node's address; k3s and RKE2 do not.
"""

from clients.etcd.client import CLIENT_PORT, EtcdClient
from clients.etcd.errors import EtcdError, Refused, TlsMismatch, Unreachable
from clients.etcd.shapes import Alarm, Health, Member, Status

__all__ = [
    "CLIENT_PORT",
    "Alarm",
    "EtcdClient",
    "EtcdError",
    "Health",
    "Member",
    "Refused",
    "Status",
    "TlsMismatch",
    "Unreachable",
]

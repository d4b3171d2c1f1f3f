"""Settings of the host's own system that every distribution needs."""

from bootstrap.boot_input import NodeFile

SYSTEM_FILES = (
    NodeFile(
        "/etc/sysctl.d/90-trilithon.conf",
        # The kernel's 128 inotify instances are used up by one node's pods (facts 2.10: at least 8192).
        "fs.inotify.max_user_instances = 8192\nfs.inotify.max_user_watches = 524288\n",
        0o644,
    ),
    NodeFile(
        "/etc/NetworkManager/conf.d/90-trilithon-pods.conf",
        # Where NetworkManager runs, it must leave the pods' interfaces alone (facts 2.7).
        "[keyfile]\nunmanaged-devices=interface-name:cali*;interface-name:flannel*;interface-name:cilium*"
        ";interface-name:lxc*;interface-name:cni*\n",
        0o644,
    ),
)

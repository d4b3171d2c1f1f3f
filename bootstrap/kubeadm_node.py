"""What a machine needs so that kubeadm makes a node of it, without us.

A unit of our own (`trilithon-install.service`, as with every distribution) runs one script until it has succeeded
once. The script looks whether the template holds the wanted version, prepares the kernel, containerd and the kubelet,
and runs `kubeadm init` or `kubeadm join`. A try that failed is cleaned up by `kubeadm reset`, which also takes the
authorities and static pods away: they are kept in `SEED` and laid into place before every try. After success the seed's
secrets are deleted, for kubeadm's own places hold them.

**What an API server has served is never wiped**: others may have stored something in it by then. An `init` that failed
later than that is gone on with, over what is there.

Only `TRILITHON_ROOT` and the programs on the PATH tie the scripts to a machine: that is how the tests run them.
"""

from enum import StrEnum

from bootstrap.boot_input import NodeFile
from bootstrap.install import boot_unit, script_path
from bootstrap.node_system import SYSTEM_FILES
from domain.machines import Machine

SEED = "/etc/trilithon/kubernetes"
"""Configuration, authorities and static pods as they are laid into kubeadm's places before every try."""
ENVIRONMENT = "/etc/trilithon/kubeadm.env"
ROLE_MANIFEST = "/etc/trilithon/trilithon-kube-vip.yaml"
ROLE_SCRIPT = "/usr/local/lib/trilithon/kube-vip-role.sh"
ROLE_UNIT = "trilithon-kube-vip-role.service"
API_SERVED = "/var/lib/trilithon/api.served"
"""Stands once this machine's API server has taken kube-vip's role."""
CONTAINERD = "/etc/trilithon/containerd"
CRI_SOCKET = "unix:///run/containerd/containerd.sock"


class Task(StrEnum):
    """What kubeadm shall do on this machine."""

    INIT = "init"
    JOIN_SERVER = "join-server"
    JOIN_WORKER = "join-worker"


def node_files(machine: Machine, task: Task) -> tuple[NodeFile, ...]:
    """Everything but kubeadm's configuration, the authorities and the static pods.

    Args:
        machine: the machine.
        task: what kubeadm does on it.
    """
    script = script_path("kubeadm")
    values = {"VERSION": machine.version, "TASK": task.value, "ADDRESS": machine.address}
    environment = "".join(f"{name}='{value}'\n" for name, value in values.items())
    files = [
        *SYSTEM_FILES,
        NodeFile("/etc/modules-load.d/trilithon-kubernetes.conf", "overlay\nbr_netfilter\n", 0o644),
        NodeFile("/etc/sysctl.d/91-trilithon-kubernetes.conf", _SYSCTL, 0o644),
        NodeFile(f"{CONTAINERD}/config-1.toml", _CONTAINERD_1, 0o644),
        NodeFile(f"{CONTAINERD}/config-2.toml", _CONTAINERD_2, 0o644),
        NodeFile(ENVIRONMENT, environment, 0o644),
        NodeFile(script, _SCRIPT, 0o755),
        boot_unit("make this machine a node with kubeadm", script),
    ]
    if task is Task.INIT:
        files.append(NodeFile(ROLE_SCRIPT, _ROLE_SCRIPT, 0o755))
        files.append(NodeFile(f"/etc/systemd/system/{ROLE_UNIT}", _ROLE_UNIT, 0o644))
    return tuple(files)


_SYSCTL = """\
net.ipv4.ip_forward = 1
net.bridge.bridge-nf-call-iptables = 1
net.bridge.bridge-nf-call-ip6tables = 1
"""

# The last word is the template's: what it keeps in conf.d is read after this file.
_CONTAINERD_1 = """\
version = 2
imports = ["/etc/containerd/conf.d/*.toml"]
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "@sandbox@"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/opt/cni/bin"
[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "/etc/containerd/certs.d"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
SystemdCgroup = true
"""

# No folder of CNI programs: its key has another name from 2.1 on, and the default is the same.
_CONTAINERD_2 = """\
version = 3
imports = ["/etc/containerd/conf.d/*.toml"]
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "@sandbox@"
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = "/etc/containerd/certs.d"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = true
"""

_SCRIPT = r"""#!/bin/sh
# Makes this machine a node with kubeadm, then ends the boot. May run any number of times.
set -eu
umask 022
root=${TRILITHON_ROOT:-}
. "$root/etc/trilithon/kubeadm.env"
state=$root/var/lib/trilithon
seed=$root/etc/trilithon/kubernetes
kubernetes=$root/etc/kubernetes
log=$state/kubeadm.log
socket=unix:///run/containerd/containerd.sock

say() { echo "trilithon: $*"; }

fail() {
    echo "trilithon: $*" >&2
    exit 1
}

wanted_version() {
    [ "$2" = "$VERSION" ] || fail "the template holds $1 $2, wanted is $VERSION"
}

look_at_the_template() {
    programs="kubeadm kubelet containerd"
    if [ "$TASK" = init ]; then programs="$programs kubectl"; fi
    for program in $programs; do
        command -v "$program" >/dev/null 2>&1 || fail "the template does not hold $program"
    done
    wanted_version kubeadm "$(kubeadm version -o short)"
    wanted_version kubelet "$(kubelet --version | cut -d ' ' -f 2)"
}

look_at_the_boot_data() {
    needed=kubeadm.yaml
    if [ "$TASK" != join-worker ]; then
        needed="$needed pki/ca.crt pki/ca.key pki/front-proxy-ca.crt pki/front-proxy-ca.key pki/sa.pub pki/sa.key"
        needed="$needed pki/etcd/ca.crt pki/etcd/ca.key manifests/kube-vip.yaml"
    fi
    for file in $needed; do
        [ -s "$seed/$file" ] || fail "the boot data lacks $file"
    done
}

# A kernel may have the modules built in, and may refuse a setting: kubeadm's own checks have the last word.
prepare_the_kernel() {
    for module in overlay br_netfilter; do
        modprobe "$module" >/dev/null 2>&1 || say "module $module was not loaded"
    done
    for file in 90-trilithon.conf 91-trilithon-kubernetes.conf; do
        sysctl --quiet --load "$root/etc/sysctl.d/$file" >/dev/null 2>&1 || say "some settings of $file were refused"
    done
    systemctl mask swap.target >/dev/null 2>&1 || say "swap cannot be turned off for later boots"
    if tail -n +2 "$root/proc/swaps" 2>/dev/null | grep -q .; then
        swapoff -a || say "swap cannot be turned off"
    fi
}

# A template may bring its own configuration, for a registry or a proxy: it stays when it has what a node needs.
containerd_fits() {
    configured=$(containerd config dump 2>/dev/null) || return 1
    for needed in "SystemdCgroup = true" /opt/cni/bin "$sandbox"; do
        case $configured in
            *"$needed"*) ;;
            *) return 1 ;;
        esac
    done
}

prepare_containerd() {
    version=$(containerd --version | cut -d ' ' -f 3)
    case ${version#v} in
        1.*) chosen=config-1.toml ;;
        *) chosen=config-2.toml ;;
    esac
    sandbox=$(kubeadm config images list --kubernetes-version "$VERSION" 2>/dev/null | grep '/pause:') ||
        fail "kubeadm does not name the image of its sandboxes"
    systemctl enable containerd >/dev/null 2>&1 || fail "there is no unit containerd.service"
    mkdir -p "$root/etc/containerd"
    sed "s|@sandbox@|$sandbox|" "$root/etc/trilithon/containerd/$chosen" >"$state/containerd.toml"
    if containerd_fits || cmp -s "$state/containerd.toml" "$root/etc/containerd/config.toml"; then
        systemctl start containerd || fail "containerd does not start"
    else
        say "containerd is configured anew"
        cp "$state/containerd.toml" "$root/etc/containerd/config.toml"
        systemctl restart containerd || fail "containerd does not start"
    fi
}

lay_into_place() {
    if [ "$TASK" = join-worker ]; then return 0; fi
    mkdir -p "$kubernetes/manifests"
    cp -Rp "$seed/pki" "$seed/manifests" "$kubernetes/"
}

# Over a control plane that is there, these checks would find what kubeadm itself put there.
over="FileAvailable--etc-kubernetes-manifests-kube-apiserver.yaml"
over="$over,FileAvailable--etc-kubernetes-manifests-kube-controller-manager.yaml"
over="$over,FileAvailable--etc-kubernetes-manifests-kube-scheduler.yaml"
over="$over,FileAvailable--etc-kubernetes-manifests-etcd.yaml,DirAvailable--var-lib-etcd"
over="$over,Port-6443,Port-10259,Port-10257,Port-10250,Port-2379,Port-2380"

clean_up() {
    say "cleaning up what the last try left"
    timeout 300 kubeadm reset --force --cri-socket "$socket" >"$state/reset.log" 2>&1 ||
        say "kubeadm reset: $(tail -n 1 "$state/reset.log")"
}

# Its words go to the journal while it runs, for it may wait long; the last ones are said again when it fails.
run_kubeadm() {
    (umask 077 && : >"$log")
    echo no >"$state/kubeadm.ended"
    { kubeadm "$@" --config "$seed/kubeadm.yaml" --v=1 2>&1 && echo well >"$state/kubeadm.ended"; } | tee "$log" || :
    if [ "$(cat "$state/kubeadm.ended")" = well ]; then return 0; fi
    said=$(grep -e '^error' -e '\[ERROR ' "$log" | tail -n 4 | tr -s '\n\t ' '   ')
    fail "kubeadm $1 failed and is tried again: ${said:-$(tail -n 1 "$log")}"
}

become_a_node() {
    if [ "$TASK" = join-worker ] && [ -s "$kubernetes/kubelet.conf" ]; then
        say "this machine has joined already"
        return 0
    fi
    if [ -e "$state/api.served" ]; then
        say "going on over what the API server has stored"
        lay_into_place
        run_kubeadm init --skip-token-print --ignore-preflight-errors="$over"
        return 0
    fi
    if [ -e "$state/kubeadm.begun" ]; then clean_up; fi
    lay_into_place
    : >"$state/kubeadm.begun"
    case $TASK in
        init)
            systemctl enable trilithon-kube-vip-role.service || say "kube-vip's role is not given at later boots"
            systemctl restart --no-block trilithon-kube-vip-role.service || fail "nobody can give kube-vip its role"
            run_kubeadm init --skip-token-print
            ;;
        *) run_kubeadm join ;;
    esac
}

mkdir -p "$state" "$root/etc/cloud"
if [ ! -e "$state/boot.done" ]; then
    look_at_the_template
    look_at_the_boot_data
    prepare_the_kernel
    prepare_containerd
    systemctl enable kubelet >/dev/null 2>&1 || fail "there is no unit kubelet.service"
    become_a_node
    : >"$root/etc/cloud/cloud-init.disabled"
    echo "kubeadm $VERSION" >"$state/boot.done.new"
    mv "$state/boot.done.new" "$state/boot.done"
fi
# kubeadm's own places hold them now.
rm -rf "$seed/pki" "$seed/kubeadm.yaml"
say "done"
"""

_ROLE_UNIT = f"""\
[Unit]
Description=Trilithon: give kube-vip its role
Wants=network-online.target
After=network-online.target
ConditionPathExists=!{API_SERVED}
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={ROLE_SCRIPT}
Restart=on-failure
RestartSec=5s

[Install]
WantedBy=multi-user.target
"""

_ROLE_SCRIPT = r"""#!/bin/sh
# Waits for this machine's own API server and gives kube-vip its role there: without it nobody holds the virtual IP.
set -eu
root=${TRILITHON_ROOT:-}
. "$root/etc/trilithon/kubeadm.env"
state=$root/var/lib/trilithon
# The file names the virtual IP, which nobody holds yet; the machine's own address is in the certificate as well.
config=$root/etc/kubernetes/super-admin.conf
tries=0
until [ -s "$config" ] && kubectl --kubeconfig "$config" --server "https://$ADDRESS:6443" --request-timeout 5s \
    apply --validate=false -f "$root/etc/trilithon/trilithon-kube-vip.yaml" >"$state/kube-vip-role.log" 2>&1; do
    tries=$((tries + 1))
    if [ $((tries % 30)) -eq 0 ] && [ -s "$state/kube-vip-role.log" ]; then
        echo "trilithon: kube-vip's role is not there yet: $(tail -n 1 "$state/kube-vip-role.log")"
    fi
    sleep 1
done
: >"$state/api.served"
echo "trilithon: kube-vip has its role"
"""

#!/bin/bash
# Imports an image archive into a fresh containerd store: golden.sh BASE-TREE ARCHIVE STORE ; in namespaces of its own.
set -eu
base=$1 archive=$2 store=$3
work=$(mktemp -d)
mount -t tmpfs tmpfs "$work"
mkdir "$work/up" "$work/wk" "$work/root"
mount -t overlay overlay -o "lowerdir=$base,upperdir=$work/up,workdir=$work/wk,volatile" "$work/root"
root=$work/root
mkdir -p "$root/var/lib/containerd" "$root/images"
mount --bind "$store" "$root/var/lib/containerd"
mount --bind "$(dirname "$archive")" "$root/images"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
mount -t tmpfs tmpfs "$root/run"
chroot "$root" containerd > "$(dirname "$archive")/containerd.log" 2>&1 &
daemon=$!
for _ in $(seq 100); do chroot "$root" ctr version > /dev/null 2>&1 && break; sleep 0.1; done
chroot "$root" ctr -n k8s.io images import --all-platforms "/images/$(basename "$archive")" > /dev/null
chroot "$root" ctr -n k8s.io images ls -q | grep -vc '^sha256:' || true
kill "$daemon"
wait "$daemon" 2>/dev/null || true

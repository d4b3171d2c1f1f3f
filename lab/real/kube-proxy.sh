#!/bin/sh
# Stands as /usr/local/bin/kube-proxy in the laboratory's image: nf_conntrack_max cannot be written in a network namespace.
for a; do shift
  case $a in --config=*) sed -E '/^conntrack:/,/^[^ ]/{s/^( *maxPerCore:).*/\1 0/; s/^( *min:).*/\1 0/}' "${a#--config=}" > /tmp/kube-proxy.conf; a=--config=/tmp/kube-proxy.conf;; esac
  set -- "$@" "$a"
done
exec /usr/local/bin/kube kube-proxy "$@"

"""A simulated kubeadm machine: its boot script, kubeadm itself, the kubelet, static pods and etcd.

Order of phases and words of refusals are those of kubernetes cmd/kubeadm/app, v1.36.3. What takes minutes there takes
seconds here (`settings.Timing.kubeadm`).
"""

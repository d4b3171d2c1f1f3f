package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"strings"
	"time"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	system = "calico-system"
	agent  = "calico-node"
)

type installation struct {
	CalicoNetwork struct {
		BGP     string `json:"bgp"`
		IPPools []struct {
			CIDR          string `json:"cidr"`
			Encapsulation string `json:"encapsulation"`
		} `json:"ipPools"`
	} `json:"calicoNetwork"`
}

// runOperator does what Tigera's operator does with an Installation, as far as a node becomes Ready by it: it makes
// calico-system and the node agent there, and refuses pools outside the range that kubeadm gave the pods.
func runOperator(ctx context.Context, client kubernetes.Interface, values, image string) error {
	var wanted installation
	if err := json.Unmarshal([]byte(values), &wanted); err != nil {
		return fmt.Errorf("installation: %w", err)
	}
	pools := make([]string, 0, len(wanted.CalicoNetwork.IPPools))
	for _, pool := range wanted.CalicoNetwork.IPPools {
		pools = append(pools, pool.CIDR)
	}
	for {
		err := install(ctx, client, pools, image)
		if err == nil {
			log.Printf("%s/%s is installed, pools %v", system, agent, pools)
			<-ctx.Done()
			return nil
		}
		log.Printf("%v", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(2 * time.Second):
		}
	}
}

func install(ctx context.Context, client kubernetes.Interface, pools []string, image string) error {
	if err := fits(ctx, client, pools); err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Name: agent, Namespace: system}
	cluster := metav1.ObjectMeta{Name: agent}
	steps := []func() error{
		func() error {
			_, err := client.CoreV1().Namespaces().Create(ctx, &core.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}, metav1.CreateOptions{})
			return err
		},
		func() error {
			_, err := client.CoreV1().ServiceAccounts(system).Create(ctx, &core.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
			return err
		},
		func() error {
			_, err := client.RbacV1().ClusterRoles().Create(ctx, &rbac.ClusterRole{ObjectMeta: cluster, Rules: []rbac.PolicyRule{
				{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
			}}, metav1.CreateOptions{})
			return err
		},
		func() error {
			_, err := client.RbacV1().ClusterRoleBindings().Create(ctx, &rbac.ClusterRoleBinding{
				ObjectMeta: cluster,
				RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "ClusterRole", Name: agent},
				Subjects:   []rbac.Subject{{Kind: "ServiceAccount", Name: agent, Namespace: system}},
			}, metav1.CreateOptions{})
			return err
		},
		func() error {
			_, err := client.AppsV1().DaemonSets(system).Create(ctx, daemonSet(meta, pools, image), metav1.CreateOptions{})
			return err
		},
	}
	for _, step := range steps {
		if err := step(); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// fits compares the pools with kubeadm's pod range; a cluster without that ConfigMap has nothing to compare.
func fits(ctx context.Context, client kubernetes.Interface, pools []string) error {
	found, err := client.CoreV1().ConfigMaps("kube-system").Get(ctx, "kubeadm-config", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return err
	}
	for _, line := range strings.Split(found.Data["ClusterConfiguration"], "\n") {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "podSubnet: ")
		if !ok {
			continue
		}
		for _, pool := range pools {
			ip, _, err := net.ParseCIDR(pool)
			if err != nil {
				return fmt.Errorf("pool %q: %w", pool, err)
			}
			inside := false
			for _, part := range strings.Split(text, ",") {
				_, block, err := net.ParseCIDR(strings.TrimSpace(part))
				inside = inside || (err == nil && block.Contains(ip))
			}
			if !inside {
				return fmt.Errorf("pool %s lies outside the cluster's pod range %s: no node agent is made", pool, text)
			}
		}
	}
	return nil
}

func daemonSet(meta metav1.ObjectMeta, pools []string, image string) *apps.DaemonSet {
	labels := map[string]string{"k8s-app": agent}
	privileged, grace := true, int64(1)
	return &apps.DaemonSet{
		ObjectMeta: meta,
		Spec: apps.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: core.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: core.PodSpec{
					HostNetwork: true, ServiceAccountName: agent, PriorityClassName: "system-node-critical",
					TerminationGracePeriodSeconds: &grace,
					Tolerations:                   []core.Toleration{{Operator: core.TolerationOpExists}},
					Containers: []core.Container{{
						Name: agent, Image: image, Args: []string{"agent", "--pools=" + strings.Join(pools, ",")},
						Env: []core.EnvVar{{Name: "NODE_NAME", ValueFrom: &core.EnvVarSource{
							FieldRef: &core.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}},
						SecurityContext: &core.SecurityContext{Privileged: &privileged},
						VolumeMounts:    []core.VolumeMount{{Name: "cni", MountPath: "/host/etc/cni/net.d"}},
					}},
					Volumes: []core.Volume{{Name: "cni", VolumeSource: core.VolumeSource{
						HostPath: &core.HostPathVolumeSource{Path: "/etc/cni/net.d"}}}},
				},
			},
		},
	}
}

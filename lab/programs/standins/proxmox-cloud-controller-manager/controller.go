package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"slices"
	"strconv"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	shutdown      = "node.cloudprovider.kubernetes.io/shutdown"
	zoneOfOurs    = "topology.proxmox.sinextra.dev/zone"
	refreshEvery  = 5 * time.Minute
	lookEvery     = 5 * time.Second
)

func logf(format string, arguments ...any) { log.Printf(format, arguments...) }

type controller struct {
	client kubernetes.Interface
	pve    *proxmox
}

func newController(client kubernetes.Interface, pve *proxmox) *controller {
	return &controller{client: client, pve: pve}
}

// nodes initialises new nodes, each with a back-off of its own, and refreshes all of them every five minutes.
func (c *controller) nodes(ctx context.Context) error {
	factory := informers.NewSharedInformerFactory(c.client, 0)
	informer := factory.Core().V1().Nodes()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 1000*time.Second))
	add := func(object any) {
		if node, ok := object.(*core.Node); ok && hasTaint(node, uninitialized) {
			queue.Add(node.Name)
		}
	}
	if _, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, fresh any) { add(fresh) },
	}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	go func() {
		<-ctx.Done()
		queue.ShutDown()
	}()
	go func() {
		tick := time.NewTicker(refreshEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				all, err := informer.Lister().List(labels.Everything())
				if err != nil {
					continue
				}
				for _, node := range all {
					if node.Spec.ProviderID != "" {
						c.refresh(ctx, node)
					}
				}
			}
		}
	}()
	for {
		name, ended := queue.Get()
		if ended {
			return nil
		}
		node, err := informer.Lister().Get(name)
		if err == nil && hasTaint(node, uninitialized) {
			err = c.initialise(ctx, node)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			logf("error syncing '%s': %v, requeuing", name, err)
			queue.AddRateLimited(name)
		} else {
			queue.Forget(name)
		}
		queue.Done(name)
	}
}

// find looks for a node's VM. The VM's name must begin with the node's name and its SMBIOS uuid be the node's
// SystemUUID; a node that has its provider id already is asked for by VM id, and must pass both tests too.
func (c *controller) find(ctx context.Context, node *core.Node) (*vm, *vmConfig, error) {
	all, err := c.pve.list(ctx)
	if err != nil {
		return nil, nil, err
	}
	wanted := 0
	if id := node.Spec.ProviderID; id != "" {
		if wanted, err = strconv.Atoi(id[strings.LastIndex(id, "/")+1:]); err != nil {
			return nil, nil, fmt.Errorf("provider id %q: %w", id, err)
		}
	}
	for _, one := range all {
		if !strings.HasPrefix(one.Name, node.Name) || (wanted != 0 && one.ID != wanted) {
			continue
		}
		if one.Status == "unknown" { // its host is down: the VM exists, nobody can ask it
			return &one, nil, nil
		}
		config, err := c.pve.config(ctx, one)
		if err != nil {
			return nil, nil, err
		}
		if strings.EqualFold(uuidOf(config), node.Status.NodeInfo.SystemUUID) {
			return &one, config, nil
		}
	}
	return nil, nil, nil
}

func number(value any, otherwise int) int {
	switch v := value.(type) {
	case float64:
		return int(v)
	case string:
		if n, err := strconv.Atoi(v); err == nil {
			return n
		}
	}
	return otherwise
}

func (c *controller) labels(one *vm, config *vmConfig) map[string]string {
	found := map[string]string{
		"topology.kubernetes.io/region": one.Region, "topology.kubernetes.io/zone": one.Node,
		"failure-domain.beta.kubernetes.io/region": one.Region, "failure-domain.beta.kubernetes.io/zone": one.Node,
		"topology.proxmox.sinextra.dev/region": one.Region, zoneOfOurs: one.Node,
	}
	if config != nil {
		kind := fmt.Sprintf("%dVCPU-%dGB", number(config.Cores, 1)*number(config.Socket, 1), number(config.Memory, 512)>>10)
		found["node.kubernetes.io/instance-type"], found["beta.kubernetes.io/instance-type"] = kind, kind
	}
	return found
}

// asks makes the calls that the real one makes for its HA groups also where it uses none; 403 there is only noise.
func (c *controller) asks(ctx context.Context, one *vm) {
	if _, err := c.pve.status(ctx, *one); err != nil {
		logf("VM %d: %v", one.ID, err)
	}
	if err := c.pve.get(ctx, one.cluster, "/cluster/ha/groups", new(any)); err != nil {
		logf("failed to get HA group for the node: %v", err)
	}
}

func (c *controller) initialise(ctx context.Context, node *core.Node) error {
	one, config, err := c.find(ctx, node)
	if err != nil {
		return fmt.Errorf("failed to get instance metadata for node %s: %w", node.Name, err)
	}
	if one == nil {
		return fmt.Errorf("failed to get instance metadata for node %s: cloud provider does not set node provider ID for node %s", node.Name, node.Name)
	}
	if config == nil {
		return fmt.Errorf("failed to get instance metadata for node %s: proxmox node inaccessible", node.Name)
	}
	c.asks(ctx, one)
	fresh, err := c.client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if fresh.Spec.ProviderID == "" {
		fresh.Spec.ProviderID = fmt.Sprintf("proxmox://%s/%d", one.Region, one.ID)
	}
	if fresh.Labels == nil {
		fresh.Labels = map[string]string{}
	}
	for key, value := range c.labels(one, config) {
		fresh.Labels[key] = value
	}
	fresh.Spec.Taints = slices.DeleteFunc(fresh.Spec.Taints, func(t core.Taint) bool { return t.Key == uninitialized })
	if fresh, err = c.client.CoreV1().Nodes().Update(ctx, fresh, metav1.UpdateOptions{}); err != nil {
		return err
	}
	logf("node %s is %s", fresh.Name, fresh.Spec.ProviderID)
	c.event(ctx, fresh, core.EventTypeNormal, "Synced", "Node synced successfully")
	return nil
}

// refresh follows a VM to another host: only the provider's own zone label changes, as in the real one.
func (c *controller) refresh(ctx context.Context, node *core.Node) {
	one, _, err := c.find(ctx, node)
	if err != nil || one == nil {
		return
	}
	c.asks(ctx, one)
	if node.Labels[zoneOfOurs] == one.Node {
		return
	}
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{zoneOfOurs: one.Node}}})
	if _, err := c.client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		logf("node %s: %v", node.Name, err)
	}
}

// lifecycle looks at nodes that are not ready, every 5 s: gone VMs' nodes are deleted, stopped VMs' nodes tainted.
func (c *controller) lifecycle(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		all, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			logf("error listing nodes: %v", err)
			continue
		}
		for i := range all.Items {
			if err := c.judge(ctx, &all.Items[i]); err != nil {
				logf("%v", err)
			}
		}
	}
}

func (c *controller) judge(ctx context.Context, node *core.Node) error {
	if ready(node) {
		if hasTaint(node, shutdown) {
			return c.taint(ctx, node, false)
		}
		return nil
	}
	if node.Spec.ProviderID == "" {
		return nil
	}
	one, config, err := c.find(ctx, node)
	if err != nil {
		return fmt.Errorf("error checking if node %s exists: %w", node.Name, err)
	}
	if one == nil {
		logf("deleting node since it is no longer present in cloud provider: %s", node.Name)
		c.event(ctx, node, core.EventTypeNormal, "DeletingNode", "Deleting node "+node.Name+" because it does not exist in the cloud provider")
		if err := c.client.CoreV1().Nodes().Delete(ctx, node.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	}
	if config == nil {
		return fmt.Errorf("node %s: proxmox node inaccessible, cannot define instance status", node.Name)
	}
	status, err := c.pve.status(ctx, *one)
	if err != nil {
		return fmt.Errorf("error checking if node %s is shutdown: %w", node.Name, err)
	}
	if status == "stopped" && !hasTaint(node, shutdown) {
		return c.taint(ctx, node, true)
	}
	return nil
}

func (c *controller) taint(ctx context.Context, node *core.Node, on bool) error {
	fresh, err := c.client.CoreV1().Nodes().Get(ctx, node.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	fresh.Spec.Taints = slices.DeleteFunc(fresh.Spec.Taints, func(t core.Taint) bool { return t.Key == shutdown })
	if on {
		fresh.Spec.Taints = append(fresh.Spec.Taints, core.Taint{Key: shutdown, Effect: core.TaintEffectNoSchedule})
	}
	_, err = c.client.CoreV1().Nodes().Update(ctx, fresh, metav1.UpdateOptions{})
	return err
}

func (c *controller) event(ctx context.Context, node *core.Node, kind, reason, text string) {
	now := metav1.Now()
	_, err := c.client.CoreV1().Events(metav1.NamespaceDefault).Create(ctx, &core.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: node.Name + ".", Namespace: metav1.NamespaceDefault},
		InvolvedObject: core.ObjectReference{Kind: "Node", Name: node.Name, UID: node.UID, APIVersion: "v1"},
		Type:           kind, Reason: reason, Message: text, FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: core.EventSource{Component: "cloud-node-controller"},
	}, metav1.CreateOptions{})
	if err != nil {
		logf("event %s: %v", reason, err)
	}
}

func hasTaint(node *core.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t core.Taint) bool { return t.Key == key })
}

func ready(node *core.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == core.NodeReady {
			return condition.Status == core.ConditionTrue
		}
	}
	return false
}

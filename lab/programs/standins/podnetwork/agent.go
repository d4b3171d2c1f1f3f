package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const settingsName = "05-podnetwork.conflist"

// runAgent looks at the cluster at each change, and every 30 s in case somebody took a route away.
func runAgent(ctx context.Context, client kubernetes.Interface, me, folder, pools string, services bool) error {
	if me == "" {
		return errors.New("NODE_NAME is not set")
	}
	ranges, err := parseRanges(pools)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	changed := make(chan struct{}, 1)
	wake := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { wake() }, UpdateFunc: func(any, any) { wake() }, DeleteFunc: func(any) { wake() },
	}
	nodes := factory.Core().V1().Nodes()
	if _, err := nodes.Informer().AddEventHandler(handler); err != nil {
		return err
	}
	var router *serviceRouter
	if services {
		if router, err = newServiceRouter(factory, handler); err != nil {
			return err
		}
		router.removeKubeProxyRules()
	}
	factory.Start(ctx.Done())
	for kind, ok := range factory.WaitForCacheSync(ctx.Done()) {
		if !ok {
			return fmt.Errorf("no list of %v", kind)
		}
	}
	tick := time.NewTicker(30 * time.Second)
	defer tick.Stop()
	for {
		list, err := nodes.Lister().List(labels.Everything())
		if err != nil {
			return err
		}
		if router != nil {
			if err := router.apply(); err != nil {
				log.Printf("services: %v", err)
			}
		}
		for _, node := range list {
			var err error
			if node.Name == me {
				err = writeSettings(folder, node.Spec.PodCIDR, ranges)
			} else {
				err = routeTo(node)
			}
			if err != nil {
				log.Printf("%s: %v", node.Name, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-changed:
			time.Sleep(100 * time.Millisecond) // many changes at once are one look
		}
	}
}

func parseRanges(text string) ([]*net.IPNet, error) {
	var found []*net.IPNet
	for _, part := range strings.Split(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		_, block, err := net.ParseCIDR(part)
		if err != nil {
			return nil, err
		}
		found = append(found, block)
	}
	return found, nil
}

// writeSettings gives the runtime its pod network: a bridge that hands out addresses of the node's own range.
func writeSettings(folder, podCIDR string, pools []*net.IPNet) error {
	if podCIDR == "" {
		return errors.New("the node has no podCIDR yet")
	}
	ip, _, err := net.ParseCIDR(podCIDR)
	if err != nil {
		return err
	}
	inside := len(pools) == 0
	for _, pool := range pools {
		inside = inside || pool.Contains(ip)
	}
	if !inside {
		return fmt.Errorf("podCIDR %s lies in no pool of the chart's values: no pod network written", podCIDR)
	}
	settings, err := json.MarshalIndent(map[string]any{
		"cniVersion": "1.0.0", "name": "podnetwork",
		"plugins": []map[string]any{
			{
				"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
				"ipam": map[string]any{
					"type": "host-local", "ranges": [][]map[string]string{{{"subnet": podCIDR}}},
					"routes": []map[string]string{{"dst": "0.0.0.0/0"}},
				},
			},
			{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}},
		},
	}, "", " ")
	if err != nil {
		return err
	}
	path := filepath.Join(folder, settingsName)
	if old, err := os.ReadFile(path); err == nil && string(old) == string(settings) {
		return nil
	}
	draft := filepath.Join(folder, "."+settingsName)
	if err := os.WriteFile(draft, settings, 0o644); err != nil {
		return err
	}
	log.Printf("pods of this node: %s", podCIDR)
	return os.Rename(draft, path)
}

// routeTo leads another node's pod range to that node's own address; all nodes share one network here.
func routeTo(node *core.Node) error {
	address := ""
	for _, item := range node.Status.Addresses {
		if item.Type == core.NodeInternalIP && net.ParseIP(item.Address).To4() != nil {
			address = item.Address
			break
		}
	}
	if node.Spec.PodCIDR == "" || address == "" {
		return nil
	}
	_, block, err := net.ParseCIDR(node.Spec.PodCIDR)
	if err != nil {
		return err
	}
	return netlink.RouteReplace(&netlink.Route{Dst: block, Gw: net.ParseIP(address)})
}

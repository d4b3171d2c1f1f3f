package main

import (
	"bytes"
	"fmt"
	"log"
	"os/exec"
	"sort"
	"strings"

	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/cache"
)

const (
	table = "podnetwork"
	// The bit that asks for masquerading; kube-proxy's own value, so that both never mean different things by it.
	masqueradeMark = "0x4000"
)

// serviceRouter turns Services and their ready endpoints into one nftables table.
type serviceRouter struct {
	services corelisters.ServiceLister
	slices   discoverylisters.EndpointSliceLister
	last     string
}

func newServiceRouter(factory informers.SharedInformerFactory, handler cache.ResourceEventHandler) (*serviceRouter, error) {
	services, slices := factory.Core().V1().Services(), factory.Discovery().V1().EndpointSlices()
	for _, informer := range []cache.SharedIndexInformer{services.Informer(), slices.Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, err
		}
	}
	return &serviceRouter{services: services.Lister(), slices: slices.Lister()}, nil
}

// removeKubeProxyRules drops what a kube-proxy of an earlier life left in this node.
func (r *serviceRouter) removeKubeProxyRules() {
	for _, family := range []string{"ip", "ip6"} {
		if exec.Command("nft", "delete", "table", family, "kube-proxy").Run() == nil {
			log.Printf("removed the table %s kube-proxy", family)
		}
	}
}

func (r *serviceRouter) apply() error {
	services, err := r.services.List(labels.Everything())
	if err != nil {
		return err
	}
	slices, err := r.slices.List(labels.Everything())
	if err != nil {
		return err
	}
	rules := ruleset(services, slices)
	if rules == r.last {
		return nil
	}
	command := exec.Command("nft", "-f", "-")
	command.Stdin = strings.NewReader(rules)
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("nft: %w: %s", err, bytes.TrimSpace(said))
	}
	r.last = rules
	log.Printf("routing %d services", len(services))
	return nil
}

// backends are the ready endpoints of one port of a Service, as address:port, in a stable order.
func backends(service *core.Service, port core.ServicePort, slices []*discovery.EndpointSlice) []string {
	found := map[string]bool{}
	for _, slice := range slices {
		if slice.Namespace != service.Namespace || slice.Labels[discovery.LabelServiceName] != service.Name ||
			slice.AddressType != discovery.AddressTypeIPv4 {
			continue
		}
		for _, target := range slice.Ports {
			name := ""
			if target.Name != nil {
				name = *target.Name
			}
			if name != port.Name || target.Port == nil {
				continue
			}
			for _, endpoint := range slice.Endpoints {
				if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
					for _, address := range endpoint.Addresses {
						found[fmt.Sprintf("%s:%d", address, *target.Port)] = true
					}
				}
			}
		}
	}
	all := make([]string, 0, len(found))
	for item := range found {
		all = append(all, item)
	}
	sort.Strings(all)
	return all
}

// ruleset writes the whole table anew: nft replaces it in one step.
func ruleset(services []*core.Service, slices []*discovery.EndpointSlice) string {
	var chains, dispatch, refuse []string
	sort.Slice(services, func(i, j int) bool {
		return services[i].Namespace+"/"+services[i].Name < services[j].Namespace+"/"+services[j].Name
	})
	for _, service := range services {
		if service.Spec.ClusterIP == "" || service.Spec.ClusterIP == core.ClusterIPNone || strings.Contains(service.Spec.ClusterIP, ":") {
			continue
		}
		for _, port := range service.Spec.Ports {
			protocol := strings.ToLower(string(port.Protocol))
			if protocol != "tcp" && protocol != "udp" {
				continue
			}
			match := []string{fmt.Sprintf("ip daddr %s %s dport %d", service.Spec.ClusterIP, protocol, port.Port)}
			if port.NodePort != 0 {
				match = append(match, fmt.Sprintf("fib daddr type local ip daddr != 127.0.0.0/8 %s dport %d", protocol, port.NodePort))
			}
			for _, address := range service.Spec.ExternalIPs {
				match = append(match, fmt.Sprintf("ip daddr %s %s dport %d", address, protocol, port.Port))
			}
			targets := backends(service, port, slices)
			if len(targets) == 0 {
				for _, one := range match {
					refuse = append(refuse, one+" reject")
				}
				continue
			}
			name := fmt.Sprintf("s%d", len(chains))
			chains = append(chains, serviceChain(name, protocol, targets))
			for i, one := range match {
				mark := ""
				if i > 0 { // from outside: the answer must come back through this node
					mark = "meta mark set meta mark or " + masqueradeMark + " "
				}
				dispatch = append(dispatch, fmt.Sprintf("%s %sgoto %s", one, mark, name))
			}
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "table ip %s\ndelete table ip %s\ntable ip %s {\n", table, table, table)
	out.WriteString(strings.Join(chains, ""))
	fmt.Fprintf(&out, " chain dispatch {\n  %s\n }\n", strings.Join(dispatch, "\n  "))
	fmt.Fprintf(&out, " chain refuse {\n  %s\n }\n", strings.Join(refuse, "\n  "))
	for hook, priority := range map[string]string{"prerouting": "-100", "output": "-100"} {
		fmt.Fprintf(&out, " chain nat_%s { type nat hook %s priority %s; jump dispatch; }\n", hook, hook, priority)
	}
	fmt.Fprintf(&out, " chain nat_postrouting { type nat hook postrouting priority 100; meta mark & %s == %s meta mark set meta mark xor %s masquerade; }\n",
		masqueradeMark, masqueradeMark, masqueradeMark)
	for _, hook := range []string{"input", "forward", "output"} {
		fmt.Fprintf(&out, " chain filter_%s { type filter hook %s priority -110; ct state new jump refuse; }\n", hook, hook)
	}
	out.WriteString("}\n")
	return out.String()
}

// serviceChain spreads new connections evenly. A pod that reaches itself is masqueraded, or its answer would stay inside.
func serviceChain(name, protocol string, targets []string) string {
	var out strings.Builder
	choice := make([]string, len(targets))
	for i, target := range targets {
		ip, _, _ := strings.Cut(target, ":")
		fmt.Fprintf(&out, " chain %se%d {\n  ip saddr %s meta mark set meta mark or %s\n  meta l4proto %s dnat to %s\n }\n",
			name, i, ip, masqueradeMark, protocol, target)
		choice[i] = fmt.Sprintf("%d : goto %se%d", i, name, i)
	}
	fmt.Fprintf(&out, " chain %s {\n  numgen random mod %d vmap { %s }\n }\n", name, len(targets), strings.Join(choice, ", "))
	return out.String()
}

// Command proxmox-cloud-controller-manager stands for the Proxmox cloud controller in the laboratory: it tells
// Kubernetes which VM a node is and removes nodes whose VM is gone. docs/lab/proxmox-cloud-controller-manager.md says
// what it does as the real one and what it does not.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() {
	log.SetFlags(log.LstdFlags | log.Lmicroseconds)
	file := flag.String("cloud-config", "", "the configuration")
	provider := flag.String("cloud-provider", "proxmox", "always proxmox")
	controllers := flag.String("controllers", "cloud-node,cloud-node-lifecycle", "which controllers run")
	lease := flag.String("leader-elect-resource-name", "cloud-controller-manager-proxmox", "name of the lease")
	kubeconfig := flag.String("kubeconfig", "", "outside a cluster only")
	flag.String("secure-port", "10258", "accepted; nothing is served")
	flag.String("v", "2", "accepted; the log has one level")
	flag.Parse()
	if *provider != "proxmox" {
		log.Fatalf("unknown cloud provider %q", *provider)
	}
	config, err := readConfig(*file)
	if err != nil {
		log.Fatalf("cloud provider could not be initialized: %v", err)
	}
	connection, err := rest.InClusterConfig()
	if *kubeconfig != "" {
		connection, err = clientcmd.BuildConfigFromFlags("", *kubeconfig)
	}
	if err != nil {
		log.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(connection)
	if err != nil {
		log.Fatal(err)
	}
	name, err := os.Hostname()
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	enabled := strings.Split(*controllers, ",")
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: *lease, Namespace: "kube-system"},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				log.Printf("leader now, controllers %v", enabled)
				c := newController(client, newProxmox(config))
				c.pve.hello(leading)
				if slices.Contains(enabled, "cloud-node-lifecycle") {
					go c.lifecycle(leading)
				}
				if slices.Contains(enabled, "cloud-node") {
					if err := c.nodes(leading); err != nil && leading.Err() == nil {
						log.Fatal(err)
					}
				}
				<-leading.Done()
			},
			OnStoppedLeading: func() {
				if ctx.Err() == nil {
					log.Fatal("leaderelection lost")
				}
			},
		},
	})
}

// Command podnetwork is the laboratory's pod network behind the charts of Cilium and Calico: each node's pod range into
// a bridge's settings, routes to the other nodes' ranges and, where it replaces kube-proxy, Services by nftables.
// docs/lab/podnetwork.md says what it does and what it does not do.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func main() {
	log.SetFlags(log.LstdFlags | log.Lmicroseconds)
	role := "agent"
	if len(os.Args) > 1 && os.Args[1][0] != '-' {
		role = os.Args[1]
		os.Args = append(os.Args[:1], os.Args[2:]...)
	}
	folder := flag.String("cni-folder", "/host/etc/cni/net.d", "where the node's pod network settings go")
	services := flag.Bool("services", false, "route Services too (agent; replaces kube-proxy)")
	installation := flag.String("installation", "", "the chart's installation values as JSON (calico-operator)")
	image := flag.String("image", "", "image of the node agent (calico-operator)")
	pools := flag.String("pools", "", "comma-separated ranges that pods must lie in; empty: the node's own range as it is (agent)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	// KUBERNETES_SERVICE_HOST and _PORT lead to the API: the Service's address, or what the chart was told.
	config, err := rest.InClusterConfig()
	if err != nil {
		log.Fatal(err)
	}
	// A connection begun before kube-proxy has written its rules never comes through; client-go would wait 30 s for it.
	config.Dial = (&net.Dialer{Timeout: 3 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("%s, API at %s", role, config.Host)
	switch role {
	case "agent":
		err = runAgent(ctx, client, os.Getenv("NODE_NAME"), *folder, *pools, *services)
	case "operator":
		// Cilium's operator: nothing to hand out here, the node ranges are Kubernetes' own.
		<-ctx.Done()
	case "calico-operator":
		err = runOperator(ctx, client, *installation, *image)
	default:
		log.Fatalf("no role called %q", role)
	}
	if err != nil && ctx.Err() == nil {
		log.Fatal(err)
	}
}

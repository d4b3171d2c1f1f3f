// Command kube-vip stands for kube-vip's control-plane mode in the laboratory: one address, held by whichever server
// holds the lease. docs/lab/kube-vip.md says what it does as the real one and what it does not.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func env(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func seconds(name string, otherwise int) time.Duration {
	text := os.Getenv(name)
	if text == "" {
		return time.Duration(otherwise) * time.Second
	}
	number, err := strconv.Atoi(text)
	if err != nil || number <= 0 {
		log.Fatalf("%s=%q is no number of seconds", name, text)
	}
	return time.Duration(number) * time.Second
}

// connection reads the kubeconfig named by k8s_config_file, tls-server-name included. Without the setting the real
// program takes admin.conf and asks https://kubernetes:6443; so does this one.
func connection() (*rest.Config, error) {
	file, host := os.Getenv("k8s_config_file"), ""
	if file == "" {
		file, host = "/etc/kubernetes/admin.conf", "https://kubernetes:"+env("port", "6443")
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, err
	}
	if host != "" {
		config.Host = host
	}
	if address := os.Getenv("kubernetes_addr"); address != "" {
		config.Host = address
	}
	config.Timeout = 10 * time.Second
	return config, nil
}

// arpRate is the time between announcements. Values below 500 ms are reset to the default, as in the real program.
func arpRate() time.Duration {
	rate, err := strconv.Atoi(env("vip_arpRate", "3000"))
	if err != nil || rate < 500 {
		rate = 3000
	}
	return time.Duration(rate) * time.Millisecond
}

func main() {
	log.SetFlags(log.LstdFlags | log.Lmicroseconds)
	if len(os.Args) < 2 || os.Args[1] != "manager" {
		fmt.Fprintln(os.Stderr, "usage: kube-vip manager")
		os.Exit(2)
	}
	if os.Getenv("cp_enable") != "true" || os.Getenv("vip_arp") != "true" || os.Getenv("vip_leaderelection") != "true" {
		log.Fatal("this stand-in knows cp_enable, vip_arp and vip_leaderelection, all \"true\", and nothing else")
	}
	vip, err := newAddress(os.Getenv("address"), env("vip_subnet", "32"), os.Getenv("vip_interface"))
	if err != nil {
		log.Fatal(err)
	}
	vip.remove("left over from an earlier life")
	config, err := connection()
	if err != nil {
		log.Fatalf("kubeconfig: %v", err)
	}
	client, err := coordination.NewForConfig(config)
	if err != nil {
		log.Fatalf("kubeconfig: %v", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	go func() {
		if err := http.ListenAndServe(env("prometheus_server", ":2112"), nil); err != nil {
			log.Printf("metrics: %v", err)
		}
	}()
	name := env("vip_nodename", hostname())
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: env("vip_leasename", "plndr-cp-lock"), Namespace: env("cp_namespace", "kube-system")},
		Client:     client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: name},
	}
	rate := arpRate()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   seconds("vip_leaseduration", 15),
		RenewDeadline:   seconds("vip_renewdeadline", 10),
		RetryPeriod:     seconds("vip_retryperiod", 2),
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) { vip.hold(leading, rate) },
			// The address goes only here, after client-go has tried to release the lease: so does the real one's.
			OnStoppedLeading: func() { vip.remove("the lease is lost") },
			OnNewLeader:      func(holder string) { log.Printf("%s holds the lease", holder) },
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	elector.Run(ctx)
	if ctx.Err() == nil {
		log.Fatal("lost leadership; ending so that kubelet starts me anew")
	}
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		log.Fatal(err)
	}
	return name
}

// Command policies enforces the NetworkPolicies of the embedded test cluster on one node. It is kube-router's policy controller
// (iptables and ipset), without kube-router's routes, service proxy and BGP support.
package main

import (
	"context"
	"flag"
	"log"
	"os/signal"
	"sync"
	"syscall"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "a user that may list and watch pods, namespaces, nodes and policies")
	node := flag.String("hostname-override", "", "name of the node")
	services := flag.String("service-cluster-ip-range", "", "CIDR of the services")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := enforce(ctx, *kubeconfig, *node, *services); err != nil {
		log.Fatal(err)
	}
}

// enforce runs until ctx ends. It then removes its rules, because another pod may later get an address that they contain.
func enforce(ctx context.Context, kubeconfig, node, services string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	told := options.NewKubeRouterConfig()
	told.EnableIPv4 = true
	told.HostnameOverride = node
	told.ClusterIPCIDRs = []string{services}
	iptables, sets, err := netpol.NewIPTablesHandlers(told)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	controller, err := netpol.NewNetworkPolicyController(
		client, told, pods, policies, namespaces, &sync.Mutex{}, iptables, sets)
	if err != nil {
		return err
	}
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods: controller.PodEventHandler, namespaces: controller.NamespaceEventHandler,
		policies: controller.NetworkPolicyEventHandler,
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	beats := make(chan *healthcheck.ControllerHeartbeat)
	var running sync.WaitGroup
	running.Add(1)
	go controller.Run(beats, ctx.Done(), &running)
	ended := make(chan struct{})
	go func() {
		running.Wait()
		close(ended)
	}()
	for {
		select {
		case <-ended:
			controller.Cleanup()
			return nil
		case <-beats: // one at the beginning of each round; nothing else reads them
		}
	}
}

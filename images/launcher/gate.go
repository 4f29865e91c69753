package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	gateLook    = 200 * time.Millisecond
	gateSayEach = 10 * time.Second
)

// waiting is what a gate knows while it waits.
type waiting struct {
	rank     int
	address  string // this pod's own
	host     string // this rank's name, where the list has names
	topology string
	named    string // what the list has for this rank, where that is not this pod's address
	unknown  string // the name that does not resolve
	found    int    // so many of the names that this rank dials resolve: they are not asked for again

	lookup func(name string) ([]string, error)
	out    io.Writer
}

// gate waits until this pod's own address stands in the job's list, so that the main container starts with true
// addresses. It runs from the main container's image: once it does, that image is on the node.
func gate([]string) int {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	w, problem := newWaiting()
	if problem != "" {
		return refuse("%s", problem)
	}
	return w.wait(ended)
}

// wait returns the gate's exit code: 0 once the list names this pod.
func (w *waiting) wait(ended <-chan os.Signal) int {
	begin, resolved := time.Now(), time.Now()
	said := begin
	for looks := 0; !w.isNamed(); looks++ {
		if looks == 0 {
			w.tell("rank %d waits for the addresses of all ranks", w.rank)
		}
		if code := nap(ended, gateLook); code != 0 {
			return code
		}
		if w.unknown == "" {
			resolved = time.Now()
		}
		if time.Since(said) < gateSayEach {
			continue
		}
		said = time.Now()
		why := w.why()
		if w.unknown != "" && time.Since(resolved) >= seconds("DIJOB_RESOLVE_SECONDS", 60) {
			// Said where the job's conditions find it: as the end of this container.
			return refuse("rank %d: %s; is the cluster's DNS well?", w.rank, why)
		}
		w.tell("rank %d has waited %.0f s: %s. Which rank, and why: kubectl describe dijob %s -n %s", w.rank,
			time.Since(begin).Seconds(), why, os.Getenv("DI_JOB_NAME"), os.Getenv("DI_JOB_NAMESPACE"))
	}
	// Where no launcher will look (an image's own entry point), only time helps: the kubelet may still have a view of the
	// pod from before the list.
	if code := nap(ended, seconds("DIJOB_SETTLE_SECONDS", 0)); code != 0 {
		return code
	}
	w.tell("open after %.0f s: rank %d is %s", time.Since(begin).Seconds(), w.rank, w.address)
	return 0
}

func newWaiting() (*waiting, string) {
	rank, err := strconv.Atoi(os.Getenv("DI_RANK"))
	if err != nil || rank < 0 {
		return nil, fmt.Sprintf("DI_RANK is '%s', it must be a number; the operator sets it", os.Getenv("DI_RANK"))
	}
	address := os.Getenv("DI_POD_IP")
	if address == "" {
		return nil, "DI_POD_IP is empty; the operator sets it from status.podIP"
	}
	host, topology := os.Getenv("DIJOB_HOST"), os.Getenv("DI_TOPOLOGY")
	w := &waiting{rank: rank, address: address, host: host, topology: topology, lookup: net.LookupHost, out: os.Stdout}
	return w, ""
}

// isNamed says whether the list names this very pod: after a new sandbox (same pod, new IP) the old list is still there.
func (w *waiting) isNamed() bool {
	w.named, w.unknown = "", ""
	list := podFile("node-ips")
	ranks := strings.Split(list, ",")
	if list == "" || len(ranks) <= w.rank {
		return false
	}
	if w.host != "" {
		return w.resolves(ranks)
	}
	w.named = ranks[w.rank]
	return w.named == w.address
}

// resolves says whether this pod's name leads to this very pod, and those that it dials lead somewhere: NNG never tries a
// name again that did not resolve.
func (w *waiting) resolves(ranks []string) bool {
	w.unknown = w.host
	if addresses, err := w.lookup(w.host); err != nil || !slices.Contains(addresses, w.address) {
		return false
	}
	for last := dials(w.topology, w.rank); w.found < last; w.found++ {
		w.unknown = ranks[w.found]
		if _, err := w.lookup(w.unknown); err != nil {
			return false
		}
	}
	w.unknown = ""
	return true
}

func (w *waiting) why() string {
	switch {
	case w.unknown == w.host && w.host != "":
		return fmt.Sprintf("%s does not lead to this pod (%s)", w.unknown, w.address)
	case w.unknown != "":
		return w.unknown + " does not resolve"
	case w.named != "":
		return fmt.Sprintf("the list names %s for this rank, this pod has %s: a new list must come", w.named, w.address)
	}
	return "not every rank of the job has an address yet"
}

// dials returns how many ranks, from rank 0 on, this one dials (ding 0.5.3, k8s_parser.py).
func dials(topology string, rank int) int {
	switch topology {
	case "mesh":
		return rank
	case "star":
		return min(rank, 1)
	}
	return 0
}

// nap waits. It returns the exit code that a signal asks for which has come meanwhile, 0 where none has.
func nap(ended <-chan os.Signal, long time.Duration) int {
	select {
	case which := <-ended:
		return 128 + int(which.(syscall.Signal))
	case <-time.After(long):
		return 0
	}
}

func seconds(name string, otherwise float64) time.Duration {
	value, err := strconv.ParseFloat(os.Getenv(name), 64)
	if err != nil || value < 0 {
		value = otherwise
	}
	return time.Duration(value * float64(time.Second))
}

// refuse says on the standard error why the gate ends.
func refuse(format string, values ...any) int {
	fmt.Fprintf(os.Stderr, "dijob gate: "+format+"\n", values...)
	return 1
}

func (w *waiting) tell(format string, values ...any) {
	fmt.Fprintf(w.out, "dijob gate: "+format+"\n", values...)
}

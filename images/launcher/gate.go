package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
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
	host     string // this rank's name, if the list has names
	topology string
	named    string // what the list has for this rank, where that is not this pod's address
	unknown  string // the name that does not resolve
	found    int    // so many of the names that this rank dials resolve: they are not asked for again

	asked    time.Time // when DNS was first asked for the job's Service
	nameless int       // ranks that the Service does not have yet

	lookup func(name string) ([]string, error)
	out    io.Writer
}

// gate waits until this pod's own address stands in the job's list, so that the main container starts with true
// addresses. It runs from the main container's image: once it does, that image is on the node.
func gate([]string) int {
	go endOnSignal(received)
	os.RemoveAll(runFolder()) // a new sandbox: what ran in the old one has not failed
	w, problem := newWaiting()
	if err := linkTopology(); problem == "" && err != nil {
		problem = fmt.Sprintf("cannot write topology.json: /run/dijob must be an emptyDir that this user can write to: %v", err)
	}
	if problem == "" {
		problem = w.wait()
	}
	if problem != "" {
		// Said where the job's conditions find it: as the end of this container.
		fmt.Fprintln(os.Stderr, "dijob gate: "+problem)
		return 1
	}
	return 0
}

// endOnSignal ends this program at once, also in the middle of a question to a DNS that does not answer.
func endOnSignal(signals <-chan os.Signal) { os.Exit(exitCode(<-signals)) }

// wait returns once the list names this pod, or with the reason why there is nothing to wait for.
func (w *waiting) wait() (problem string) {
	begin, resolved := time.Now(), time.Now()
	said := begin
	for looks := 0; !w.isNamed(); looks++ {
		if looks == 0 {
			w.tell("rank %d is waiting for the addresses of all ranks", w.rank)
		}
		time.Sleep(gateLook)
		if w.unknown == "" {
			resolved = time.Now()
		}
		if time.Since(said) < gateSayEach {
			continue
		}
		said = time.Now()
		why := w.why()
		if w.unknown != "" && time.Since(resolved) >= seconds("DIJOB_RESOLVE_SECONDS", 60) {
			return fmt.Sprintf("rank %d: %s; check the cluster DNS", w.rank, why)
		}
		w.tell("rank %d has waited %.0f s: %s. To see which ranks are missing, run: kubectl describe dijob %s -n %s", w.rank,
			time.Since(begin).Seconds(), why, os.Getenv("DI_JOB_NAME"), os.Getenv("DI_JOB_NAMESPACE"))
	}
	// Where no launcher will look (an image's own entry point), only time helps: the kubelet may still have a view of the
	// pod from before the list.
	time.Sleep(seconds("DIJOB_SETTLE_SECONDS", 0))
	w.tell("open after %.0f s: the address of rank %d is %s", time.Since(begin).Seconds(), w.rank, w.address)
	return ""
}

func newWaiting() (*waiting, string) {
	rank, err := strconv.Atoi(os.Getenv("DI_RANK"))
	if err != nil || rank < 0 {
		return nil, fmt.Sprintf("DI_RANK is '%s'; it must be a number, which the operator sets", os.Getenv("DI_RANK"))
	}
	address := os.Getenv("DI_POD_IP")
	if address == "" {
		return nil, "DI_POD_IP is empty; the operator sets it from status.podIP"
	}
	topology := os.Getenv("DI_TOPOLOGY")
	return &waiting{rank: rank, address: address, topology: topology, lookup: net.LookupHost, out: os.Stdout}, ""
}

// isNamed says whether the list names this very pod: after a new sandbox (same pod, new IP) the old list is still there.
func (w *waiting) isNamed() bool {
	w.named, w.host, w.unknown = "", "", ""
	_, list := newestList(annotations())
	ranks := strings.Split(list, ",")
	if list == "" || len(ranks) <= w.rank {
		return false
	}
	if own := ranks[w.rank]; isName(own) {
		w.host = own
		return w.resolves(ranks)
	}
	w.named = ranks[w.rank]
	return w.named == w.address && w.namesAreKnown(ranks)
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
		return fmt.Sprintf("%s does not resolve to this pod (%s)", w.unknown, w.address)
	case w.unknown != "":
		return w.unknown + " does not resolve"
	case w.nameless > 0:
		return fmt.Sprintf("the Service %s has no DNS record for %d ranks yet", os.Getenv("DIJOB_SERVICE"), w.nameless)
	case w.named != "":
		return fmt.Sprintf("the peer list has %s for this rank, but this pod has %s; a new peer list is needed", w.named, w.address)
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

func seconds(name string, otherwise float64) time.Duration {
	value, err := strconv.ParseFloat(os.Getenv(name), 64)
	if err != nil || value < 0 {
		value = otherwise
	}
	return time.Duration(value * float64(time.Second))
}

func (w *waiting) tell(format string, values ...any) {
	fmt.Fprintf(w.out, "dijob gate: "+format+"\n", values...)
}

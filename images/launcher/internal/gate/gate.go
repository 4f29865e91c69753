// Package gate waits, in an init container, until the job's peer list contains this pod.
package gate

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"dijob-launcher/internal/env"
	"dijob-launcher/internal/peers"
)

// waiting is the state of a gate.
type waiting struct {
	rank     int
	address  string // this pod's own IP
	host     string // this rank's host name, if the peer list has names
	topology string
	named    string // this rank's entry in the peer list
	unknown  string // the name that does not resolve
	found    int    // how many of the names to which this rank connects have resolved; they are not looked up again

	asked    time.Time // when the job's Service was first looked up
	nameless int       // how many ranks have no DNS record of the Service yet

	lookup func(name string) ([]string, error)
	out    io.Writer
}

// Run waits until the job's peer list contains this pod's own address, so that the main container starts with correct
// addresses. It runs in an init container that uses the main container's image, so the image is already on the node when the
// gate opens. So an image pull cannot make one rank start later than the others.
func Run([]string) int {
	go endOnSignal(env.Received)
	// Init containers run again only in a new sandbox. Programs that ran in the old sandbox were lost with it, and have not
	// failed.
	os.RemoveAll(env.RunFolder())
	if err := open(); err != nil {
		// The end of the container's log becomes its termination message, which the job's conditions quote.
		fmt.Fprintln(os.Stderr, "dijob gate:", err)
		return 1
	}
	return 0
}

// open returns as soon as the main container may start. It returns an error if the container cannot start.
func open() error {
	w, err := newWaiting()
	if err != nil {
		return err
	}
	if err := peers.LinkTopology(); err != nil {
		return fmt.Errorf("cannot write topology.json: /run/dijob must be an emptyDir that this user can write to: %w", err)
	}
	return w.wait()
}

// endOnSignal ends this program as soon as it receives a signal, even during a DNS lookup that does not return.
func endOnSignal(signals <-chan os.Signal) { os.Exit(env.ExitCode(<-signals)) }

// wait returns as soon as the peer list contains this pod. It returns an error if names do not resolve within
// DIJOB_RESOLVE_SECONDS: waiting longer would not help, and the job's status should show the reason. The wait
// for the peer list itself has no time limit, because the operator has its own timeout for that.
func (w *waiting) wait() error {
	begin, resolved := time.Now(), time.Now()
	said := begin
	for looks := 0; !w.isListed(); looks++ {
		if looks == 0 {
			w.logf("rank %d is waiting for the addresses of all ranks", w.rank)
		}
		time.Sleep(peers.PollInterval)
		if w.unknown == "" {
			resolved = time.Now()
		}
		if time.Since(said) < peers.LogInterval {
			continue
		}
		said = time.Now()
		why := w.why()
		if w.unknown != "" && time.Since(resolved) >= env.Seconds("DIJOB_RESOLVE_SECONDS", 60) {
			return fmt.Errorf("rank %d: %s; check the cluster DNS", w.rank, why)
		}
		w.logf("rank %d has waited %.0f s: %s. To see which ranks are missing, run: kubectl describe dijob %s -n %s", w.rank,
			time.Since(begin).Seconds(), why, os.Getenv("DI_JOB_NAME"), os.Getenv("DI_JOB_NAMESPACE"))
	}
	// Without a launcher, the kubelet sets the variables of the main container. It may still use a version of the pod that is
	// older than the one in the volume. The gate cannot see that, so it waits a moment.
	time.Sleep(env.Seconds("DIJOB_SETTLE_SECONDS", 0))
	w.logf("open after %.0f s: the address of rank %d is %s", time.Since(begin).Seconds(), w.rank, w.address)
	return nil
}

// newWaiting returns a gate for this pod, or an error that names the missing or invalid variable.
func newWaiting() (*waiting, error) {
	rank, err := strconv.Atoi(os.Getenv("DI_RANK"))
	if err != nil || rank < 0 {
		return nil, fmt.Errorf("DI_RANK is '%s'; it must be a number, which the operator sets", os.Getenv("DI_RANK"))
	}
	address := os.Getenv("DI_POD_IP")
	if address == "" {
		return nil, errors.New("DI_POD_IP is empty; the operator sets it from status.podIP")
	}
	topology := os.Getenv("DI_TOPOLOGY")
	return &waiting{rank: rank, address: address, topology: topology, lookup: net.LookupHost, out: os.Stdout}, nil
}

// isListed returns whether the peer list contains this pod's current address. A list alone is not enough. In a new sandbox, the
// pod has another IP, but its annotation still contains the old one.
func (w *waiting) isListed() bool {
	w.named, w.host, w.unknown = "", "", ""
	_, list := env.NewestList(env.Annotations())
	ranks := strings.Split(list, ",")
	if list == "" || len(ranks) <= w.rank {
		return false
	}
	if own := ranks[w.rank]; peers.IsName(own) {
		w.host = own
		return w.resolves(ranks)
	}
	w.named = ranks[w.rank]
	return w.named == w.address && w.serviceHasRecords(ranks)
}

// resolves returns whether this rank's name resolves to this pod, and whether the names of all ranks to which it connects can
// be resolved. The gate must check this, because NNG never retries a name that did not resolve.
func (w *waiting) resolves(ranks []string) bool {
	w.unknown = w.host
	if addresses, err := w.lookup(w.host); err != nil || !slices.Contains(addresses, w.address) {
		return false
	}
	for last := peers.Dials(w.topology, w.rank); w.found < last; w.found++ {
		w.unknown = ranks[w.found]
		if _, err := w.lookup(w.unknown); err != nil {
			return false
		}
	}
	w.unknown = ""
	return true
}

// why describes, for the log, what the gate is waiting for.
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

func (w *waiting) logf(format string, values ...any) {
	fmt.Fprintf(w.out, "dijob gate: "+format+"\n", values...)
}

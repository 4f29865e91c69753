package gate

import (
	"os"
	"strings"
	"time"

	"dijob-launcher/internal/env"
)

// nameSeconds limits the wait for names. With kubeadm's settings, CoreDNS caches an answer for 30 s, even the answer that a
// name does not exist. This limit is longer.
const nameSeconds = 35

// serviceHasRecords returns whether the job's Service has DNS records for all ranks of the peer list. It applies to jobs with
// service: Always (DIJOB_SERVICE). Some programs look up a peer's name only once, and fail if the name does not resolve. The
// peer list is written as soon as all pods have addresses, but on a busy control plane the Service's endpoints come later.
//
// One lookup covers all ranks, because the name of a headless Service resolves to the addresses of all its pods. If the
// records do not appear in time, the gate opens nevertheless, because most programs use the addresses of the peer list.
func (w *waiting) serviceHasRecords(ranks []string) bool {
	service := os.Getenv("DIJOB_SERVICE")
	if service == "" {
		return true
	}
	if w.asked.IsZero() {
		w.asked = time.Now()
	}
	known := map[string]bool{}
	found, _ := w.lookup(service)
	for _, address := range found {
		known[address] = true
	}
	w.nameless = 0
	for _, address := range ranks {
		// A completed rank has a loopback address in the peer list as a placeholder, and no endpoint.
		if !known[address] && !strings.HasPrefix(address, "127.") {
			w.nameless++
		}
	}
	if w.nameless > 0 && time.Since(w.asked) >= env.Seconds("DIJOB_NAME_SECONDS", nameSeconds) {
		w.logf("the Service %s has no DNS record for %d of %d ranks: the program starts without these names", service,
			w.nameless, len(ranks))
		return true
	}
	return w.nameless == 0
}

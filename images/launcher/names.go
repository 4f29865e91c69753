package main

import (
	"os"
	"strings"
	"time"
)

// nameSeconds bounds the wait for names. CoreDNS as kubeadm sets it up keeps an answer for 30 s.
const nameSeconds = 35

// namesAreKnown says whether the cluster's DNS knows all ranks of the list by the job's Service (DIJOB_SERVICE, for a job
// with service: Always). A program may look a peer's name up once and fail: the list comes as soon as all pods have
// addresses, and on a busy control plane the Service's endpoints come later.
//
// One question covers all ranks: a headless Service's own name has the addresses of all its pods. If DNS does not answer in
// time, the gate opens all the same, since most programs use the addresses of the list.
func (w *waiting) namesAreKnown(ranks []string) bool {
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
		// A rank that has finished has a loopback address there, and no endpoint.
		if !known[address] && !strings.HasPrefix(address, "127.") {
			w.nameless++
		}
	}
	if w.nameless > 0 && time.Since(w.asked) >= seconds("DIJOB_NAME_SECONDS", nameSeconds) {
		w.tell("the Service %s has no DNS record for %d of %d ranks: the program starts without these names", service,
			w.nameless, len(ranks))
		return true
	}
	return w.nameless == 0
}

// Package peers describes the peer list: what its entries are, which rank connects to which, and the file topology.json.
package peers

import (
	"net/netip"
	"os"
	"slices"
	"time"

	"dijob-launcher/internal/env"
)

const (
	// PollInterval is how often a program reads the peer list while it waits. This interval adds to the startup time
	// of every job.
	PollInterval = 200 * time.Millisecond
	// LogInterval is how often a waiting program logs what it is waiting for.
	LogInterval = 10 * time.Second
)

// HasNames returns whether a peer list contains host names. One name is enough: even a list of names contains an IP address
// as a placeholder for each completed rank.
func HasNames(nodes []string) bool { return slices.ContainsFunc(nodes, IsName) }

// IsName returns whether an entry of the peer list is a host name rather than an IP address.
func IsName(node string) bool {
	_, err := netip.ParseAddr(node)
	return node != "" && err != nil
}

// ParallelWorkers returns the number of DI-engine processes of each rank.
func ParallelWorkers() int { return max(1, env.Natural(os.Getenv("DI_PARALLEL_WORKERS"))) }

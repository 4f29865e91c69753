// Package reach checks whether this rank can reach the addresses to which it will connect.
package reach

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"dijob-launcher/internal/env"
	"dijob-launcher/internal/peers"
)

const (
	logInterval = 10 * time.Second // how often the log names the addresses that are not reached
	pause       = 500 * time.Millisecond
	// The number of parallel connection attempts. With this number, one round of 1,499 peers that do not answer fits into the
	// default limit of 60 s (12 batches of 3 s).
	parallel = 128
	// The exit code of `reach` if an address cannot be reached. Any other nonzero code means that the check itself failed;
	// dijob_runtime/world.py ignores such a code.
	unreachableExit = 3
)

// Run does the check for programs that connect without ditask. The launcher's ditask does the same check before it starts the
// image's ditask. The arguments are TOPOLOGY PORT WORKERS [ATTACH], or `redis HOST PORT`.
func Run(words []string) int {
	targets, err := parseArguments(words)
	if err != nil {
		env.Logf("reach: %v", err)
		return 2
	}
	if err := Check(targets); err != nil {
		Report(err)
		return unreachableExit
	}
	return 0
}

// parseArguments returns the addresses that the arguments of `reach` select.
func parseArguments(words []string) ([]Target, error) {
	if len(words) == 3 && words[0] == "redis" {
		return RedisTargets(words[1], words[2]), requireNumbers(words[2])
	}
	if len(words) != 3 && len(words) != 4 {
		return nil, errors.New("usage: reach TOPOLOGY PORT WORKERS [ATTACH] | reach redis HOST PORT")
	}
	if err := requireNumbers(words[1], words[2], os.Getenv("DI_RANK")); err != nil {
		return nil, err
	}
	if len(words) == 4 && words[3] != "" {
		return AttachedTargets(words[3]), nil
	}
	if os.Getenv("DI_NODES") == "" {
		return nil, errors.New("DI_NODES is empty")
	}
	return PeerTargets(words[0], env.Natural(words[1]), env.Natural(words[2])), nil
}

// requireNumbers returns an error for a word that is not a number in the range of a port, 0 to 65535.
func requireNumbers(words ...string) error {
	for _, word := range words {
		if _, err := strconv.ParseUint(word, 10, 16); err != nil {
			return fmt.Errorf("'%s' is not a valid number (a port, workers or DI_RANK)", word)
		}
	}
	return nil
}

// Target is an address to which this rank connects. Messages also name the owner of the address, e.g. "rank 3".
type Target struct {
	host, port string
	whose      string
	isRedis    bool
}

// Address returns the target as HOST:PORT.
func (t Target) Address() string { return net.JoinHostPort(strings.Trim(t.host, "[]"), t.port) }

// PeerTargets returns the addresses to which this rank connects according to DI-engine's k8s parser: all workers of the ranks
// that the topology selects.
func PeerTargets(topology string, port, workers int) []Target {
	var found []Target
	nodes := strings.Split(os.Getenv("DI_NODES"), ",")
	last := min(peers.Dials(topology, env.Natural(os.Getenv("DI_RANK"))), len(nodes))
	for rank, node := range nodes[:last] {
		for worker := range workers {
			found = append(found, Target{host: node, port: strconv.Itoa(port + worker), whose: fmt.Sprintf("rank %d", rank)})
		}
	}
	return found
}

// RedisTargets returns the address of the Redis server.
func RedisTargets(host, port string) []Target {
	return []Target{{host: host, port: port, whose: "Redis", isRedis: true}}
}

// AttachedTargets returns the addresses of --attach-to. It skips entries without a port, because ditask reports them.
func AttachedTargets(links string) []Target {
	var found []Target
	for _, link := range strings.Split(links, ",") {
		host, port, _ := cutLast(strings.TrimSpace(link), ":")
		if _, err := strconv.Atoi(port); err == nil && strings.Contains(link, "tcp://") {
			found = append(found, Target{host: strings.ReplaceAll(host, "tcp://", ""), port: port, whose: "--attach-to"})
		}
	}
	return found
}

// Check keeps trying until all targets have been reached, for at most DIJOB_REACH_SECONDS. If some cannot be reached, it
// returns an error that names them and says what to check.
func Check(targets []Target) error {
	bound := env.Seconds("DIJOB_REACH_SECONDS", 60)
	err := reachWithin(targets, bound)
	if err == nil {
		return nil
	}
	look := "those pods, their nodes and the network policies"
	if targets[0].isRedis {
		look = "the Redis server (spec.messageQueue)"
	}
	return fmt.Errorf("rank %s cannot reach %w. Gave up after %g s, because the job would hang otherwise. Check %s",
		os.Getenv("DI_RANK"), err, bound.Seconds(), look)
}

// Report writes an error to the log and to the termination message, which the job's status quotes.
func Report(err error) {
	env.Logf("%v", err)
	// Outside a container this file does not exist, and it must not be created there.
	if file, failed := os.OpenFile(env.TerminationLog(), os.O_WRONLY|os.O_TRUNC, 0); failed == nil {
		file.WriteString(err.Error())
		file.Close()
	}
}

// unreachedError lists targets that could not be reached, and the reason for each.
type unreachedError struct {
	targets []Target
	reasons []error
}

// reachWithin returns an unreachedError if some targets could not be reached within the limit.
func reachWithin(targets []Target, bound time.Duration) error {
	begin, said := time.Now(), time.Time{}
	for {
		left := bound - time.Since(begin)
		// At most 3 s for each attempt. This leaves time for the kernel to retransmit a lost SYN, which it does after 1 s.
		// At least 1 s even in the last round, because a slow peer is not an unreachable one.
		lost := connectAll(targets, max(time.Second, min(3*time.Second, left)))
		left = bound - time.Since(begin)
		if len(lost.targets) == 0 {
			return nil
		}
		if left <= 0 {
			return lost
		}
		if time.Since(said) > logInterval {
			said = time.Now()
			env.Logf("cannot reach %v; trying for up to %g s", lost, bound.Seconds())
		}
		time.Sleep(min(pause, left))
		targets = lost.targets
	}
}

// connectAll tries each target once. It returns those that could not be reached.
func connectAll(targets []Target, patience time.Duration) (lost unreachedError) {
	answers := make([]error, len(targets))
	slots, all := make(chan struct{}, parallel), sync.WaitGroup{}
	for i, each := range targets {
		slots <- struct{}{}
		all.Go(func() {
			answers[i] = each.connect(patience)
			<-slots
		})
	}
	all.Wait()
	for i, err := range answers {
		if err != nil {
			lost.targets, lost.reasons = append(lost.targets, targets[i]), append(lost.reasons, err)
		}
	}
	return lost
}

// connect connects once, and returns an error if the target could not be reached. A peer that refuses the connection counts as
// reached. Its program may not be listening yet, and NNG retries the connection. A Redis server counts as
// reached only if it accepts the connection and answers PING. A listening NNG socket is not affected by a connection that is
// closed at once.
func (t Target) connect(patience time.Duration) error {
	link, err := net.DialTimeout("tcp", t.Address(), patience)
	if err != nil {
		if isThere(err) && !t.isRedis {
			return nil
		}
		return reasonOf(err)
	}
	defer link.Close()
	// Close with a reset. Otherwise the connection's local port would stay in TIME_WAIT, and this rank may be about to listen
	// on just that port.
	link.(*net.TCPConn).SetLinger(0)
	if t.isRedis {
		return ping(link, patience)
	}
	return nil
}

// isThere returns whether an error shows that the host exists: it has answered, but has refused or closed the connection.
func isThere(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.ECONNABORTED)
}

// reasonOf returns only the reason for a network error, without the addresses, which the message already contains.
func reasonOf(err error) error {
	var number syscall.Errno
	var name *net.DNSError
	var slow net.Error
	switch {
	case errors.As(err, &number):
		words := number.Error()
		return errors.New(strings.ToUpper(words[:1]) + words[1:])
	case errors.As(err, &name) && name.IsNotFound:
		return errors.New("no such name")
	case errors.As(err, &name):
		return errors.New("name lookup failed: " + name.Err)
	case errors.As(err, &slow) && slow.Timeout():
		return errTimedOut
	}
	return err
}

var errTimedOut = errors.New("timed out")

// ping sends PING, and returns an error if the server does not answer PONG.
func ping(link net.Conn, patience time.Duration) error {
	link.SetDeadline(time.Now().Add(patience))
	if _, err := link.Write([]byte("PING\r\n")); err != nil {
		return reasonOf(err)
	}
	answer := make([]byte, 200)
	length, err := link.Read(answer)
	if err != nil && length == 0 {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return errTimedOut
		}
		return errors.New("not a Redis server: it answered ''")
	}
	said := strings.TrimSpace(string(answer[:length]))
	switch {
	case strings.HasPrefix(said, "-NOAUTH"):
		return errors.New("it requires a password, which DI-engine cannot send")
	case said == "+PONG":
		return nil
	}
	return fmt.Errorf("not a Redis server: it answered '%s'", said[:min(len(said), 80)])
}

// Error names each rank only once, although a rank can have many workers. It names at most ten ranks, because the kubelet
// truncates a termination message at 4 KiB.
func (e unreachedError) Error() string {
	var lines []string
	seen := map[string]bool{}
	for i, each := range e.targets {
		who := each.whose + " (" + each.host
		if !seen[who] {
			seen[who] = true
			lines = append(lines, fmt.Sprintf("%s: %v)", who, e.reasons[i]))
		}
	}
	more := ""
	if len(lines) > 10 {
		more = fmt.Sprintf(" and %d more", len(lines)-10)
		lines = lines[:10]
	}
	return strings.Join(lines, ", ") + more
}

// cutLast is strings.Cut at the last occurrence of the separator.
func cutLast(text, separator string) (before, after string, found bool) {
	if i := strings.LastIndex(text, separator); i >= 0 {
		return text[:i], text[i+len(separator):], true
	}
	return text, "", false
}

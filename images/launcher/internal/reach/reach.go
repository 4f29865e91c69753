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
	reachSayEach = 10 * time.Second
	reachNap     = 500 * time.Millisecond
	// The number of parallel connection attempts. With it, one round of 1,499 peers that do not answer fits into the default
	// limit of 60 s (12 batches of 3 s).
	reachAtOnce = 128
	// The exit code of `reach` if an address cannot be reached. Any other code but 0 means that the check itself failed, and
	// dijob_runtime/world.py then ignores it.
	unreachableExit = 3
)

// Run is the check that ditask does before it starts, for programs that connect without ditask. The arguments are
// TOPOLOGY PORT WORKERS [ATTACH], or `redis HOST PORT`.
func Run(words []string) int {
	targets, err := asked(words)
	if err != nil {
		env.Say("reach: %v", err)
		return 2
	}
	if !All(targets) {
		return unreachableExit
	}
	return 0
}

// asked returns the addresses that the arguments of `reach` select.
func asked(words []string) ([]Target, error) {
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

// Target is an address to which this rank connects, and whose address it is, for messages.
type Target struct {
	host, port string
	whose      string
	broker     bool // whether it is the Redis server
}

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
	return []Target{{host: host, port: port, whose: "Redis", broker: true}}
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

// All tries until all targets are reached, for at most DIJOB_REACH_SECONDS. If some are not, it returns false and
// writes a message to the log and to the termination message, where the job's status finds it.
func All(targets []Target) bool {
	bound := env.Seconds("DIJOB_REACH_SECONDS", 60)
	lost := unreachable(targets, bound)
	if lost == "" {
		return true
	}
	look := "those pods, their nodes and the network policies"
	if targets[0].broker {
		look = "the Redis server (spec.messageQueue)"
	}
	text := fmt.Sprintf("rank %s cannot reach %s. Gave up after %g s, because the job would hang otherwise. Check %s",
		os.Getenv("DI_RANK"), lost, bound.Seconds(), look)
	env.Say("%s", text)
	// Outside a container this file does not exist, and it must not be created there.
	if file, err := os.OpenFile(env.TerminationLog(), os.O_WRONLY|os.O_TRUNC, 0); err == nil {
		file.WriteString(text)
		file.Close()
	}
	return false
}

// unreachable returns a description of the targets that are not reached within the limit; "" if all are.
func unreachable(targets []Target, bound time.Duration) string {
	begin, said := time.Now(), time.Time{}
	for {
		left := bound - time.Since(begin)
		// At most 3 s for each attempt: the kernel repeats a lost SYN after 1 s. At least 1 s even in the last round, because a
		// slow peer is not an unreachable one.
		var problems []string
		targets, problems = ask(targets, max(time.Second, min(3*time.Second, left)))
		left = bound - time.Since(begin)
		if len(targets) == 0 || left <= 0 {
			return describe(targets, problems)
		}
		if time.Since(said) > reachSayEach {
			said = time.Now()
			env.Say("cannot reach %s; trying for up to %g s", describe(targets, problems), bound.Seconds())
		}
		time.Sleep(min(reachNap, left))
	}
}

// ask tries each target once. It returns the targets that are not reached, and the reason for each.
func ask(targets []Target, patience time.Duration) (missing []Target, why []string) {
	answers := make([]string, len(targets))
	slots, all := make(chan struct{}, reachAtOnce), sync.WaitGroup{}
	for i, each := range targets {
		slots <- struct{}{}
		all.Go(func() {
			answers[i] = each.problem(patience)
			<-slots
		})
	}
	all.Wait()
	for i, answer := range answers {
		if answer != "" {
			missing, why = append(missing, targets[i]), append(why, answer)
		}
	}
	return missing, why
}

// problem connects once. It returns why the target is not reached; "" if it is. A peer that refuses the connection counts as
// reached, because its program may not listen yet and NNG retries it. A Redis server must accept it. A listening NNG is not
// affected by a connection that is closed at once.
func (t Target) problem(patience time.Duration) string {
	link, err := net.DialTimeout("tcp", net.JoinHostPort(strings.Trim(t.host, "[]"), t.port), patience)
	if err != nil {
		if isThere(err) && !t.broker {
			return ""
		}
		return inWords(err)
	}
	defer link.Close()
	// Close with a reset. Otherwise the connection's local port would stay in TIME_WAIT, and this rank may be about to listen
	// on just that port.
	link.(*net.TCPConn).SetLinger(0)
	if t.broker {
		return redisProblem(link, patience)
	}
	return ""
}

// isThere returns whether an error shows that the host answers, although no program accepts the connection.
func isThere(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.ECONNABORTED)
}

// inWords returns only the reason of a network error, without the addresses, which the message already contains.
func inWords(err error) string {
	var number syscall.Errno
	var name *net.DNSError
	var slow net.Error
	switch {
	case errors.As(err, &number):
		words := number.Error()
		return strings.ToUpper(words[:1]) + words[1:]
	case errors.As(err, &name) && name.IsNotFound:
		return "no such name"
	case errors.As(err, &name):
		return "name lookup failed: " + name.Err
	case errors.As(err, &slow) && slow.Timeout():
		return "timed out"
	}
	return err.Error()
}

// redisProblem sends PING and returns the problem if the server does not answer PONG; else "".
func redisProblem(link net.Conn, patience time.Duration) string {
	link.SetDeadline(time.Now().Add(patience))
	if _, err := link.Write([]byte("PING\r\n")); err != nil {
		return inWords(err)
	}
	answer := make([]byte, 200)
	length, err := link.Read(answer)
	if err != nil && length == 0 {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return "timed out"
		}
		return "not a Redis server: it answered ''"
	}
	said := strings.TrimSpace(string(answer[:length]))
	switch {
	case strings.HasPrefix(said, "-NOAUTH"):
		return "it requires a password, which DI-engine cannot send"
	case said == "+PONG":
		return ""
	}
	return fmt.Sprintf("not a Redis server: it answered '%s'", said[:min(len(said), 80)])
}

// describe names each rank once, although it can have many workers, and at most ten ranks, because the kubelet truncates a
// termination message at 4 KiB.
func describe(targets []Target, problems []string) string {
	var lines []string
	seen := map[string]bool{}
	for i, each := range targets {
		who := each.whose + " (" + each.host
		if !seen[who] {
			seen[who] = true
			lines = append(lines, who+": "+problems[i]+")")
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

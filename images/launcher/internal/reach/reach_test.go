package reach

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const addresses = "10.0.0.1,10.0.0.2,10.0.0.3"

func TestDescribesALongListWithinATerminationMessage(t *testing.T) {
	var targets []Target
	for rank := range 1499 {
		for _, port := range []string{"50515", "50516"} { // two workers: each rank is named once
			host := fmt.Sprintf("10.0.%d.%d", rank/250, rank%250)
			targets = append(targets, Target{host: host, port: port, whose: fmt.Sprintf("rank %d", rank)})
		}
	}
	text := unreachedError{targets, slices.Repeat([]error{errors.New("Network is unreachable")}, len(targets))}.Error()
	if !strings.HasSuffix(text, "rank 9 (10.0.0.9: Network is unreachable) and 1489 more") || len(text) >= 1024 {
		t.Errorf("%d characters: %s", len(text), text)
	}
}

func TestAnIPv6AddressLosesItsBrackets(t *testing.T) {
	// ::1 counts as reached whether it refuses or accepts. With brackets it would not be a valid address.
	if err := (Target{host: "[::1]", port: "9"}).connect(time.Second); err != nil {
		t.Error(err)
	}
}

func TestSaysWhyAnAddressIsNotReached(t *testing.T) {
	for want, err := range map[string]error{
		"No route to host":                &net.OpError{Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)},
		"timed out":                       &net.OpError{Err: os.ErrDeadlineExceeded},
		"no such name":                    &net.OpError{Err: &net.DNSError{Err: "no such host", IsNotFound: true}},
		"name lookup failed: i/o timeout": &net.OpError{Err: &net.DNSError{Err: "i/o timeout", IsTimeout: true}},
		"something else":                  errors.New("something else"),
	} {
		if got := reasonOf(err).Error(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

func TestReachIsToldWhatIsDialled(t *testing.T) {
	for words, want := range map[string]string{
		"mesh 6000 2":  "10.0.0.1:6000 10.0.0.1:6001 10.0.0.2:6000 10.0.0.2:6001",
		"mesh 6000 1 ": "10.0.0.1:6000 10.0.0.2:6000",
		"star 6000 1":  "10.0.0.1:6000",
		"alone 6000 1": "",
		"mesh 6000 1 tcp://b:7,ipc:///x,tcp://c:8": "b:7 c:8",
		"redis a 6379": "a:6379",
	} {
		t.Run(words, func(t *testing.T) {
			t.Setenv("DI_NODES", addresses)
			t.Setenv("DI_RANK", "2")
			targets, err := asked(strings.Split(words, " "))
			var got []string
			for _, each := range targets {
				got = append(got, each.host+":"+each.port)
			}
			if err != nil || strings.Join(got, " ") != want {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}

func TestReachRefusesWhatItCannotRead(t *testing.T) {
	for name, row := range map[string]struct{ words, rank, nodes, says string }{
		"nothing":       {"", "2", addresses, "usage: reach TOPOLOGY"},
		"too few":       {"mesh 6000", "2", addresses, "usage: reach TOPOLOGY"},
		"too many":      {"mesh 6000 1 tcp://a:1 x", "2", addresses, "usage: reach TOPOLOGY"},
		"no port":       {"mesh first 1", "2", addresses, "'first' is not a valid number"},
		"no such port":  {"mesh 65536 1", "2", addresses, "'65536' is not a valid number"},
		"no workers":    {"mesh 6000 two", "2", addresses, "'two' is not a valid number"},
		"no redis port": {"redis a b", "2", addresses, "'b' is not a valid number"},
		"no rank":       {"mesh 6000 1", "", addresses, "'' is not a valid number"},
		"no list":       {"mesh 6000 1", "2", "", "DI_NODES is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DI_NODES", row.nodes)
			t.Setenv("DI_RANK", row.rank)
			if targets, err := asked(strings.Fields(row.words)); err == nil || !strings.Contains(err.Error(), row.says) {
				t.Errorf("%v, %v", targets, err)
			}
		})
	}
}

package gate

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"dijob-launcher/internal/env"
	"dijob-launcher/internal/peers"
)

const (
	addresses = "10.0.0.1,10.0.0.2,10.0.0.3"
	names     = "world-0.world,world-1.world,world-2.world"
)

// dns is a DNS with some names, which records the names that were looked up.
type dns struct {
	known map[string]string
	asked []string
}

func (d *dns) lookup(name string) ([]string, error) {
	d.asked = append(d.asked, name)
	if address, is := d.known[name]; is {
		return []string{address}, nil
	}
	return nil, errors.New("no such host")
}

// pod is the environment of a gate: the directory in which the peer list appears, a DNS, and the gate's log.
type pod struct {
	folder string
	dns    *dns
	said   bytes.Buffer
}

func newPod(t *testing.T, known map[string]string) *pod {
	p := &pod{folder: t.TempDir(), dns: &dns{known: known}}
	usual := env.PodFolder
	env.PodFolder = p.folder
	t.Cleanup(func() { env.PodFolder = usual })
	t.Setenv("DI_JOB_NAME", "demo")
	t.Setenv("DI_JOB_NAMESPACE", "team")
	return p
}

func (p *pod) lists(t *testing.T, text string) {
	line := fmt.Sprintf("%snode-ips=%q\n", env.AnnotationPrefix, text)
	if err := os.WriteFile(filepath.Join(p.folder, "annotations"), []byte(line), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (p *pod) gate(rank int, topology string) *waiting {
	address := strings.Split(addresses, ",")[rank]
	return &waiting{
		rank: rank, address: address, topology: topology, lookup: p.dns.lookup, out: &p.said,
	}
}

// begun starts a gate and returns a channel for its result.
func begun(w *waiting) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- w.wait() }()
	return ended
}

// hasOpened fails the test if a gate ends with an error, or later than at its next look.
func hasOpened(t *testing.T, ended <-chan error) {
	begin := time.Now()
	if err := <-ended; err != nil {
		t.Errorf("ends: %v", err)
	}
	if took := time.Since(begin); took > peers.PollInterval {
		t.Errorf("opens after %s", took)
	}
}

func TestSaysWhyItWaitsEveryTenSeconds(t *testing.T) {
	const incomplete = "not every rank of the job has an address yet"
	for name, row := range map[string]struct{ list, why string }{
		"no file":        {"no file", incomplete},
		"empty":          {"", incomplete},
		"too short":      {"10.0.0.1", incomplete},
		"no entry":       {"10.0.0.1,,10.0.0.2", incomplete},
		"another prefix": {"10.0.0.1,10.0.0.22,10.0.0.3", "the peer list has 10.0.0.22 for this rank, but this pod has 10.0.0.2"},
		"another rank's": {"10.0.0.2,10.0.0.1", "the peer list has 10.0.0.1 for this rank, but this pod has 10.0.0.2"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t, nil)
			if row.list != "no file" {
				p.lists(t, row.list)
			}
			synctest.Test(t, func(t *testing.T) {
				ended := begun(p.gate(1, "mesh"))
				time.Sleep(21 * time.Second)
				synctest.Wait()
				said := p.said.String()
				want := "rank 1 has waited 10 s: " + row.why
				if !strings.Contains(said, want) || strings.Count(said, "kubectl describe dijob demo -n team") != 2 {
					t.Errorf("said %q, not twice %q", said, want)
				}
				p.lists(t, addresses)
				hasOpened(t, ended)
			})
		})
	}
}

func TestSettlesIfThereIsNoLauncher(t *testing.T) {
	p := newPod(t, nil)
	p.lists(t, addresses)
	t.Setenv("DIJOB_SETTLE_SECONDS", "1.5")
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		err := p.gate(1, "mesh").wait()
		if took := time.Since(begin); err != nil || took != 1500*time.Millisecond {
			t.Errorf("after %s: %v", took, err)
		}
	})
}

func TestOpensWhenTheNamesThatItDialsResolve(t *testing.T) {
	for name, row := range map[string]struct {
		topology string
		rank     int
		asked    []string
	}{
		"mesh, first": {"mesh", 0, []string{"world-0.world"}},
		"mesh, last":  {"mesh", 2, []string{"world-2.world", "world-0.world", "world-1.world"}},
		"star, leaf":  {"star", 2, []string{"world-2.world", "world-0.world"}},
		"star, hub":   {"star", 0, []string{"world-0.world"}},
		"alone":       {"alone", 1, []string{"world-1.world"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t, map[string]string{"world-0.world": "10.0.0.1", "world-1.world": "10.0.0.2", "world-2.world": "10.0.0.3"})
			p.lists(t, names)
			if err := p.gate(row.rank, row.topology).wait(); err != nil {
				t.Errorf("ends: %v", err)
			}
			if !slices.Equal(p.dns.asked, row.asked) {
				t.Errorf("asked for %v", p.dns.asked)
			}
		})
	}
}

func TestWaitsForNamesAndSaysForWhich(t *testing.T) {
	for why, known := range map[string]map[string]string{
		"world-1.world does not resolve to this pod (10.0.0.2)": {"world-0.world": "10.0.0.1", "world-1.world": "10.0.0.22"},
		"world-0.world does not resolve":                        {"world-1.world": "10.0.0.2"},
	} {
		t.Run(why, func(t *testing.T) {
			p := newPod(t, known)
			p.lists(t, names)
			synctest.Test(t, func(t *testing.T) {
				ended := begun(p.gate(1, "mesh"))
				time.Sleep(11 * time.Second)
				synctest.Wait()
				if said := p.said.String(); !strings.Contains(said, "rank 1 has waited 10 s: "+why+".") {
					t.Errorf("said %q", said)
				}
				known["world-0.world"], known["world-1.world"] = "10.0.0.1", "10.0.0.2"
				hasOpened(t, ended)
			})
		})
	}
}

func TestEndsWhenANameNeverResolves(t *testing.T) {
	for bound, row := range map[string]struct{ after, atMost float64 }{"": {60, 71}, "25": {25, 41}} {
		t.Run("DIJOB_RESOLVE_SECONDS="+bound, func(t *testing.T) {
			p := newPod(t, map[string]string{"world-1.world": "10.0.0.2"})
			t.Setenv("DIJOB_RESOLVE_SECONDS", bound)
			synctest.Test(t, func(t *testing.T) {
				ended := begun(p.gate(1, "mesh"))
				time.Sleep(100 * time.Second) // the time for names begins with the list
				p.lists(t, names)
				begin := time.Now()
				want := "rank 1: world-0.world does not resolve; check the cluster DNS"
				if got := <-ended; got == nil || got.Error() != want {
					t.Errorf("ends: %v", got)
				}
				if after := time.Since(begin).Seconds(); after < row.after || after > row.atMost {
					t.Errorf("after %g s", after)
				}
			})
		})
	}
}

func TestAResolvedNameIsNotLookedUpAgain(t *testing.T) {
	known := map[string]string{"world-0.world": "10.0.0.1", "world-2.world": "10.0.0.3"}
	p := newPod(t, known)
	p.lists(t, names)
	synctest.Test(t, func(t *testing.T) {
		ended := begun(p.gate(2, "mesh"))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		known["world-1.world"] = "10.0.0.2"
		hasOpened(t, ended)
	})
	if count := strings.Count(strings.Join(p.dns.asked, " "), "world-0.world"); count != 1 {
		t.Errorf("asked %d times", count)
	}
}

func TestOpensForItsOwnAddress(t *testing.T) {
	var many []string
	for i := range 1500 {
		many = append(many, fmt.Sprintf("10.0.%d.%d", i/250, i%250))
	}
	for name, row := range map[string]struct {
		list string
		rank int
		ip   string
	}{
		"first":       {addresses, 0, "10.0.0.1"},
		"last":        {addresses, 2, "10.0.0.3"},
		"IPv6":        {"fd00::1,fd00::2", 1, "fd00::2"},
		"1,500 ranks": {strings.Join(many, ","), 1499, "10.0.5.249"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t, nil)
			p.lists(t, row.list)
			w := &waiting{rank: row.rank, address: row.ip, out: &p.said}
			synctest.Test(t, func(t *testing.T) {
				if err := w.wait(); err != nil {
					t.Error(err)
				}
			})
			if want := fmt.Sprintf("dijob gate: open after 0 s: the address of rank %d is %s\n", row.rank, row.ip); p.said.String() != want {
				t.Errorf("said %q", p.said.String())
			}
		})
	}
}

func TestNamesAVariableThatIsWrong(t *testing.T) {
	for _, row := range []struct{ rank, ip, says string }{
		{"", "10.0.0.2", "DI_RANK is ''"},
		{"1;x", "10.0.0.2", "DI_RANK is '1;x'"},
		{"-1", "10.0.0.2", "DI_RANK is '-1'"},
		{"1", "", "DI_POD_IP is empty"},
	} {
		t.Setenv("DI_RANK", row.rank)
		t.Setenv("DI_POD_IP", row.ip)
		if w, err := newWaiting(); w != nil || err == nil || !strings.HasPrefix(err.Error(), row.says) {
			t.Errorf("%q, %q: %v", row.rank, row.ip, err)
		}
	}
}

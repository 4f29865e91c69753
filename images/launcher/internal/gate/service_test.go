package gate

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// C1: a program that looks up a peer's name only once must find it.
func TestWaitsUntilTheServiceHasAllRanks(t *testing.T) {
	const finished = "10.0.0.1,10.0.0.2,127.0.0.2"
	for name, list := range map[string]string{"all run": addresses, "one has finished": finished} {
		t.Run(name, func(t *testing.T) {
			p := newPod(t, nil)
			p.lists(t, list)
			t.Setenv("DIJOB_SERVICE", "world")
			w := p.gate(1, "mesh")
			answer := []string{"10.0.0.2"}
			w.lookup = func(name string) ([]string, error) { return answer, nil }
			synctest.Test(t, func(t *testing.T) {
				ended := begun(w)
				time.Sleep(11 * time.Second)
				synctest.Wait()
				if said := p.said.String(); !strings.Contains(said, "the Service world has no DNS record for") {
					t.Errorf("said %q", said)
				}
				answer = strings.Split(list, ",")
				hasOpened(t, ended)
			})
		})
	}
}

func TestOpensWithoutNamesIfTheDNSDoesNotAnswer(t *testing.T) {
	for bound, after := range map[string]float64{"": 35, "3": 3} {
		t.Run("DIJOB_NAME_SECONDS="+bound, func(t *testing.T) {
			p := newPod(t, nil)
			p.lists(t, addresses)
			t.Setenv("DIJOB_SERVICE", "world")
			t.Setenv("DIJOB_NAME_SECONDS", bound)
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				err := p.gate(1, "mesh").wait()
				if took := time.Since(begin).Seconds(); err != nil || took < after || took > after+1 {
					t.Errorf("after %g s: %v", took, err)
				}
				if said := p.said.String(); !strings.Contains(said, "the Service world has no DNS record for 3 of 3 ranks") {
					t.Errorf("said %q", said)
				}
			})
		})
	}
}

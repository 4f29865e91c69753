package run

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"dijob-launcher/internal/env"
	"dijob-launcher/internal/env/envtest"
)

const ips = "10.0.0.1,10.0.0.2"

func TestWaitsForAPeerList(t *testing.T) {
	p := envtest.New(t)
	envtest.Sets(t, map[string]string{"DI_RANK": "1", "DI_NODES": ""})
	synctest.Test(t, func(t *testing.T) {
		r, code := &run{}, make(chan int, 1)
		go func() { code <- r.applyPeerList() }()
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if len(code) > 0 || strings.Count(p.Said(), "waiting for the peer list") != 2 {
			t.Errorf("said %q", p.Said())
		}
		p.Shows(t, map[string]string{"list-number": "3", "node-ips": ips})
		begin := time.Now()
		if got := <-code; got != 0 || time.Since(begin) > 200*time.Millisecond || os.Getenv("DI_NODES") != ips {
			t.Errorf("%d after %s, DI_NODES=%s", got, time.Since(begin), os.Getenv("DI_NODES"))
		}
	})
}

func TestASignalEndsTheWaitForAPeerList(t *testing.T) {
	envtest.New(t)
	t.Setenv("DI_RANK", "1")
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGTERM
	if code := (&run{signals: signals}).applyPeerList(); code != 143 {
		t.Errorf("%d", code)
	}
}

// A node's disk can be full for a while. The log reports that once for each revision, not each second.
func TestTopologyJSONIsWrittenAsSoonAsThatIsPossible(t *testing.T) {
	p := envtest.New(t)
	blocked := filepath.Join(p.Folder, "topology.json.new")
	os.Mkdir(blocked, 0o755)
	r := &run{}
	said := map[string]string{"list-number": "4", "node-ips": ips}
	for range 3 {
		r.updateTopology(said)
	}
	if strings.Count(p.Said(), "cannot write topology.json") != 1 || r.listed != "" {
		t.Errorf("said %q, has %q", p.Said(), r.listed)
	}
	os.Remove(blocked)
	r.updateTopology(said)
	if got := env.Read(filepath.Join(p.Folder, "topology.json")); !strings.Contains(got, `"listNumber":4`) {
		t.Errorf("%q", got)
	}
}

func TestOnlyANewerRevisionRequiresARestart(t *testing.T) {
	for from, want := range map[string]string{"": "", "2": "", "3": "", "nonsense": "", "4": "4", "10": "10"} {
		if got := (&run{startedWith: "3"}).dueRenewal(map[string]string{"renew-from": from, "list-number": "12"}); got != want {
			t.Errorf("%q: %q", from, got)
		}
	}
}

func TestTheTerminationMessageNamesWhatASuccessLacks(t *testing.T) {
	const alone = "dijob: this rank works alone: "
	for name, row := range map[string]struct {
		status         syscall.WaitStatus
		file, own, say string
		watched        *watcher
	}{
		"nothing to report":     {0, "", "", "", &watcher{}},
		"not in a job":          {0, "says-otherwise", "", "", nil},
		"did not join":          {0, "", "", alone + "because", &watcher{alone: "because"}},
		"did not join, failed":  {1 << 8, "", "", "", &watcher{alone: "because"}},
		"did not join, killed":  {9, "", "", "", &watcher{alone: "because"}},
		"has a message":         {0, "", "step 7", "step 7", &watcher{alone: "because"}},
		"without a peer":        {0, "without-peers-1", "", alone + "its program started and ended without a connection to x", &watcher{}},
		"conflicting arguments": {0, "says-otherwise", "", "dijob: this program says otherwise: x", &watcher{}},
		"conflicting, failed":   {1 << 8, "says-otherwise", "", "", &watcher{}},
	} {
		t.Run(name, func(t *testing.T) {
			p := envtest.New(t)
			if row.file != "" {
				p.Writes(t, row.file, "x\n")
			}
			if row.own != "" {
				p.Writes(t, "termination-log", row.own)
			}
			code := (&run{watcher: row.watched}).end(row.status)
			if want := map[syscall.WaitStatus]int{0: 0, 1 << 8: 1, 9: 137}[row.status]; code != want || p.SaidLast() != row.say {
				t.Errorf("%d, said %q", code, p.SaidLast())
			}
		})
	}
}

func TestARequestedRestartHasItsOwnCodeAndMessage(t *testing.T) {
	p := envtest.New(t)
	p.Writes(t, "termination-log", "the program's own message, which is longer than the mark")
	code := (&run{renewing: "5", watcher: &watcher{alone: "because"}}).end(0)
	if code != 85 || p.SaidLast() != "dijob: renewal, list 5" {
		t.Errorf("%d, said %q", code, p.SaidLast())
	}
}

// The volume outlives the container.
func TestReportsOfAnEarlierStartAreRemoved(t *testing.T) {
	p := envtest.New(t)
	p.Writes(t, "without-peers-0", "rank 1\n")
	p.Writes(t, "says-otherwise", "x\n")
	forgetReports()
	if said := (&watcher{}).verdict(); said != "" {
		t.Errorf("%q", said)
	}
}

// H18: the operator distinguishes a dead sandbox from a program that ended by itself by the second of the end.
func TestWaitsForTheNextSecondIfThePodIsOver(t *testing.T) {
	told := time.Date(2026, 1, 2, 3, 4, 5, 200_000_000, time.UTC)
	now := told.Add(300 * time.Millisecond)
	for name, row := range map[string]struct {
		told   time.Time
		code   int
		policy string
		want   time.Duration
	}{
		"succeeded":                 {told, 0, "OnFailure", 500 * time.Millisecond},
		"succeeded, no policy":      {told, 0, "", 500 * time.Millisecond},
		"failed, not restarted":     {told, 1, "Never", 500 * time.Millisecond},
		"failed, will be restarted": {told, 1, "OnFailure", 0},
		"not told to end":           {time.Time{}, 0, "Never", 0},
	} {
		t.Setenv("DIJOB_RESTART_POLICY", row.policy)
		if got := delayAfterTerm(row.told, row.code, now); got != row.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

package run

import (
	"fmt"
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

func TestOnlyAContainerThatIsRestartedHasARecord(t *testing.T) {
	for policy, want := range map[string]bool{"": false, "Never": false, "Always": false, "OnFailure": true} {
		envtest.New(t)
		t.Setenv("DIJOB_RESTART_POLICY", policy)
		_, err := os.Stat(env.RunFolder())
		if got := startsAgain(); got != want || err == nil {
			t.Errorf("%q: %v", policy, got)
		}
		if _, err := os.Stat(env.RunFolder()); (err == nil) != want {
			t.Errorf("%q: the folder: %v", policy, err)
		}
	}
}

func TestTheNextLauncherReadsHowTheRunEnded(t *testing.T) {
	for name, row := range map[string]struct {
		end            func(l *lastRun)
		failed         bool
		code, counted  int
		failedRunsCode string
	}{
		"failed":                   {func(l *lastRun) { l.end(3, false) }, true, 3, 1, "3"},
		"counted meanwhile":        {func(l *lastRun) { l.storeCount(4); l.storeCount(2); l.end(3, false) }, true, 3, 4, "3"},
		"killed with its launcher": {func(*lastRun) {}, true, 137, 1, "137"},
		"succeeded, yet restarted": {func(l *lastRun) { l.end(0, false) }, true, 143, 1, "143"},
		"a requested restart":      {func(l *lastRun) { l.end(85, true) }, false, 85, 2, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			p := envtest.New(t)
			t.Setenv("DIJOB_RESTART_POLICY", "OnFailure")
			p.Shows(t, map[string]string{"ends-counted": "1"})
			if startsAgain(); readLastRun() != nil {
				t.Fatal("a record before the first run")
			}
			row.end(newRun(nil))
			last := readLastRun()
			if last.hasFailed() != row.failed || last.code() != row.code || last.Counted != row.counted {
				t.Errorf("%+v, code %d", last, last.code())
			}
			next, code := newRun(last), "none"
			if next.Failed != nil {
				code = fmt.Sprint(*next.Failed)
			}
			if code != row.failedRunsCode {
				t.Errorf("the failed run's code: %s", code)
			}
		})
	}
}

func TestWaitsUntilTheFailureIsCountedOrTheLimit(t *testing.T) {
	for name, row := range map[string]struct {
		limit   string
		counted time.Duration // when the operator counts the failure
		took    time.Duration
		says    string
	}{
		"counted soon":  {"", time.Second, time.Second, ""},
		"counted later": {"", 5 * time.Second, 5 * time.Second, "for at most 30 s. The end of the output of that run (exit code 3):\n"},
		"never counted": {"", time.Hour, 30 * time.Second, "has not counted the last failure within 30 s: the program is restarted anyway\n"},
		"a short limit": {"0.3", time.Hour, 300 * time.Millisecond, "within 0 s: the program is restarted anyway\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := envtest.New(t)
			t.Setenv("DIJOB_CONFIRM_SECONDS", row.limit)
			p.Shows(t, map[string]string{"ends-counted": "1"})
			synctest.Test(t, func(t *testing.T) {
				counts := time.AfterFunc(row.counted, func() { p.Shows(t, map[string]string{"ends-counted": "2"}) })
				defer counts.Stop()
				begin := time.Now()
				goOn, _ := awaitCount(&lastRun{Counted: 1, Ended: true, Code: 3}, nil)
				if took := time.Since(begin); !goOn || took < row.took || took > row.took+confirmPoll {
					t.Errorf("%v after %s", goOn, took)
				}
				if said := p.Said(); (said == "") != (row.says == "") || !strings.HasSuffix(said, row.says) {
					t.Errorf("said %q", said)
				}
			})
		})
	}
}

func TestOnlyATerminatingSignalEndsTheWait(t *testing.T) {
	p := envtest.New(t)
	signals := make(chan os.Signal, 2)
	signals <- syscall.SIGUSR1
	signals <- syscall.SIGTERM
	goOn, code := awaitCount(&lastRun{Counted: 1, Ended: true, Code: 3}, signals)
	want := "dijob: the program is not restarted. The end of the output of its last run (exit code 3):\n"
	if goOn || code != 3 || len(signals) > 0 || p.Said() != want {
		t.Errorf("%v, %d, said %q", goOn, code, p.Said())
	}
}

func TestTheRecordKeepsTheEndOfMuchOutput(t *testing.T) {
	envtest.New(t)
	t.Setenv("DIJOB_RESTART_POLICY", "OnFailure")
	startsAgain()
	l := newRecorder(nil)
	for n := range 200_000 {
		l.keep(fmt.Appendf(nil, "line %d\n", n))
	}
	older, newer := outputPaths(thisRun)
	kept := env.Read(older) + "\n" + env.Read(newer)
	if len(kept) < keptBytes || len(kept) > 2*keptBytes || !strings.HasSuffix(kept, "line 199998\nline 199999") {
		t.Errorf("%d bytes, %q", len(kept), kept[len(kept)-30:])
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = log
	repeatOutput(thisRun)
	os.Stdout = stdout
	if env.Read(log.Name()) != kept {
		t.Error("the repeated output is another")
	}
	// The record of a failed run stays while the next one is written.
	newRecorder(&lastRun{Ended: true, Code: 3})
	older, newer = outputPaths(failedRun)
	if env.Read(older)+"\n"+env.Read(newer) != kept {
		t.Error("the failed run's record is another")
	}
}

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// The kubelet starts a failed container again at once. Whether this failure was the last one that the job allows, only
// the operator knows, which counts it a moment later. So the launcher that is started again waits until the operator
// confirms (annotation ends-counted) that it has counted the failure. If the job has failed, the operator ends the pod
// instead. Of a pod that has ended, Kubernetes keeps the log of its newest container alone, which would be that of the
// launcher that waited. So that one first repeats what the failed program wrote (output.go).
const (
	// How long the launcher waits for an operator that does not answer, before it starts the program nevertheless. Probes
	// with the usual settings do not kill the container within this time.
	confirmSeconds = 30
	confirmLook    = 50 * time.Millisecond
	// From here on the launcher says what it waits for.
	confirmSay = 3 * time.Second
	// The code of a program that was killed with its launcher.
	killed = 137
)

// lastRun is what a launcher leaves in the pod's volume about its program, for the launcher that comes after it.
type lastRun struct {
	Counted int  `json:"counted"` // the newest ends-counted while it ran, and one more for an end that is no failure
	Ended   bool `json:"ended"`
	Code    int  `json:"code"`
	Renewal bool `json:"renewal"` // it was ended to be started again with a new list
	Failed  *int `json:"failed"`  // the exit code of the newest run before it that has failed
}

// runFolder is the folder of what outlives a container, but not its sandbox: the gate removes it.
func runFolder() string { return besideTopology("last-run") }

func runPath() string { return filepath.Join(runFolder(), "run.json") }

// startsAgain says whether the kubelet starts this container again after a failure.
func startsAgain() bool {
	return os.Getenv("DIJOB_RESTART_POLICY") == "OnFailure" && os.MkdirAll(runFolder(), 0o777) == nil
}

// readLastRun returns what the launcher before this one has left; nil if there was none, or if it could not write.
func readLastRun() *lastRun {
	var found lastRun
	if text := read(runPath()); text == "" || json.Unmarshal([]byte(text), &found) != nil {
		return nil
	}
	return &found
}

// write leaves it for the next launcher. A volume that is full costs the wait and the repeated log, and nothing else.
func (l *lastRun) write() {
	text, err := json.Marshal(l)
	if err == nil && os.WriteFile(runPath()+".new", text, 0o644) == nil {
		os.Rename(runPath()+".new", runPath())
	}
}

// newRun is what is left of a run that begins now.
func newRun(last *lastRun) *lastRun {
	begun := &lastRun{Counted: natural(annotations()["ends-counted"])}
	if last != nil {
		begun.Failed = last.Failed
	}
	if last.hasFailed() {
		code := last.code()
		begun.Failed = &code
	}
	begun.write()
	return begun
}

// told is called when the container is told to end while the program runs. If an earlier run has failed, its log may be
// what its user looks for, since the operator ends all pods with failures when the job fails.
func (l *lastRun) told() {
	if l == nil || l.Failed == nil {
		return
	}
	say("the program is being stopped. The end of the output of the last failed run in this container (exit code %d):", *l.Failed)
	repeatOutput(failedRun)
}

// see notes the newest count.
func (l *lastRun) see(counted int) {
	if l != nil && counted > l.Counted {
		l.Counted = counted
		l.write()
	}
}

// end notes how the run has ended. An end for a new list is counted, and no launcher waits for that.
func (l *lastRun) end(code int, renewal bool) {
	if l == nil {
		return
	}
	l.Ended, l.Code, l.Renewal = true, code, renewal
	if renewal {
		l.Counted++
	}
	l.write()
}

// hasFailed says whether the program of the run ended in another way than for a new list.
func (l *lastRun) hasFailed() bool { return l != nil && !l.Renewal }

// code returns the exit code of a container that does not start the program again.
func (l *lastRun) code() int {
	switch {
	case !l.Ended:
		return killed
	case l.Code == 0:
		return 128 + int(syscall.SIGTERM) // it was to be started again, and is told to end
	}
	return l.Code
}

// awaitCount waits until the operator has counted how the run before this one ended. If the container is told to end
// instead, it repeats what the program wrote, and returns false and the exit code of that run.
func awaitCount(last *lastRun, signals <-chan os.Signal) (goOn bool, code int) {
	began, said := time.Now(), false
	limit := seconds("DIJOB_CONFIRM_SECONDS", confirmSeconds)
	for natural(annotations()["ends-counted"]) <= last.Counted {
		waited := time.Since(began)
		if waited >= limit {
			say("the operator has not counted the last failure within %.0f s: the program is restarted anyway", waited.Seconds())
			return true, 0
		}
		if waited >= confirmSay && !said {
			said = true
			say("waiting until the operator has counted the last failure, for at most %.0f s", limit.Seconds())
		}
		select {
		case which := <-signals:
			if which != syscall.SIGUSR1 && which != syscall.SIGUSR2 {
				say("the program is not restarted. The end of the output of its last run (exit code %d):", last.code())
				repeatOutput(thisRun)
				return false, last.code()
			}
		case <-time.After(confirmLook):
		}
	}
	return true, 0
}

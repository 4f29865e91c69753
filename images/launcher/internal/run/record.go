package run

import (
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"dijob-launcher/internal/env"
)

// The kubelet restarts a failed container at once. Only the operator knows whether this was the last failure that the job
// allows, and it counts the failure a moment later. So after a failure, the restarted launcher waits until the operator
// has counted the failure. When the operator counts a failure, it increases the number in the annotation `ends-counted`. If the
// job has failed, the operator deletes the pod instead, and the program does not run again. After a pod has ended, Kubernetes
// keeps only the log of its newest container. In this case, it is the log of the launcher that waited. Therefore, this launcher
// first repeats the output of the failed program (output.go).
const (
	// If the operator does not respond, the launcher waits this long, and then starts the program anyway. Probes with the usual
	// settings do not kill the container within this time.
	confirmSeconds = 30
	confirmPoll    = 50 * time.Millisecond
	// The launcher logs what it is waiting for only after this time, because the operator usually responds sooner. At that
	// point, it also repeats the failed program's output, even without a SIGTERM: Linux drops a SIGTERM that arrives before the
	// launcher has a handler, and the kubelet sends no other before SIGKILL. The time is shorter than 2 s, the
	// shortest grace period in common use.
	confirmLogAfter = 1500 * time.Millisecond
	// The exit code of a program that was killed together with its launcher: 128 + SIGKILL.
	killed = 137
)

// lastRun describes a run of the program. The launcher stores it in the pod's volume, for the next launcher of the container.
type lastRun struct {
	Counted int  `json:"counted"` // the highest ends-counted seen during the run, plus 1 if the run ended in a requested restart
	Ended   bool `json:"ended"`
	Code    int  `json:"code"`
	Renewal bool `json:"renewal"` // the program was ended to be restarted with a new peer list
	Failed  *int `json:"failed"`  // the exit code of the newest failed run before this one
}

func runPath() string { return filepath.Join(env.RunFolder(), "run.json") }

// startsAgain returns whether the kubelet restarts this container after a failure. If so, startsAgain also creates the directory
// of the records. If the directory cannot be created, startsAgain returns false, because nothing can then be stored for the
// next launcher.
func startsAgain() bool {
	return os.Getenv("DIJOB_RESTART_POLICY") == "OnFailure" && os.MkdirAll(env.RunFolder(), 0o777) == nil
}

// readLastRun returns what the previous launcher stored. It returns nil if there was no previous launcher, or if that launcher
// could not write.
func readLastRun() *lastRun {
	var found lastRun
	if text := env.Read(runPath()); text == "" || json.Unmarshal([]byte(text), &found) != nil {
		return nil
	}
	return &found
}

// write stores the record for the next launcher. If the volume is full, the record is not stored. The only effect is that the
// next launcher might start the program without a wait, and might not repeat the log.
func (l *lastRun) write() {
	text, err := json.Marshal(l)
	if err == nil && os.WriteFile(runPath()+".new", text, 0o644) == nil {
		os.Rename(runPath()+".new", runPath())
	}
}

// newRun returns the record of a run that starts now, and stores it. The record is stored at the start, so that it exists even
// if the launcher is killed.
func newRun(last *lastRun) *lastRun {
	begun := &lastRun{Counted: env.Natural(env.Annotations()["ends-counted"])}
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

// repeatFailedRun is called when the container receives SIGTERM while the program runs. It repeats the output of an earlier
// failed run. The operator deletes all pods when the job fails, and the user then looks for the log of the failure.
func (l *lastRun) repeatFailedRun() {
	if l == nil || l.Failed == nil {
		return
	}
	env.Logf("the program is being stopped. The end of the output of the last failed run in this container (exit code %d):", *l.Failed)
	repeatOutput(failedRun)
}

// storeCount stores the newest count. The next launcher waits for a higher one.
func (l *lastRun) storeCount(counted int) {
	if l != nil && counted > l.Counted {
		l.Counted = counted
		l.write()
	}
}

// end stores how the run ended. The operator includes a requested restart in ends-counted. The next launcher does not wait
// until the operator has counted such a restart. So this method adds the restart to Counted.
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

// hasFailed returns whether the run ended in any way other than by a requested restart.
func (l *lastRun) hasFailed() bool { return l != nil && !l.Renewal }

// code returns the exit code for a container that does not restart the program.
func (l *lastRun) code() int {
	switch {
	case !l.Ended:
		return killed
	case l.Code == 0:
		// The program exited 0 and the kubelet restarted the container. The container is now being terminated before the
		// program can run again.
		return 128 + int(syscall.SIGTERM)
	}
	return l.Code
}

// awaitCount waits until the operator has counted the end of the previous run. If the container is terminated during this wait,
// awaitCount returns false and the launcher's exit code, which shows how the previous run ended. It repeats the program's
// output if the container is terminated or the wait is long.
func awaitCount(last *lastRun, signals <-chan os.Signal) (goOn bool, code int) {
	began, said := time.Now(), false
	limit := env.Seconds("DIJOB_CONFIRM_SECONDS", confirmSeconds)
	for env.Natural(env.Annotations()["ends-counted"]) <= last.Counted {
		waited := time.Since(began)
		if waited >= limit {
			env.Logf("the operator has not counted the last failure within %.0f s: the program is restarted anyway", waited.Seconds())
			return true, 0
		}
		if waited >= confirmLogAfter && !said {
			said = true
			env.Logf("waiting until the operator has counted the last failure, for at most %.0f s. The end of the output of that run"+
				" (exit code %d):", limit.Seconds(), last.code())
			repeatOutput(thisRun)
		}
		select {
		case which := <-signals:
			if which != syscall.SIGUSR1 && which != syscall.SIGUSR2 {
				if said {
					env.Logf("the program is not restarted")
				} else {
					env.Logf("the program is not restarted. The end of the output of its last run (exit code %d):", last.code())
					repeatOutput(thisRun)
				}
				return false, last.code()
			}
		case <-time.After(confirmPoll):
		}
	}
	return true, 0
}

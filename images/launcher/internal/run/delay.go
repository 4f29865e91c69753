package run

import (
	"os"
	"time"
)

// delayAfterTerm returns how long the launcher waits before it exits, if it received SIGTERM at `told` and its program has ended
// with this code: until the next full second. A pod's status has times in whole seconds. The kubelet can end a
// container because its sandbox is dead, and not restart the pod. The operator recognizes that only if the container ended in
// a later second than that in which the kubelet found the sandbox dead (operator/dijob/core/observed/sandbox.py). A container
// that will be restarted does not need this.
func delayAfterTerm(told time.Time, code int, now time.Time) time.Duration {
	startsAgain := code != 0 && os.Getenv("DIJOB_RESTART_POLICY") != "Never"
	if told.IsZero() || startsAgain {
		return 0
	}
	return told.Truncate(time.Second).Add(time.Second).Sub(now)
}

package run

import (
	"os"
	"time"
)

// delayAfterTerm returns how long the launcher waits before it exits, if it received SIGTERM at `told` and its program has ended
// with this code. It waits until the next full second, because a pod's status has times in whole seconds. The kubelet may end a
// container because its sandbox is dead, without restarting the pod. The operator recognizes this case only if the container
// ended in a later second than the one in which the kubelet found the sandbox dead (operator/dijob/core/observed/sandbox.py). A
// container that will be restarted does not need the delay.
func delayAfterTerm(told time.Time, code int, now time.Time) time.Duration {
	startsAgain := code != 0 && os.Getenv("DIJOB_RESTART_POLICY") != "Never"
	if told.IsZero() || startsAgain {
		return 0
	}
	return told.Truncate(time.Second).Add(time.Second).Sub(now)
}

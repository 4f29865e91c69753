package main

import (
	"os"
	"time"
)

// afterTold is how long a launcher that was told to end at this moment stays, although its program has ended with this
// code: until the next second. A pod's status has whole seconds. If the kubelet ends a container because its sandbox is
// dead, and the pod is not started again, the operator can tell so only if the container ended in a later second than that
// in which the kubelet found the sandbox dead (operator/dijob/core/observed/sandbox.py). A container that starts again
// does not need this.
func afterTold(told time.Time, code int, now time.Time) time.Duration {
	startsAgain := code != 0 && os.Getenv("DIJOB_RESTART_POLICY") != "Never"
	if told.IsZero() || startsAgain {
		return 0
	}
	return told.Truncate(time.Second).Add(time.Second).Sub(now)
}

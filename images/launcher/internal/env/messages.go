package env

import (
	"fmt"
	"io"
	"os"
)

// LogTo is where messages are written. It is the container's log and, if there is a recorder, also the recorder.
var LogTo io.Writer = os.Stderr

// Logf writes a line to the container's log.
func Logf(format string, values ...any) {
	fmt.Fprintf(LogTo, "dijob: "+format+"\n", values...)
}

// TerminationLog returns the path of the file that the kubelet copies into the container's termination message.
func TerminationLog() string { return Variable("DIJOB_TERMINATION_LOG", "/dev/termination-log") }

package env

import (
	"fmt"
	"io"
	"os"
)

// SayTo is where messages are written. It is the container's log; a recorder adds its own copy.
var SayTo io.Writer = os.Stderr

// Say writes a line to the container's log.
func Say(format string, values ...any) {
	fmt.Fprintf(SayTo, "dijob: "+format+"\n", values...)
}

// TerminationLog returns the path of the file that the kubelet copies into the container's termination message.
func TerminationLog() string { return Variable("DIJOB_TERMINATION_LOG", "/dev/termination-log") }

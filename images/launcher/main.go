// Command dijob-launcher is the operator's program in users' pods. It is one static binary, because a user's image may
// have no shell, no libc and no Python. An init container copies it into a volume that the other containers mount. As in
// busybox, the name by which it is called selects the function:
//
//	install  copies this program into the volume, under its other names
//	gate     waits until the job's peer list contains this pod
//	launch   runs the user's command as its child, forwards signals, and restarts it when a new peer list requires that
//	ditask   runs the image's own ditask, with the options of the job that the user did not pass
//	reach    checks the addresses to which this rank will connect, for programs that do not use ditask
//	hold     waits for a signal, in a container that keeps this image on its node
//
// README.md lists the environment variables that it reads.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

var programs = map[string]func(args []string) int{
	"install": install,
	"gate":    gate,
	"launch":  launch,
	"ditask":  ditask,
	"reach":   reach,
	"hold":    hold,
}

func main() {
	name, arguments := called(os.Args)
	if run, ok := programs[name]; ok {
		os.Exit(run(arguments))
	}
	fmt.Fprintln(os.Stderr, "usage: dijob-launcher install | gate | launch COMMAND... | ditask ARGUMENT... |"+
		" reach TOPOLOGY PORT WORKERS [ATTACH] | hold")
	os.Exit(2)
}

// called returns the name by which this program was called, and its arguments. The command line is NAME ARGUMENT... (a
// link in the volume), or FILE NAME ARGUMENT... (the binary itself).
func called(words []string) (name string, arguments []string) {
	name = filepath.Base(words[0])
	if len(words) == 1 || slices.Contains([]string{"install", "gate", "launch", "ditask", "reach", "hold"}, name) {
		return name, words[1:]
	}
	return words[1], words[2:]
}

// sayTo is where messages are written. It is the container's log; a recorder adds its own copy.
var sayTo io.Writer = os.Stderr

// say writes a line to the container's log.
func say(format string, values ...any) {
	fmt.Fprintf(sayTo, "dijob: "+format+"\n", values...)
}

// variable returns the value of an environment variable, or a default if it is unset or empty.
func variable(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

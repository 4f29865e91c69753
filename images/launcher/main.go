// Command dijob-launcher is what runs of the operator in users' pods: one static program, which an init container
// drops into a volume that the other containers have. The name that it is called by says what it does:
//
//	install  copy this program into the volume, under its other names
//	gate     wait until the job's address list names this pod
//	launch   run the user's command, stand in for it, and start it again when a new list asks for that
//	ditask   the image's own ditask, with the options that the job knows and the user did not give
//	reach    look whether this rank reaches what it dials, for who dials without ditask
//	hold     do nothing until a signal: a container that keeps this image on its node
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

// called returns the name that this program was called by, and its arguments: NAME ARGUMENT..., or FILE NAME ARGUMENT...
func called(words []string) (name string, arguments []string) {
	name = filepath.Base(words[0])
	if len(words) == 1 || slices.Contains([]string{"install", "gate", "launch", "ditask", "reach", "hold"}, name) {
		return name, words[1:]
	}
	return words[1], words[2:]
}

// sayTo takes what this program says; it is the container's log.
var sayTo io.Writer = os.Stderr

// say writes a line to the container's log.
func say(format string, values ...any) {
	fmt.Fprintf(sayTo, "dijob: "+format+"\n", values...)
}

// variable returns an environment variable, or another value where it is empty.
func variable(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

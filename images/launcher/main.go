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
	"os"
	"path/filepath"
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
	if run, ok := programs[filepath.Base(os.Args[0])]; ok {
		os.Exit(run(os.Args[1:]))
	}
	if len(os.Args) > 1 {
		if run, ok := programs[os.Args[1]]; ok {
			os.Exit(run(os.Args[2:]))
		}
	}
	fmt.Fprintln(os.Stderr, "usage: dijob-launcher install | gate | launch COMMAND... | ditask ARGUMENT... |"+
		" reach TOPOLOGY PORT WORKERS [ATTACH] | hold")
	os.Exit(2)
}

// say writes a line to the container's log.
func say(format string, values ...any) {
	fmt.Fprintf(os.Stderr, "dijob: "+format+"\n", values...)
}

// variable returns an environment variable, or another value where it is empty.
func variable(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

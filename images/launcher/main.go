// Command dijob-launcher is the operator's program in users' pods. It is one static binary, because a user's image may
// have no shell, no libc and no Python. An init container copies it into a volume that the other containers mount. As in
// busybox, the name by which it is called selects the function:
//
//	install  copies this program into the volume, under its other names
//	gate     waits until the job's peer list contains this pod
//	launch   runs the user's command as its child, forwards signals, and restarts it when a new peer list requires that
//	ditask   runs the image's own ditask, and adds those options of the job that the user did not pass
//	reach    checks the addresses to which this rank will connect, for programs that do not use ditask
//	hold     waits for a signal, in a container that keeps this image on its node
//
// README.md lists the environment variables that it reads.
package main

import (
	"fmt"
	"os"

	"dijob-launcher/internal/ditask"
	"dijob-launcher/internal/env"
	"dijob-launcher/internal/gate"
	"dijob-launcher/internal/install"
	"dijob-launcher/internal/reach"
	"dijob-launcher/internal/run"
)

var programs = map[string]func(args []string) int{
	"install": install.Run,
	"gate":    gate.Run,
	"launch":  run.Launch,
	"ditask":  ditask.Run,
	"reach":   reach.Run,
	"hold":    hold,
}

func main() {
	name, arguments := env.Called(os.Args)
	if program, ok := programs[name]; ok {
		os.Exit(program(arguments))
	}
	fmt.Fprintln(os.Stderr, "usage: dijob-launcher install | gate | launch COMMAND... | ditask ARGUMENT... |"+
		" reach TOPOLOGY PORT WORKERS [ATTACH] | hold")
	os.Exit(2)
}

// hold waits for the signal that ends its container, without using any CPU time.
func hold([]string) int {
	fmt.Println("dijob: keeps the launcher's image on this node and does nothing else")
	<-env.Received
	return 0
}

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// passed are the signals that go on to the program.
var passed = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// received holds the signals that have come so far. Gate, launch and hold are the first process of their container, and the
// kernel drops a signal to such a process as long as it has no handler (pid_namespaces(7)). The kubelet sends TERM once,
// sometimes within milliseconds of the start, and KILL only after the grace period. So the handler is installed while the
// program's variables are initialized, and none of them replaces itself by another program.
var received = receive()

// receive installs the handlers that a program needs before main begins. All others keep what the system does by default.
func receive() chan os.Signal {
	signals := make(chan os.Signal, 64)
	switch name, _ := called(os.Args); name {
	case "launch":
		signal.Notify(signals, passed...)
	case "gate", "hold":
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	}
	return signals
}

// exitCode is that of a program that ends because of this signal.
func exitCode(which os.Signal) int { return 128 + int(which.(syscall.Signal)) }

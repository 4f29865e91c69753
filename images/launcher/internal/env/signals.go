package env

import (
	"os"
	"os/signal"
	"syscall"
)

// forwarded lists the signals that the launcher forwards to the program.
var forwarded = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// Received is the queue of received signals. Gate, launch and hold are PID 1 of their container. The kernel drops a signal for
// which PID 1 has no handler (pid_namespaces(7)). The kubelet sends TERM once, sometimes within milliseconds of the start, and
// KILL only after the grace period. So the handler is installed before main runs, while package variables are initialized.
// Gate, launch and hold never replace themselves with another program, because a new program has no handler at first.
var Received = receive()

// receive installs the signal handlers of the selected program. The other programs keep the default actions.
func receive() chan os.Signal {
	signals := make(chan os.Signal, 64)
	switch name, _ := Called(os.Args); name {
	case "launch":
		signal.Notify(signals, forwarded...)
	case "gate", "hold":
		signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	}
	return signals
}

// ExitCode returns the exit code that a shell reports for a program that this signal has ended.
func ExitCode(which os.Signal) int { return 128 + int(which.(syscall.Signal)) }

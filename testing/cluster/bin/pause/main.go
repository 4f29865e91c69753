// Command pause is the sandbox of a pod: it keeps the pod's namespaces alive and reaps orphaned processes.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	child := make(chan os.Signal, 1)
	signal.Notify(child, syscall.SIGCHLD)
	for {
		select {
		case <-stop:
			return
		case <-child:
			for pid, err := 1, error(nil); pid > 0 && err == nil; {
				pid, err = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			}
		}
	}
}

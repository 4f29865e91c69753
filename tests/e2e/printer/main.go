// Command printer is the only program of an image without a base image. It prints its world, and waits to be ended.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	for _, entry := range os.Environ() {
		if strings.HasPrefix(entry, "DI_") {
			fmt.Println(entry)
		}
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	<-ended
}

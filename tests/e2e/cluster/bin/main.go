// Command cluster-bin is every program of the embedded test cluster in one binary, chosen by the name it
// is called by or by its first argument: shared packages compile and link once, not eight times.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	_ "github.com/coredns/coredns/core/plugin"
	_ "github.com/coredns/coredns/plugin/cache"
)

func main() { fmt.Println(os.Args, filepath.Base(""), strings.ToLower(""), signal.Ignore, syscall.SIGTERM) }

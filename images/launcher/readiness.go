package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// Between two looks until the program is ready; after that the launcher looks as often as at the pod's annotations.
	readyLook = 200 * time.Millisecond
	// What the program writes beside topology.json, a file for each process, as long as it lacks peers although it has begun
	// (images/dijob-runtime/dijob_runtime/hook/connected.py).
	lackingFiles = "without-peers-*"
)

// readiness answers the kubelet's readiness probe: its port is open as long as the program listens on its own port and has
// no process that began without its peers. The kubelet cannot see the latter, and with a proxy between the pods neither can
// anyone who connects to the program's port.
type readiness struct {
	address  string // where the kubelet asks
	program  string // where the program listens
	listener net.Listener
}

// newReadiness returns nil if the pod has no such probe. DIJOB_READY is "PORT PROGRAM'S-PORT".
func newReadiness() *readiness {
	ports := strings.Fields(os.Getenv("DIJOB_READY"))
	host := os.Getenv("DI_POD_IP")
	if len(ports) != 2 || host == "" {
		return nil
	}
	return &readiness{address: net.JoinHostPort(host, ports[0]), program: net.JoinHostPort(host, ports[1])}
}

// keep looks until the process ends.
func (r *readiness) keep() {
	for {
		r.set(r.listens() && lackingPeers() == "")
		pause := readyLook
		if r.listener != nil {
			pause = max(seconds("DIJOB_NAP", 1), time.Millisecond)
		}
		time.Sleep(pause)
	}
}

// listens says whether the program's port is open. A connection that is closed at once does a listening NNG no harm.
func (r *readiness) listens() bool {
	link, err := net.DialTimeout("tcp", r.program, time.Second)
	if err != nil {
		return false
	}
	link.(*net.TCPConn).SetLinger(0)
	link.Close()
	return true
}

// set opens or closes the port. If another process has the port, that one answers the probe.
func (r *readiness) set(ready bool) {
	switch {
	case ready && r.listener == nil:
		if listener, err := net.Listen("tcp", r.address); err == nil {
			r.listener = listener
			go hangUp(listener)
		}
	case !ready && r.listener != nil:
		r.listener.Close()
		r.listener = nil
	}
}

// hangUp closes each connection that comes.
func hangUp(listener net.Listener) {
	for {
		link, err := listener.Accept()
		if err != nil {
			return
		}
		link.Close()
	}
}

// lackingPeers returns which ranks the program has begun without and is still not connected to; "" if there are none.
func lackingPeers() string {
	files, _ := filepath.Glob(besideTopology(lackingFiles))
	for _, file := range files {
		if ranks := read(file); ranks != "" {
			return ranks
		}
	}
	return ""
}

// besideTopology returns the path of a file in the folder of topology.json.
func besideTopology(name string) string { return filepath.Join(filepath.Dir(topologyPath()), name) }

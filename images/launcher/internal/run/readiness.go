package run

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"dijob-launcher/internal/channel"
	"dijob-launcher/internal/env"
)

const (
	// The interval between checks until the program is ready. After that, the launcher checks every second.
	readyPoll = 200 * time.Millisecond
	// The files that the program writes next to topology.json, one for each process that started while peers were missing
	// (images/dijob-runtime/dijob_runtime/hook/connected.py).
	lackingFiles = "without-peers-*"
)

// readiness answers the kubelet's readiness probe. The probe's port is open as long as two conditions are met. The first is
// that the program listens on its own port. The second is that each of the program's processes is now connected to all peers
// that were missing when the process started. The kubelet cannot check the second condition. A connection to the program's port
// does not show whether this condition is met, because a proxy between the pods may accept every connection.
type readiness struct {
	address  string // to which the kubelet connects
	program  string // on which the program listens; "" if that is not known
	listener net.Listener
	channel  *channel.Channel
}

// newReadiness returns nil if there is no readiness probe that the launcher has to answer. DIJOB_READY is "PORT PROGRAM-PORT",
// or only "PORT" if the program's port is not known. With only "PORT", the launcher does not check whether the program listens.
func newReadiness() *readiness {
	ports := strings.Fields(os.Getenv("DIJOB_READY"))
	host := os.Getenv("DI_POD_IP")
	if len(ports) == 0 || len(ports) > 2 || host == "" {
		return nil
	}
	r := &readiness{address: net.JoinHostPort(host, ports[0])}
	if len(ports) == 2 {
		r.program = net.JoinHostPort(host, ports[1])
	}
	return r
}

// keep updates the port until this process ends.
func (r *readiness) keep() {
	for {
		r.set(r.listens() && lackingPeers() == "")
		pause := readyPoll
		if r.listener != nil {
			pause = max(env.Seconds("DIJOB_NAP", 1), time.Millisecond)
		}
		time.Sleep(pause)
	}
}

// listens returns whether the program's port is open. A listening NNG socket is not affected by a connection that is closed at
// once.
func (r *readiness) listens() bool {
	if r.program == "" {
		return true
	}
	link, err := net.DialTimeout("tcp", r.program, time.Second)
	if err != nil {
		return false
	}
	link.(*net.TCPConn).SetLinger(0)
	link.Close()
	return true
}

// set opens or closes the port. If another process already listens on it, that process answers the probe.
func (r *readiness) set(ready bool) {
	switch {
	case ready && r.listener == nil:
		if listener, err := net.Listen("tcp", r.address); err == nil {
			r.listener = listener
			r.channel.Report(channel.Ready)
			go acceptAndClose(listener)
		}
	case !ready && r.listener != nil:
		r.listener.Close()
		r.listener = nil
		r.channel.Report(channel.Started)
	}
}

// acceptAndClose accepts and closes connections. An accepted connection is enough for a TCP probe.
func acceptAndClose(listener net.Listener) {
	for {
		link, err := listener.Accept()
		if err != nil {
			return
		}
		link.Close()
	}
}

// lackingPeers returns the ranks that were missing when the program started and that are still not connected to it; "" if none.
func lackingPeers() string {
	files, _ := filepath.Glob(env.BesideTopology(lackingFiles))
	for _, file := range files {
		if ranks := env.Read(file); ranks != "" {
			return ranks
		}
	}
	return ""
}

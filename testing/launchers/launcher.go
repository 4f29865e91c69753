package main

import (
	"encoding/json"
	"log"
	"maps"
	"strconv"
	"strings"
	"time"

	"dijob-launcher/internal/channel"
	"dijob-launcher/internal/env"
)

const (
	// An annotation that testing/faults/lab/bulk.py adds to its copies of running pods: a response of the operator, as JSON. The
	// launcher of a copy begins as if it had already received and stored this response.
	storedKey = "test.dijob/stored"
	// The exit code and the message of a program that was ended for a new peer list (images/launcher/internal/run).
	renewalExit    = 85
	renewalMessage = "dijob: renewal, list "
	retryAfter     = 200 * time.Millisecond
)

// sight is a view of a pod. `listed` means that it comes from a list, which is never outdated.
type sight struct {
	pod
	listed bool
}

// launcher acts as a pod's kubelet, and as the launcher in the pod's main container. After a restart of the container, it acts
// as the next launcher. `pods` has the newest view of the pod, and is closed when the pod is gone.
type launcher struct {
	all     *players
	pods    chan sight
	view    pod
	link    *channel.Channel // nil if no launcher runs in the container
	starts  int              // restartCount of the container in which it runs
	program channel.State    // what the program does: as the launcher reports it
	with    int              // the revision with which the program has started
	ending  int              // the revision for which the program has ended, until the kubelet has restarted the container
}

// run reacts to the pod and to responses until the pod is gone.
func (l *launcher) run() {
	defer l.stop()
	var changed <-chan struct{}
	var again <-chan time.Time
	for {
		select {
		case seen, there := <-l.pods:
			if !there {
				return
			}
			l.take(seen)
		case <-changed:
		case <-again:
		}
		again = nil
		if !l.act() {
			again = time.After(retryAfter)
		}
		changed = nil
		if l.link != nil {
			changed = l.link.Changed()
		}
	}
}

// take keeps the newest view of the pod. A watch may deliver a view that is older than the response to a patch. A view
// from a LIST request is always newer than the stored view. Its version may still be lower, because versions go back when
// etcd is restored.
func (l *launcher) take(seen sight) {
	if seen.listed || seen.version() >= l.view.version() {
		l.view = seen.pod
		l.all.note(seen.pod)
	}
}

// act does everything that the newest view and response require. It returns false if a write has failed and must be repeated.
func (l *launcher) act() bool {
	container := l.view.container()
	if l.view.ends() {
		if l.link != nil {
			l.program = channel.Ended
			l.link.Report(l.program)
		}
		l.stop()
		return true
	}
	if container == nil {
		return true
	}
	restarts := number(container["restartCount"])
	if l.link == nil && (l.ending == 0 || restarts > l.starts) {
		l.begin(container, restarts)
	}
	if l.link != nil {
		l.follow(l.all.listOf(l.view))
	}
	return l.update(container)
}

// begin starts the launcher's process in the container.
func (l *launcher) begin(container map[string]any, restarts int) {
	l.starts, l.program, l.ending = restarts, channel.Waiting, 0
	if stored := l.view.Metadata.Annotations[storedKey]; stored != "" && restarts == 0 {
		said := map[string]string{}
		check(json.Unmarshal([]byte(stored), &said))
		l.all.store(l.view, said)
		l.program, l.with = channel.Ready, env.Natural(said["list-number"])
	}
	l.link = open(l.all, l.view, l.program)
}

// follow starts the program when there is a list with the pod's address, and ends it when a newer list requires that.
func (l *launcher) follow(list map[string]string) {
	revision := env.Natural(list["list-number"])
	if l.program == channel.Waiting {
		if !l.isListed(list["node-ips"]) {
			return
		}
		l.with = revision
		// The program of a simulated pod listens at once.
		for _, l.program = range []channel.State{channel.Started, channel.Ready} {
			l.link.Report(l.program)
		}
	}
	if from := env.Natural(list["renew-from"]); from > l.with {
		l.program, l.ending = channel.Ended, from
		l.link.Report(l.program)
		l.stop()
	}
}

// isListed returns whether a peer list has the pod's own address at its rank.
func (l *launcher) isListed(list string) bool {
	rank, _ := strconv.Atoi(l.view.Metadata.Labels[env.AnnotationPrefix+"rank"])
	ips := strings.Split(list, ",")
	return rank < len(ips) && ips[rank] == l.view.Status.PodIP
}

// update writes what the kubelet reports: the container is ready when its program is ready, and is restarted after it has
// ended.
func (l *launcher) update(container map[string]any) bool {
	made := maps.Clone(container)
	now := time.Now().UTC().Format(time.RFC3339)
	switch ready := l.program == channel.Ready; {
	case l.ending > 0:
		message := renewalMessage + strconv.Itoa(l.ending)
		ended := map[string]any{"exitCode": renewalExit, "reason": "Error", "message": message, "startedAt": now, "finishedAt": now}
		made["lastState"] = map[string]any{"terminated": ended}
		made["restartCount"] = l.starts + 1
		made["state"] = map[string]any{"running": map[string]any{"startedAt": now}}
		made["ready"] = false
		made["containerID"] = "kwok://" + l.view.Metadata.UID + "-" + strconv.Itoa(l.starts+1)
	case ready == (container["ready"] == true):
		return true
	default:
		made["ready"] = ready
	}
	seen, old, err := l.all.api.setContainer(l.view, made)
	if old {
		return true // the watch shows what has changed
	}
	if err != nil {
		log.Print(err)
		return false
	}
	l.take(sight{pod: seen})
	if l.ending > 0 {
		return l.act() // in the new container
	}
	return true
}

// stop ends the launcher's process.
func (l *launcher) stop() {
	if l.link != nil {
		l.link.Close()
		l.link = nil
	}
}

// newest merges the operator's response with the pod's annotations.
func newest(p pod, said map[string]string) map[string]string {
	file := map[string]string{}
	for key, text := range p.Metadata.Annotations {
		if name, ours := strings.CutPrefix(key, env.AnnotationPrefix); ours {
			file[name] = text
		}
	}
	return env.Newest(file, said)
}

func number(value any) int {
	found, _ := value.(float64)
	return int(found)
}

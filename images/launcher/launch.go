package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const (
	renewalExit = 85 // a container that exited 0 is not started again
	endLook     = 20 * time.Millisecond
)

// run is one run of the user's command.
type run struct {
	child     int
	signals   chan os.Signal
	done      chan syscall.WaitStatus
	watcher   *watcher
	told      []int     // the processes that have been sent a signal that ends
	endAt     time.Time // when the container was told to end; zero: it was not
	begunWith string    // the number of the list with which the program has begun
	renewing  string
	listed    string // the number of the list in topology.json
	unlisted  string // the number of the list of which it was said that it cannot be written there
	kill      <-chan time.Time
	own       bool      // whether it is the container's own, and not beside another one
	left      *lastRun  // what is left for the launcher after this one; nil if none follows
	output    *recorder // nil if the program's output is not kept
}

// launch runs a command with the job's ditask first in PATH, as a child, and stands in for it: same stdin, same exit
// code; signals go on to it. Usually PID 1 of the main container.
func launch(command []string) int {
	if len(command) == 0 {
		fmt.Fprintf(os.Stderr, "dijob: usage: %s COMMAND [ARGUMENT...]\n", os.Args[0])
		return 2
	}
	r := &run{signals: received}
	r.own = os.Getenv("DI_RANK") != "" && lockStart()
	again, last := r.own && startsAgain(), readLastRun()
	if again && last.hasFailed() {
		if goOn, code := awaitCount(last, r.signals); !goOn {
			return code
		}
	}
	if code := r.findPlace(); code != 0 {
		return code
	}
	bin := binFolderOf(os.Args[0])
	putFirst("PATH", filepath.Join(bin, pathFolder))
	if os.Getenv("DI_RANK") != "" {
		putFirst("PYTHONPATH", filepath.Join(bin, pythonFolder))
	}
	if again {
		r.output, r.left = newRecorder(last), newRun(last)
	}
	code := r.start(command)
	if code == 0 {
		code = r.standIn()
		if code > 0 && code < 128 && r.renewing == "" && hasCarriageReturn(command) {
			say("the command or args contain carriage returns (Windows line endings), which are likely the cause: a shell treats" +
				" them as part of a word. Save the text with Unix line endings")
		}
	}
	r.output.finish()
	r.left.end(code, r.renewing != "")
	return code
}

// putFirst puts a folder before those of a search path.
func putFirst(name, folder string) {
	if others := os.Getenv(name); others != "" {
		folder += ":" + others
	}
	os.Setenv(name, folder)
}

// findPlace gives this process the variables of the newest list, and the pod its topology.json.
func (r *run) findPlace() int {
	if os.Getenv("DI_RANK") == "" {
		return 0 // not in a job
	}
	said, code := r.awaitList()
	if code != 0 {
		return code
	}
	r.begunWith, _ = newestList(said)
	setListVariables(said)
	r.follow(said)
	return 0
}

// awaitList returns the pod's annotations once they have a list. The gate has seen one, but it may have been removed since;
// then the operator writes it again. The environment is no substitute: anyone can set it (envFrom, the image).
func (r *run) awaitList() (said map[string]string, code int) {
	for last := (time.Time{}); ; {
		said = annotations()
		if _, list := newestList(said); list != "" {
			return said, 0
		}
		if time.Since(last) > gateSayEach {
			last = time.Now()
			say("waiting for the peer list: the pod's annotations do not contain one")
		}
		select {
		case which := <-r.signals:
			return nil, exitCode(which)
		case <-time.After(gateLook):
		}
	}
}

// follow lets topology.json say what the newest list says.
func (r *run) follow(said map[string]string) {
	number, list := newestList(said)
	if list == "" || number == r.listed {
		return
	}
	// Tried again with each look: a disk that is full has room again some time.
	if err := writeTopology(number, list); err == nil {
		r.listed = number
	} else if number != r.unlisted {
		r.unlisted = number
		say("cannot write topology.json: %v", err)
	}
}

func (r *run) start(command []string) int {
	path, err := exec.LookPath(command[0])
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	if err == nil {
		if r.own {
			forgetReports()
		}
		stdout, stderr := r.output.streams(os.Stdout, os.Stderr)
		attributes := &os.ProcAttr{Files: []*os.File{os.Stdin, stdout, stderr}}
		var process *os.Process
		process, err = os.StartProcess(path, command, attributes)
		r.output.begun()
		if err == nil {
			r.child = process.Pid
			r.watcher = newWatcher()
			r.done = make(chan syscall.WaitStatus, 1)
			go reap(r.child, r.done)
			if readiness := newReadiness(); r.own && readiness != nil {
				go readiness.keep()
			}
			return 0
		}
	}
	reason, code := whyNotStarted(command[0], path, err)
	say("cannot run %s: %s", quoted(command[0]), reason)
	return code
}

// lockStart says whether this is the container's own launcher, and not one that `kubectl exec` has started beside it. The
// file stays locked until this process ends.
func lockStart() bool {
	file, err := syscall.Open(besideTopology("launch.lock"), syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o644)
	return err == nil && syscall.Flock(file, syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// forgetReports removes what the program of a start before has written for the launcher.
func forgetReports() {
	files, _ := filepath.Glob(besideTopology(lackingFiles))
	for _, file := range append(files, otherwisePath()) {
		os.Remove(file)
	}
}

// reap waits for the child, and as PID 1 for every orphan of the container: nobody else does.
func reap(child int, done chan<- syscall.WaitStatus) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if pid == child {
			done <- status
		}
		if err == syscall.ECHILD {
			return
		}
	}
}

// standIn passes signals on until the command has ended, and returns its exit code.
func (r *run) standIn() int {
	for {
		select {
		case status := <-r.done:
			return r.end(status)
		case which := <-r.signals:
			first := which == syscall.SIGTERM && r.endAt.IsZero()
			if first {
				r.endAt = time.Now()
			}
			r.pass(which.(syscall.Signal))
			if first {
				r.left.told()
			}
		case <-r.watcher.ticks():
			r.look()
		case <-r.kill:
			r.killAll()
		}
	}
}

// pass hands a signal on. One that ends goes to the whole container: a shell between this program and the user's dies of
// it, or swallows it, and hands nothing on. In a PID namespace that is shared, -1 would be other people's processes. A
// signal that tells (USR1, USR2) kills whoever does not expect it, so only the command gets it.
func (r *run) pass(which syscall.Signal) {
	if which == syscall.SIGUSR1 || which == syscall.SIGUSR2 {
		syscall.Kill(r.child, which)
		return
	}
	r.told = below(os.Getpid())
	r.sendToAll(which)
}

func (r *run) sendToAll(which syscall.Signal) {
	if os.Getpid() == 1 {
		syscall.Kill(-1, which)
		return
	}
	for _, pid := range r.told {
		syscall.Kill(pid, which)
	}
	if len(r.told) == 0 {
		syscall.Kill(r.child, which)
	}
}

func (r *run) killAll() { r.sendToAll(syscall.SIGKILL) }

// look is what is done each second: see whether there is a newer list, whether it asks for a new start, and once what runs.
func (r *run) look() {
	if hasEnded(r.child) {
		return // a program that ends by itself has the last word
	}
	said := annotations()
	r.follow(said)
	r.left.see(natural(said["ends-counted"]))
	if number := r.dueRenewal(said); number != "" && r.renewing == "" {
		// The address of a rank that this one dials is another now, which its program will never find out. So it ends, and
		// the kubelet starts the container again, with the new list.
		r.renewing = number
		say("the peer list has changed (revision %s, the program has %s): the program is stopped and restarted with the new list",
			number, r.begunWith)
		r.pass(syscall.SIGTERM)
		r.kill = time.After(seconds("DIJOB_KILL_SECONDS", 30))
	}
	r.watcher.warn()
}

// end returns the exit code, once the processes that were told to end have ended: the end of PID 1 kills them at once,
// and a shell between may have died of TERM while the program still saves its state.
func (r *run) end(status syscall.WaitStatus) int {
	code := status.ExitStatus()
	if status.Signaled() {
		code = 128 + int(status.Signal())
	}
	for _, pid := range r.told {
		for !hasEnded(pid) {
			select {
			case <-r.kill:
				r.killAll()
			case which := <-r.signals:
				r.sendToAll(which.(syscall.Signal))
			case <-time.After(endLook):
			}
		}
	}
	if r.renewing == "" {
		// A success that may be none; a program that has failed has something else to say.
		if verdict := r.watcher.verdict(); code == 0 && verdict != "" && read(terminationLog()) == "" {
			leaveWord(verdict)
		}
		time.Sleep(afterTold(r.endAt, code, time.Now()))
		return code
	}
	// The termination message tells the operator that this was no failure. It comes last: a program that ends on TERM may
	// write one of its own.
	leaveWord("dijob: renewal, list " + r.renewing + "\n")
	return renewalExit
}

// leaveWord writes the container's termination message.
func leaveWord(text string) {
	if err := os.WriteFile(terminationLog(), []byte(text), 0o644); err != nil {
		say("cannot write the termination message: %v", err)
	}
}

func terminationLog() string { return variable("DIJOB_TERMINATION_LOG", "/dev/termination-log") }

// dueRenewal returns the first list that the program may have, if that is newer than the one it has; else "".
func (r *run) dueRenewal(said map[string]string) string {
	from := said["renew-from"]
	if natural(from) > natural(r.begunWith) {
		return from
	}
	return ""
}

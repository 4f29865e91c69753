// Package run runs the user's command as the launcher's child, and restarts it when a new peer list requires that.
package run

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"dijob-launcher/internal/channel"
	"dijob-launcher/internal/env"
	"dijob-launcher/internal/peers"
	"dijob-launcher/internal/progress"
	"dijob-launcher/internal/stacks"
)

const (
	// The exit code after a requested restart. It is not 0, because the kubelet does not restart a container that exited 0
	// (restartPolicy OnFailure). The operator knows this code (operator/dijob/pod.py, RENEWAL_CODE).
	renewalExit = 85
	// How often the launcher checks whether signalled processes have ended. The interval is short, because it can delay the end of
	// the pod by its full length.
	endPoll = 20 * time.Millisecond
	// How often a connected launcher looks for a new list in the kubelet's file, in ticks.
	connectedTicks = 10
	// The key under which the operator's messages contain a request for stacks.
	stacksKey = "stacks"
	// The variable that tells the processes of the program where to write their progress
	// (images/dijob-runtime/dijob_runtime/progress.py).
	progressVariable = "DIJOB_PROGRESS"
	// The variable that tells the processes of the program where to write their stacks on request
	// (images/dijob-runtime/dijob_runtime/stacks.py).
	stacksVariable = "DIJOB_STACKS"
)

// run is one run of the user's command.
type run struct {
	child       int
	signals     chan os.Signal
	done        chan syscall.WaitStatus
	watcher     *watcher
	signalled   []int     // the processes that have been sent a terminating signal
	endAt       time.Time // when the container received SIGTERM; zero if it has not
	startedWith string    // the revision of the peer list with which the program started
	renewing    string    // the revision for which the program is being restarted; "" if it is not
	listed      string    // the revision of the peer list in topology.json
	unlisted    string    // the newest revision for which the log has reported that topology.json cannot be written
	asked       string    // the newest request for stacks that was answered, or that an earlier program got
	kill        <-chan time.Time
	own         bool // whether this is the container's own launcher rather than one that `kubectl exec` started
	channel     *channel.Channel
	record      *lastRun  // what the next launcher of this container will read; nil if none follows
	output      *recorder // nil if the program's output is not recorded
}

// Launch runs the user's command as a child process, with the job's ditask first in PATH. It behaves like the command: it
// shares stdin, forwards signals and returns the command's exit code. It is usually PID 1 of the main container. It does not
// replace itself with the command, because it still has work to do. It restarts the program for a new peer list, and writes
// topology.json and the termination message.
func Launch(command []string) int {
	if len(command) == 0 {
		fmt.Fprintf(os.Stderr, "dijob: usage: %s COMMAND [ARGUMENT...]\n", os.Args[0])
		return 2
	}
	r := &run{signals: env.Received}
	r.own = os.Getenv("DI_RANK") != "" && lockStart()
	if r.own && os.Getenv("DIJOB_CHANNEL") != "" {
		if err := prepareWithoutGate(); err != nil {
			fmt.Fprintln(os.Stderr, "dijob:", err)
			return 1
		}
		// The channel is opened first, because the operator must see that this launcher is running, whatever it is waiting for.
		r.channel = channel.Open()
	}
	again, last := r.own && startsAgain(), readLastRun()
	// This wait comes before the wait for a peer list: if the operator ends the job because of the last failure, the program
	// must not start again.
	if again && last.hasFailed() {
		if goOn, code := awaitCount(last, r.signals); !goOn {
			return code
		}
	}
	if code := r.applyPeerList(); code != 0 {
		return code
	}
	bin := env.BinFolderOf(os.Args[0])
	putFirst("PATH", filepath.Join(bin, env.PathFolder))
	if os.Getenv("DI_RANK") != "" {
		putFirst("PYTHONPATH", filepath.Join(bin, env.PythonFolder))
	}
	if again {
		r.output, r.record = newRecorder(last), newRun(last)
	}
	code, why := 0, ""
	if err := r.start(command); err != nil {
		code, why = err.code, err.Error()
	} else {
		code = r.supervise()
		if code > 0 && code < 128 && r.renewing == "" && env.HasCarriageReturn(command) {
			why = "the command or args contain carriage returns (Windows line endings), which are likely the cause: a shell treats" +
				" them as part of a word. Save the text with Unix line endings"
		}
	}
	r.reportProgress()
	r.channel.Report(channel.Ended)
	r.output.finish()
	if why != "" {
		r.report(why)
	}
	r.record.end(code, r.renewing != "")
	return code
}

// putFirst prepends a directory to a search path variable.
func putFirst(name, folder string) {
	if others := os.Getenv(name); others != "" {
		folder += ":" + others
	}
	os.Setenv(name, folder)
}

// applyPeerList sets the variables of the newest peer list in this process, and writes topology.json. It then returns 0. If a
// signal ends the wait for the list, applyPeerList only returns the exit code with which the container must end.
func (r *run) applyPeerList() int {
	if os.Getenv("DI_RANK") == "" {
		return 0 // not in a job
	}
	said, code := r.awaitList()
	if code != 0 {
		return code
	}
	r.startedWith, _ = env.NewestList(said)
	setListVariables(said)
	r.updateTopology(said)
	return 0
}

// awaitList returns the pod's annotations as soon as they contain a peer list. If the pod has a gate, the gate has already seen
// a peer list. Somebody may have removed the list since; the operator then writes it again. The launcher does not use values
// from the environment instead, because envFrom or the image can set any value there.
func (r *run) awaitList() (said map[string]string, code int) {
	begin := time.Now()
	last := time.Time{}
	if r.channel != nil {
		last = begin // usually the list comes within a second, and then the log has only the program's own output
	}
	for {
		said = r.annotations()
		_, list := env.NewestList(said)
		if list != "" && (r.channel == nil || listsThisPod(list)) {
			return said, 0
		}
		if time.Since(last) > peers.LogInterval {
			r.logWait(begin, list)
			last = time.Now()
		}
		select {
		case which := <-r.signals:
			return nil, env.ExitCode(which)
		case <-r.channel.Changed():
		case <-time.After(peers.PollInterval):
		}
	}
}

// logWait logs what the launcher has waited for since `begin`.
func (r *run) logWait(begin time.Time, list string) {
	rank, waited := os.Getenv("DI_RANK"), time.Since(begin).Seconds()
	switch {
	case r.channel == nil:
		env.Logf("waiting for the peer list: the pod's annotations do not contain one")
	case list != "":
		env.Logf("the peer list has another address for rank %s than this pod (%s); a new peer list is needed", rank,
			os.Getenv("DI_POD_IP"))
	default:
		env.Logf("rank %s has waited %.0f s: not every rank of the job has an address yet. To see which ranks are missing, run:"+
			" kubectl describe dijob %s -n %s", rank, waited, os.Getenv("DI_JOB_NAME"), os.Getenv("DI_JOB_NAMESPACE"))
	}
}

// prepareWithoutGate does what the gate does in other pods. If the sandbox is new, the programs that ran in the old one were
// lost with it, and have not failed. Each sandbox has its own network namespace.
func prepareWithoutGate() error {
	sandbox, _ := os.Readlink("/proc/self/ns/net")
	file := env.BesideTopology("sandbox")
	if env.Read(file) != sandbox {
		os.RemoveAll(env.RunFolder())
		if err := os.WriteFile(file, []byte(sandbox), 0o644); err != nil {
			return fmt.Errorf("cannot write to /run/dijob, which must be an emptyDir that this user can write to: %w", err)
		}
	}
	return nil
}

// annotations returns the newest annotations of the pod. With a channel, the operator's response is taken from the channel, and
// not from the file in which a launcher stored it.
func (r *run) annotations() map[string]string {
	if r.channel == nil {
		return env.Annotations()
	}
	return env.Newest(env.FileAnnotations(), r.channel.Said())
}

// listsThisPod returns whether a peer list contains this pod's current address.
func listsThisPod(list string) bool {
	ranks, rank := strings.Split(list, ","), env.Natural(os.Getenv("DI_RANK"))
	return rank < len(ranks) && ranks[rank] == os.Getenv("DI_POD_IP")
}

// updateTopology updates topology.json from the newest peer list.
func (r *run) updateTopology(said map[string]string) {
	number, list := env.NewestList(said)
	if list == "" || number == r.listed {
		return
	}
	// If it fails, the next check tries again, because a full disk may have space later. The log reports each revision once.
	if err := peers.WriteTopology(number, list); err == nil {
		r.listed = number
	} else if number != r.unlisted {
		r.unlisted = number
		env.Logf("cannot write topology.json: %v", err)
	}
}

// start starts the user's command. If the command cannot be started, the returned error explains the reason to the user.
func (r *run) start(command []string) *startError {
	path, err := exec.LookPath(command[0])
	// Go rejects programs that are found through "." in PATH. A shell accepts them, so the launcher does too.
	if errors.Is(err, exec.ErrDot) {
		err = nil
	}
	if err == nil {
		if r.own {
			forgetReports()
			progress.Forget()
			os.Remove(stacks.FilePath())
		}
		// A second launcher that `kubectl exec` started has no channel, so its program does not report.
		os.Unsetenv(progressVariable)
		os.Unsetenv(stacksVariable)
		if r.channel != nil {
			os.Setenv(progressVariable, progress.FilesPath())
			os.Setenv(stacksVariable, stacks.FilePath())
			r.asked = r.channel.Said()[stacksKey]
		}
		stdout, stderr := r.output.streams(os.Stdout, os.Stderr)
		attributes := &os.ProcAttr{Files: []*os.File{os.Stdin, stdout, stderr}}
		var process *os.Process
		process, err = os.StartProcess(path, command, attributes)
		r.output.closeWriters()
		if err == nil {
			r.child = process.Pid
			r.channel.Report(channel.Started)
			r.watcher = newWatcher()
			r.done = make(chan syscall.WaitStatus, 1)
			go reap(r.child, r.done)
			if readiness := newReadiness(); r.own && readiness != nil {
				readiness.channel = r.channel
				go readiness.keep()
			}
			return nil
		}
	}
	return explainStart(command[0], path, err)
}

// lockStart returns whether this is the container's own launcher rather than a second one that `kubectl exec` started. A second
// launcher must not write the termination message or answer probes. The file descriptor is never closed, so the kernel releases
// the lock when this process ends, even if it is killed.
func lockStart() bool {
	file, err := syscall.Open(env.BesideTopology("launch.lock"), syscall.O_CREAT|syscall.O_RDWR|syscall.O_CLOEXEC, 0o644)
	return err == nil && syscall.Flock(file, syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// forgetReports removes the files that the program wrote for the launcher during its previous run. The volume outlives the
// container, so these files would otherwise be taken for reports of the new run.
func forgetReports() {
	files, _ := filepath.Glob(env.BesideTopology(lackingFiles))
	for _, file := range append(files, otherwisePath()) {
		os.Remove(file)
	}
}

// reap waits for the child and, because this is usually PID 1, for every orphaned process of the container. Otherwise the
// orphans would stay zombies. It sends the child's status to `done` and returns when no child is left.
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

// supervise forwards signals and does the periodic work until the command has ended. It returns the container's exit code.
func (r *run) supervise() int {
	for {
		select {
		case status := <-r.done:
			return r.end(status)
		case which := <-r.signals:
			first := which == syscall.SIGTERM && r.endAt.IsZero()
			if first {
				r.endAt = time.Now()
			}
			r.forward(which.(syscall.Signal))
			if first {
				r.record.repeatFailedRun()
			}
		case <-r.watcher.ticks():
			r.tick()
		case <-r.channel.Changed():
			r.check()
		case <-r.kill:
			r.killAll()
		}
	}
}

// forward forwards a signal. A terminating signal goes to every process of the container. If the command is a shell, this shell
// would not forward the signal to the user's program. USR1 and USR2 go to the command only. If they went to all processes, they
// would end those that have no handler for them.
func (r *run) forward(which syscall.Signal) {
	if which == syscall.SIGUSR1 || which == syscall.SIGUSR2 {
		syscall.Kill(r.child, which)
		return
	}
	r.signalled = descendants(os.Getpid())
	r.sendToAll(which)
}

// sendToAll sends a signal to all processes of the container. As PID 1 it uses kill(-1). If the pod shares its PID
// namespace, -1 would include the processes of other containers, so only descendants of this process get the signal.
func (r *run) sendToAll(which syscall.Signal) {
	if os.Getpid() == 1 {
		syscall.Kill(-1, which)
		return
	}
	for _, pid := range r.signalled {
		syscall.Kill(pid, which)
	}
	if len(r.signalled) == 0 {
		syscall.Kill(r.child, which)
	}
}

func (r *run) killAll() { r.sendToAll(syscall.SIGKILL) }

// tick runs every second. It checks for processes that bypass the launcher, and for a new peer list. A connected operator sends
// each list, so the kubelet's file matters only if the connection has just been lost and the loss has not been noticed yet.
func (r *run) tick() {
	if hasEnded(r.child) {
		return
	}
	r.watcher.warn()
	r.reportProgress()
	if !r.channel.Connected() || r.watcher.looks%connectedTicks == 0 {
		r.check()
	}
}

// reportProgress sends the program's progress to the operator.
func (r *run) reportProgress() {
	if r.channel != nil {
		r.channel.ReportProgress(progress.Read())
	}
}

// answerRequest sends the stack of the program's main thread if the operator has asked for it. A process that does not answer
// must not delay the next peer list, so this takes place in the background.
func (r *run) answerRequest() {
	asked := r.channel.Said()[stacksKey]
	if asked == "" || asked == r.asked {
		return
	}
	r.asked = asked
	first := append(progress.Processes(), descendants(os.Getpid())...)
	go func() { r.channel.ReportStack(asked, stacks.Take(first)) }()
}

// check looks for a new peer list, and finds out whether the list requires a restart.
func (r *run) check() {
	if hasEnded(r.child) {
		return // the program has ended by itself: its own exit code counts, so no restart may begin now
	}
	r.answerRequest()
	said := r.annotations()
	r.updateTopology(said)
	r.record.storeCount(env.Natural(said["ends-counted"]))
	if number := r.dueRenewal(said); number != "" && r.renewing == "" {
		// A peer to which this rank connects has a new address. The program would never use the new address, because NNG keeps
		// dialing the old address. So the program is stopped, and the kubelet restarts the container with the new peer list.
		r.renewing = number
		env.Logf("the peer list has changed (revision %s, the program has %s): the program is stopped and restarted with the new list",
			number, r.startedWith)
		r.forward(syscall.SIGTERM)
		r.kill = time.After(env.Seconds("DIJOB_KILL_SECONDS", 30))
	}
}

// end returns the container's exit code. It first waits until all processes that have received a terminating signal have ended.
// When PID 1 exits, the kernel kills all other processes at once. But a shell may have died of TERM while the user's program
// below it is still saving its state.
func (r *run) end(status syscall.WaitStatus) int {
	code := status.ExitStatus()
	if status.Signaled() {
		code = 128 + int(status.Signal())
	}
	for _, pid := range r.signalled {
		for !hasEnded(pid) {
			select {
			case <-r.kill:
				r.killAll()
			case which := <-r.signals:
				r.sendToAll(which.(syscall.Signal))
			case <-time.After(endPoll):
			}
		}
	}
	if r.renewing == "" {
		// The program succeeded, but possibly without its peers. This must not go unnoticed. A message that the program has
		// written itself is kept. After a failure, the verdict is not written, because the error is more important.
		if verdict := r.watcher.verdict(); code == 0 && verdict != "" && env.Read(env.TerminationLog()) == "" {
			writeTerminationMessage(verdict)
		}
		time.Sleep(delayAfterTerm(r.endAt, code, time.Now()))
		return code
	}
	// This termination message tells the operator that the restart was requested and is not a failure. It is written last,
	// because the program may write its own message when it ends on TERM. The launcher and the operator may have different
	// versions, so the wording is an interface (operator/dijob/core/observed/containers.py).
	writeTerminationMessage("dijob: renewal, list " + r.renewing + "\n")
	return renewalExit
}

// report logs why the program failed. It also writes the end of the log as the termination message, unless the program has
// written a message itself. If there is no message, the kubelet itself uses the end of the log. But the line that was written
// just before the end may not be in the log yet. Without a record of the output, the message is left to the kubelet, because the
// program's own error may be more important than `why`.
func (r *run) report(why string) {
	env.Logf("%s", why)
	if text := r.output.tail(); text != "" && env.Read(env.TerminationLog()) == "" {
		writeTerminationMessage(text)
	}
}

// writeTerminationMessage writes the container's termination message, which the kubelet copies into the pod's status.
func writeTerminationMessage(text string) {
	if err := os.WriteFile(env.TerminationLog(), []byte(text), 0o644); err != nil {
		env.Logf("cannot write the termination message: %v", err)
	}
}

// dueRenewal returns the oldest revision that the program may run with (annotation renew-from) if the program started with an
// older one; otherwise it returns "". A newer peer list alone does not require a restart: a rank is restarted only if an address
// to which it connects has changed.
func (r *run) dueRenewal(said map[string]string) string {
	from := said["renew-from"]
	if env.Natural(from) > env.Natural(r.startedWith) {
		return from
	}
	return ""
}

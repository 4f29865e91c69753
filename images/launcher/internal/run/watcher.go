package run

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"dijob-launcher/internal/ditask"
	"dijob-launcher/internal/env"
)

// watcher triggers the periodic checks of the launcher, once a second. In the first 30 s it also looks for processes that
// bypass the launcher. It looks for this long because starting Python and activating an environment take seconds. It is nil
// outside a job, where there is nothing to check.
type watcher struct {
	ticker *time.Ticker
	looks  int
	alone  string // why this rank has not joined the job; "" if there is no sign of that
}

const (
	lastLook = 30
	// This prefix of the termination message tells the operator that a rank has not joined its job
	// (operator/dijob/core/observed/containers.py). The wording of aloneMark and otherwiseMark is an interface between versions.
	aloneMark = "dijob: this rank works alone: "
	// This prefix tells the operator that a program's arguments conflict with the job. The program writes the conflicts
	// into otherwiseFile, in the folder of topology.json (images/dijob-runtime/dijob_runtime/parallel.py).
	otherwiseMark = "dijob: this program says otherwise: "
	otherwiseFile = "says-otherwise"
)

func newWatcher() *watcher {
	if os.Getenv("DI_NODES") == "" {
		return nil
	}
	return &watcher{ticker: time.NewTicker(max(env.Seconds("DIJOB_NAP", 1), time.Millisecond))}
}

func (w *watcher) ticks() <-chan time.Time {
	if w == nil {
		return nil
	}
	return w.ticker.C
}

// warn logs a warning if a process bypasses the launcher. The job would otherwise look healthy: all processes run, but each
// one trains alone.
func (w *watcher) warn() {
	if w.looks++; w.looks > lastLook {
		return
	}
	if w.alone == "" && holdsSocket(descendants(os.Getpid()), ipcInodes(env.Read("/proc/net/unix"))) {
		w.alone = "DI-engine's Parallel listens on an ipc:// address, which no other pod can reach. Either the program passes" +
			" protocol=\"ipc\", or its Python does not read PYTHONPATH (python -I, -E or -S, or a command that clears it)"
		env.Logf("WARNING: this rank has not joined the job: %s", w.alone)
	}
	// These checks read /proc for every process, so they do not run every second.
	if w.looks == 5 || w.looks == lastLook {
		w.warnAboutDitask()
	}
}

func otherwisePath() string { return env.BesideTopology(otherwiseFile) }

// verdict returns the termination message for a program that has succeeded; "" if there is nothing to report.
func (w *watcher) verdict() string {
	if w == nil {
		return ""
	}
	if w.alone != "" {
		return aloneMark + w.alone + "\n"
	}
	if ranks := lackingPeers(); ranks != "" {
		return aloneMark + "its program started and ended without a connection to " + ranks + "\n"
	}
	if said := env.Read(otherwisePath()); said != "" {
		return otherwiseMark + said
	}
	return ""
}

// ipcAddress matches the sockets on which DI-engine's Parallel listens with protocol="ipc", its default (ding 0.5.3,
// parallel.py, get_node_addrs).
var ipcAddress = regexp.MustCompile(`(?m) (\d+) \S*/ditask_[a-z0-9]{4}_\d+\.ipc$`)

// ipcInodes returns the inodes of DI-engine's sockets in /proc/net/unix. That file covers the network namespace, so with
// hostNetwork it also lists sockets of other pods. Therefore the caller compares the inodes with the files that this
// container's processes have open.
func ipcInodes(sockets string) []string {
	var inodes []string
	for _, match := range ipcAddress.FindAllStringSubmatch(sockets, -1) {
		inodes = append(inodes, match[1])
	}
	return inodes
}

// warnAboutDitask warns about a process that runs ditask and does not join the job. There are two possible causes. An
// option of ditask prevents it from joining. Or the process bypasses the launcher's ditask, and its Python does not load
// the runtime hook.
func (w *watcher) warnAboutDitask() {
	if w.alone != "" {
		return
	}
	for _, pid := range descendants(os.Getpid()) {
		words := commandLine(pid)
		if option := ditask.LeavesWorld(words); option != "" {
			w.alone = fmt.Sprintf("process %d runs ditask with %s and does not connect to the other ranks. Remove %s to join them,"+
				" or add --topology alone if this is intended", pid, option, option)
			env.Logf("WARNING: this rank has not joined the job: %s", w.alone)
			return
		}
		if ditask.IsAlone(words) && !hasHook(words, env.Read(fmt.Sprintf("/proc/%d/environ", pid))) {
			ours := filepath.Join(env.BinFolderOf(os.Args[0]), env.PathFolder, "ditask")
			w.alone = fmt.Sprintf("process %d runs ditask without --platform, and its Python does not read PYTHONPATH"+
				" (python -I, -E or -S, or a command that clears it). Run %s instead, or add --platform k8s --topology %s",
				pid, ours, env.Variable("DI_TOPOLOGY", "mesh"))
			env.Logf("WARNING: this rank has not joined the job: %s", w.alone)
			return
		}
	}
}

// blind matches the options that make Python ignore PYTHONPATH (-I, -E) or sitecustomize (-S).
var blind = regexp.MustCompile(`^-[a-zA-Z]*[IES]`)

// hasHook returns whether a Python process with this command line and environment loads the runtime hook. It loads the hook if
// no option disables the hook, and if the hook's directory is in its PYTHONPATH. The variables are separated by NUL, as in
// /proc.
func hasHook(words []string, environ string) bool {
	for _, word := range words[1:] {
		if !strings.HasPrefix(word, "-") || word == "-c" || word == "-m" {
			break
		}
		if blind.MatchString(word) {
			return false
		}
	}
	folder := filepath.Join(env.BinFolderOf(os.Args[0]), env.PythonFolder)
	for _, one := range strings.Split(environ, "\x00") {
		if path, is := strings.CutPrefix(one, "PYTHONPATH="); is {
			return slices.Contains(strings.Split(path, ":"), folder)
		}
	}
	return false
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// watcher looks each second whether a new list is due, and in the first 30 s at what runs: Python and an activation take
// seconds to start. nil outside a job: nothing to look for.
type watcher struct {
	ticker *time.Ticker
	looks  int
	alone  string // why this rank works alone; "" while nothing says so
}

const (
	lastLook = 30
	// What the operator finds a rank by that works alone (operator/dijob/core/observed/containers.py).
	aloneMark = "dijob: this rank works alone: "
	// What it finds a rank by whose program contradicts its job (the same file), and the file in which the program says
	// so (images/dijob-runtime/dijob_runtime/parallel.py), beside topology.json.
	otherwiseMark = "dijob: this program says otherwise: "
	otherwiseFile = "says-otherwise"
)

func newWatcher() *watcher {
	if os.Getenv("DI_NODES") == "" {
		return nil
	}
	return &watcher{ticker: time.NewTicker(max(seconds("DIJOB_NAP", 1), time.Millisecond))}
}

func (w *watcher) ticks() <-chan time.Time {
	if w == nil {
		return nil
	}
	return w.ticker.C
}

// warn says what would go unnoticed, once each: the processes run, each alone.
func (w *watcher) warn() {
	if w.looks++; w.looks > lastLook {
		return
	}
	if w.alone == "" && holdsSocket(below(os.Getpid()), ipcInodes(read("/proc/net/unix"))) {
		w.alone = "DI-engine's Parallel listens on an ipc:// address, which no other pod can reach. Either the program passes" +
			" protocol=\"ipc\", or its Python does not read PYTHONPATH (python -I, -E or -S, or a command that clears it)"
		say("WARNING: this rank has not joined the job: %s", w.alone)
	}
	if w.looks == 5 || w.looks == lastLook {
		w.warnOfDitask()
	}
}

func otherwisePath() string { return besideTopology(otherwiseFile) }

// verdict returns what the termination message says of a program that has succeeded, "" where there is nothing to say.
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
	if said := read(otherwisePath()); said != "" {
		return otherwiseMark + said
	}
	return ""
}

// ipcAddress is where DI-engine's Parallel listens with protocol="ipc" (ding 0.5.3, parallel.py, get_node_addrs).
var ipcAddress = regexp.MustCompile(`(?m) (\d+) \S*/ditask_[a-z0-9]{4}_\d+\.ipc$`)

// ipcInodes returns the inodes of DI-engine's sockets in /proc/net/unix. That file is about the network namespace: with
// hostNetwork it has the sockets of other pods too.
func ipcInodes(sockets string) []string {
	var inodes []string
	for _, match := range ipcAddress.FindAllStringSubmatch(sockets, -1) {
		inodes = append(inodes, match[1])
	}
	return inodes
}

// warnOfDitask names a process that runs ditask and does not join the job. Either its options say so, or it goes round the
// launcher's ditask and its Python does not read what DI-engine is told.
func (w *watcher) warnOfDitask() {
	if w.alone != "" {
		return
	}
	for _, pid := range below(os.Getpid()) {
		words := arguments(pid)
		if option := leavesWorld(words); option != "" {
			w.alone = fmt.Sprintf("process %d runs ditask with %s and does not connect to the other ranks. Remove %s to join them,"+
				" or add --topology alone if this is intended", pid, option, option)
			say("WARNING: this rank has not joined the job: %s", w.alone)
			return
		}
		if isAlone(words) && !isTold(pid, words) {
			ours := filepath.Join(binFolderOf(os.Args[0]), pathFolder, "ditask")
			w.alone = fmt.Sprintf("process %d runs ditask without --platform, and its Python does not read PYTHONPATH"+
				" (python -I, -E or -S, or a command that clears it). Run %s instead, or add --platform k8s --topology %s",
				pid, ours, variable("DI_TOPOLOGY", "mesh"))
			say("WARNING: this rank has not joined the job: %s", w.alone)
			return
		}
	}
}

// blind are the options of Python with which it does not read PYTHONPATH, or not sitecustomize.
var blind = regexp.MustCompile(`^-[a-zA-Z]*[IES]`)

// isTold says whether a process of Python imports what the launcher has put before its folders.
func isTold(pid int, words []string) bool {
	for _, word := range words[1:] {
		if !strings.HasPrefix(word, "-") || word == "-c" || word == "-m" {
			break
		}
		if blind.MatchString(word) {
			return false
		}
	}
	folder := filepath.Join(binFolderOf(os.Args[0]), pythonFolder)
	for _, one := range strings.Split(read(fmt.Sprintf("/proc/%d/environ", pid)), "\x00") {
		if path, is := strings.CutPrefix(one, "PYTHONPATH="); is {
			return slices.Contains(strings.Split(path, ":"), folder)
		}
	}
	return false
}

// binFolderOf returns the folder in which a program lies that was called by this path.
func binFolderOf(path string) string {
	if strings.Contains(path, "/") {
		return filepath.Dir(path)
	}
	return binFolder()
}

var (
	python   = regexp.MustCompile(`^(python|pypy)`)
	isDitask = regexp.MustCompile(`^ditask$|/ditask$|^ding\.entry|cli_ditask`)
)

// isAlone says whether a command line is a ditask without --platform.
func isAlone(words []string) bool {
	words, found := afterDitask(words)
	if !found {
		return false
	}
	for _, word := range words {
		if word == "--platform" || strings.HasPrefix(word, "--platform=") {
			return false
		}
	}
	return true
}

// leavesWorld returns the option with which a command line, if it is a ditask, does not join the job although its user has
// not said that it needs no peers; else "".
func leavesWorld(words []string) string {
	words, found := afterDitask(words)
	users := readOptions(words)
	if !found || users.needsNoPeers() {
		return ""
	}
	return users.ownWorld()
}

// afterDitask returns the arguments of a command line that is a ditask.
func afterDitask(words []string) ([]string, bool) {
	if len(words) == 0 {
		return nil, false
	}
	name := filepath.Base(words[0])
	if name == "ditask" {
		return words[1:], true
	}
	if !python.MatchString(name) {
		return nil, false
	}
	for i := 1; i < len(words); i++ {
		switch {
		case words[i] == "-X" || words[i] == "-W":
			i++
		case isDitask.MatchString(words[i]):
			return words[i+1:], true
		case strings.HasPrefix(words[i], "-"):
		default:
			return nil, false
		}
	}
	return nil, false
}

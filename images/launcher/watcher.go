package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// watcher looks each second whether a new list is due, and twice at what runs: Python and an activation take seconds to
// start, and 30 s catch the slow ones. nil outside a job: nothing to look for.
type watcher struct {
	ticker *time.Ticker
	looks  int
	warned bool
}

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

// warn names a process that goes round the job's ditask, once. An activated environment, bash -l or an absolute path does
// so, and nobody would notice: the processes run, each alone.
func (w *watcher) warn() {
	w.looks++
	if w.warned || (w.looks != 5 && w.looks != 30) {
		return
	}
	for _, pid := range below(os.Getpid()) {
		if isAlone(arguments(pid)) && !isOwn(pid) {
			ours := filepath.Join(binFolderOf(os.Args[0]), "ditask")
			say("WARNING: process %d runs ditask without --platform: it knows no peers, this rank works alone."+
				" The command goes round %s (an environment activated in it, bash -l, an absolute path, python -m)."+
				" Write %s there, or add --platform k8s --topology %s", pid, ours, ours, variable("DI_TOPOLOGY", "mesh"))
			w.warned = true
			return
		}
	}
}

// isOwn says whether a process runs this program: the job's ditask, which still looks for the peers that it dials.
func isOwn(pid int) bool {
	own, err := os.Stat("/proc/self/exe")
	if err != nil {
		return false
	}
	other, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && os.SameFile(own, other)
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

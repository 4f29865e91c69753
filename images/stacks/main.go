// Stacks prints the stacks of a container's Python processes, as one line of JSON per process. A line contains the threads
// as py-spy reports them, and the kernel function in which each thread sleeps. Stacks runs as an ephemeral container that shares
// the process namespace of the examined container. Arguments of the form NAME=VALUE select the processes that have these
// environment variables.
//
// A separate program is needed because the image of Stacks contains no shell that could list processes. The program also limits
// the time and the output for each process.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
)

const (
	pySpy = "/py-spy"
	// The time limit for one process. py-spy needs less to read the symbols of a large interpreter.
	patience = 10 * time.Second
	// The time between two checks of a process in state D.
	again = 200 * time.Millisecond
	// Limits of the output, so that a container with many processes cannot flood the log.
	mostProcesses = 64
	mostThreads   = 256
	mostWords     = 16
	mostBytes     = 200
)

// process is a line of the output.
type process struct {
	Pid     int               `json:"pid"`
	Parent  int               `json:"parent"`
	State   string            `json:"state"` // the kernel's letter, such as S, T or Z
	Command []string          `json:"command"`
	Waits   map[string]string `json:"waits"`             // the kernel function by thread; without running threads
	Threads json.RawMessage   `json:"threads,omitempty"` // in py-spy's format
	Problem string            `json:"problem,omitempty"`
}

// end is the last line. Without it, the output is incomplete.
type end struct {
	Processes int `json:"processes"` // the number of Python processes
}

func main() {
	out := json.NewEncoder(os.Stdout)
	pids := pythons("/proc", os.Args[1:])
	for at, pid := range pids {
		if at == mostProcesses {
			break
		}
		if err := out.Encode(look(pid)); err != nil {
			os.Exit(1)
		}
	}
	if err := out.Encode(end{len(pids)}); err != nil {
		os.Exit(1)
	}
}

// pythons returns the sorted IDs of the processes that run Python and have all these variables in their environment. It also
// returns the zombies among their children, which have ended but have not been reaped.
func pythons(proc string, variables []string) []int {
	var found []int
	links, _ := filepath.Glob(proc + "/[0-9]*/exe")
	for _, link := range links {
		program, err := os.Readlink(link)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if err == nil && strings.HasPrefix(filepath.Base(program), "python") && has(proc, pid, variables) {
			found = append(found, pid)
		}
	}
	found = append(found, zombies(proc, found)...)
	sort.Ints(found)
	return found
}

// zombies returns the IDs of the Python processes that are zombies and whose parent is in `parents`. The kernel keeps only the
// name and the parent of such a process, not its program or its environment.
func zombies(proc string, parents []int) []int {
	var found []int
	files, _ := filepath.Glob(proc + "/[0-9]*/stat")
	for _, file := range files {
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		name, state := stat(proc, pid)
		if state == "Z" && strings.HasPrefix(name, "python") && slices.Contains(parents, parent(proc, pid)) {
			found = append(found, pid)
		}
	}
	return found
}

// stat returns the name of a process and the letter of its state. The name may contain spaces and parentheses.
func stat(proc string, pid int) (string, string) {
	text := read(fmt.Sprintf("%s/%d/stat", proc, pid))
	from, to := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if from < 0 || to < from || to+2 >= len(text) {
		return "", ""
	}
	return text[from+1 : to], text[to+2 : to+3]
}

// settled returns the letter of the state. A process that reads a file is in state D for a few milliseconds, which is
// harmless. So if the first read returns D, the state is read a second time.
func settled(proc string, pid int) string {
	_, state := stat(proc, pid)
	if state == "D" {
		time.Sleep(again)
		_, state = stat(proc, pid)
	}
	return state
}

// halted returns whether a process is in a state in which py-spy cannot pause it. These states are: stopped (T), held by a
// debugger (t), in uninterruptible sleep (D), and held by the cgroup freezer.
func halted(state string, waits map[string]string) bool {
	for _, function := range waits {
		if strings.Contains(function, "freezer_trap") || strings.Contains(function, "refrigerator") {
			return true
		}
	}
	return state != "" && strings.Contains("TtD", state)
}

func has(proc string, pid int, variables []string) bool {
	text := "\x00" + read(fmt.Sprintf("%s/%d/environ", proc, pid))
	for _, variable := range variables {
		if !strings.Contains(text, "\x00"+variable+"\x00") {
			return false
		}
	}
	return true
}

func look(pid int) process {
	found := process{Pid: pid, Parent: parent("/proc", pid), Command: command("/proc", pid), Waits: waits("/proc", pid)}
	if found.State = settled("/proc", pid); found.State == "Z" {
		return found // it has no memory any more
	}
	arguments := []string{"dump", "--json", "--pid", strconv.Itoa(pid)}
	if halted(found.State, found.Waits) {
		arguments = append(arguments, "--nonblocking") // it does not move, so it need not be paused
	}
	limit, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	said, err := exec.CommandContext(limit, pySpy, arguments...).Output()
	switch {
	case limit.Err() != nil:
		found.Problem = fmt.Sprintf("py-spy did not finish within %s", patience)
	case err != nil:
		found.Problem = complaint(err)
	case !json.Valid(said):
		found.Problem = "py-spy's output is not valid JSON"
	default:
		found.Threads = json.RawMessage(bytes.TrimSpace(said))
	}
	return found
}

// complaint returns py-spy's error output as one line.
func complaint(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return cut(strings.Join(strings.Fields(string(exit.Stderr)), " "), 2*mostBytes)
	}
	return err.Error()
}

// waits returns the kernel function in which each thread sleeps. The kernel reports 0 for running threads.
func waits(proc string, pid int) map[string]string {
	found := map[string]string{}
	files, _ := filepath.Glob(fmt.Sprintf("%s/%d/task/*/wchan", proc, pid))
	for at, file := range files {
		if text := strings.TrimSpace(read(file)); at < mostThreads && text != "" && text != "0" {
			found[filepath.Base(filepath.Dir(file))] = text
		}
	}
	return found
}

func command(proc string, pid int) []string {
	words := strings.Split(strings.TrimSuffix(read(fmt.Sprintf("%s/%d/cmdline", proc, pid)), "\x00"), "\x00")
	if len(words) > mostWords {
		words = words[:mostWords]
	}
	for at, word := range words {
		words[at] = cut(word, mostBytes)
	}
	return words
}

// parent returns the parent's process ID, or 0 if the parent is in another container.
func parent(proc string, pid int) int {
	for _, line := range strings.Split(read(fmt.Sprintf("%s/%d/status", proc, pid)), "\n") {
		if value, found := strings.CutPrefix(line, "PPid:"); found {
			number, _ := strconv.Atoi(strings.TrimSpace(value))
			return number
		}
	}
	return 0
}

func cut(text string, most int) string {
	if len(text) > most {
		return text[:most]
	}
	return text
}

func read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text)
}

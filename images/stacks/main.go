// Stacks says where the Python processes of a container stand: a line of JSON for each, with what py-spy tells of its
// threads and what the kernel says each of them waits for. It runs as an ephemeral container that shares the processes
// of the other one. Words NAME=VALUE on its command line choose the processes that have these variables.
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
	"sort"
	"strconv"
	"strings"
	"time"
)

const (
	pySpy = "/py-spy"
	// How long one process may take: py-spy reads the symbols of a large interpreter in less.
	patience = 10 * time.Second
	// Nobody is asked for more.
	mostProcesses = 64
	mostThreads   = 256
	mostWords     = 16
	mostBytes     = 200
)

// process is a line of the output.
type process struct {
	Pid     int               `json:"pid"`
	Parent  int               `json:"parent"`
	Command []string          `json:"command"`
	Waits   map[string]string `json:"waits"`             // the kernel's function, by thread; not for those that run
	Threads json.RawMessage   `json:"threads,omitempty"` // as py-spy says it
	Problem string            `json:"problem,omitempty"`
}

// end is the last line: without it the output is not whole.
type end struct {
	Processes int `json:"processes"` // how many Python processes there are
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

// pythons returns the processes whose program is a Python and whose environment has all these variables, in order.
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
	sort.Ints(found)
	return found
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
	limit, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	said, err := exec.CommandContext(limit, pySpy, "dump", "--json", "--pid", strconv.Itoa(pid)).Output()
	switch {
	case limit.Err() != nil:
		found.Problem = fmt.Sprintf("py-spy had not read it after %s", patience)
	case err != nil:
		found.Problem = complaint(err)
	case !json.Valid(said):
		found.Problem = "py-spy's answer is no JSON"
	default:
		found.Threads = json.RawMessage(bytes.TrimSpace(said))
	}
	return found
}

// complaint is what py-spy said on stderr, in a line.
func complaint(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		return cut(strings.Join(strings.Fields(string(exit.Stderr)), " "), 2*mostBytes)
	}
	return err.Error()
}

// waits returns the kernel's function in which each thread sleeps. The kernel says 0 for those that run.
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

// parent is the process that started it, 0 where that is in another container.
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

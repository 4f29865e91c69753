package run

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"dijob-launcher/internal/env"
)

// descendants returns the process IDs of all descendants of a process; none if /proc cannot be read.
func descendants(pid int) []int {
	var found []int
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range files {
		for _, word := range strings.Fields(env.Read(file)) {
			if child, err := strconv.Atoi(word); err == nil {
				found = append(append(found, child), descendants(child)...)
			}
		}
	}
	return found
}

// holdsSocket returns whether one of these processes has one of these sockets open. The open files of another user's
// process cannot be read, so such a process counts as one without sockets.
func holdsSocket(pids []int, inodes []string) bool {
	if len(inodes) == 0 {
		return false
	}
	for _, pid := range pids {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, file := range files {
			link, _ := os.Readlink(file)
			inode, isSocket := strings.CutPrefix(link, "socket:[")
			if isSocket && slices.Contains(inodes, strings.TrimSuffix(inode, "]")) {
				return true
			}
		}
	}
	return false
}

// hasEnded returns whether a process has ended. A zombie counts as ended, because its parent may never reap it.
func hasEnded(pid int) bool {
	// The state follows the name, which is in parentheses. The name itself may contain ") ", so the last occurrence counts.
	stat := env.Read(fmt.Sprintf("/proc/%d/stat", pid))
	if i := strings.LastIndex(stat, ") "); i >= 0 && strings.HasPrefix(stat[i+2:], "Z") {
		return true
	}
	return syscall.Kill(pid, 0) == syscall.ESRCH
}

// commandLine returns the command line of a process; none if it cannot be read.
func commandLine(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(text) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
}

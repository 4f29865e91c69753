// Package stacks asks a Python process for the stack of its main thread. The handler in the process writes it to a file that all
// processes of the program share (images/dijob-runtime/dijob_runtime/stacks.py).
package stacks

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dijob-launcher/internal/env"
)

const (
	// Without a handler, the signal would end the process, so only processes with a handler get it.
	signal = 60
	// A process that does not answer within this time has been stopped, or is waiting in the kernel for a disk or a device.
	patience = 2 * time.Second
	poll     = 10 * time.Millisecond
	// faulthandler writes at most 100 frames, innermost first.
	mostBytes = 4096
)

// FilePath returns the value of DIJOB_STACKS.
func FilePath() string { return env.BesideTopology("stacks") }

// Take returns the stack of the first given process that has a handler for the signal. The stack has the format of Python's
// faulthandler. Take returns "" if no process has a handler, or if that process does not answer.
func Take(processes []int) string {
	for _, process := range processes {
		if hasHandler(env.Read(fmt.Sprintf("/proc/%d/status", process))) {
			return take(process)
		}
	}
	return ""
}

// hasHandler returns whether a process has a handler for the signal, according to its status in /proc.
func hasHandler(status string) bool {
	for _, line := range strings.Split(status, "\n") {
		if mask, is := strings.CutPrefix(line, "SigCgt:"); is {
			caught, _ := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return caught&(1<<(signal-1)) != 0
		}
	}
	return false
}

// take sends the signal to the main thread, and reads what the process appends to the file.
func take(process int) string {
	file, err := os.OpenFile(FilePath(), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	before, _ := file.Seek(0, io.SeekEnd)
	if _, _, failed := syscall.Syscall(syscall.SYS_TGKILL, uintptr(process), uintptr(process), signal); failed != 0 {
		return ""
	}
	text, again := "", time.Now().Add(patience)
	for time.Now().Before(again) {
		time.Sleep(poll)
		// The handler writes line by line, so the stack is complete once a second read returns the same text.
		read := make([]byte, mostBytes)
		size, _ := file.ReadAt(read, before)
		if now := string(read[:size]); now != "" && now == text {
			return text
		} else {
			text = now
		}
	}
	return text
}

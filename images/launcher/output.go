package main

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	// How much of a program's output is kept: one to two times this, since the older half is dropped as a whole.
	keptBytes = 512 << 10
	// How long output is waited for after the program has ended, if a process that it has left behind holds its pipe.
	drainTime = 100 * time.Millisecond
)

// recorder hands on what the program writes, and keeps the end of it in two files of the pod's volume. It is there only
// for containers that start again: of any other the kubelet keeps the log.
type recorder struct {
	mutex   sync.Mutex
	file    *os.File
	size    int
	pipes   []*os.File // the ends that are read
	writers []*os.File // and those that the program has
	done    sync.WaitGroup
}

// What is kept of the output of the run now, and of the newest run that has failed before.
const (
	thisRun   = "output"
	failedRun = "failed"
)

func outputPaths(run string) (older, newer string) {
	return filepath.Join(runFolder(), run+".older"), filepath.Join(runFolder(), run+".newer")
}

// newRecorder begins a new record; nil if nothing can be kept. Of the run before it keeps what it wrote if it has failed.
func newRecorder(last *lastRun) *recorder {
	older, newer := outputPaths(thisRun)
	if last.hasFailed() {
		failedOlder, failedNewer := outputPaths(failedRun)
		os.Remove(failedOlder)
		os.Rename(older, failedOlder)
		os.Rename(newer, failedNewer)
	}
	os.Remove(older)
	file, err := os.Create(newer)
	if err != nil {
		return nil
	}
	// The program, and not the launcher, ends by a log that nobody reads any more: a write gives an error then.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	l := &recorder{file: file}
	sayTo = io.MultiWriter(os.Stderr, writerFunc(l.keep))
	return l
}

// writerFunc is a function that takes all that is written.
type writerFunc func(text []byte)

func (f writerFunc) Write(text []byte) (int, error) {
	f(text)
	return len(text), nil
}

// streams returns what the program gets in the place of stdout and stderr. A terminal stays one, and what was one file
// stays one.
func (l *recorder) streams(out, err *os.File) (*os.File, *os.File) {
	if l == nil {
		return out, err
	}
	if same(out, err) {
		both := l.stream(out)
		return both, both
	}
	return l.stream(out), l.stream(err)
}

func (l *recorder) stream(target *os.File) *os.File {
	if info, err := target.Stat(); err != nil || info.Mode()&os.ModeCharDevice != 0 {
		return target
	}
	from, to, err := os.Pipe()
	if err != nil {
		return target
	}
	l.pipes, l.writers = append(l.pipes, from), append(l.writers, to)
	l.done.Add(1)
	go func() {
		defer l.done.Done()
		l.copy(from, target)
	}()
	return to
}

func same(one, other *os.File) bool {
	a, err := one.Stat()
	b, err2 := other.Stat()
	return err == nil && err2 == nil && os.SameFile(a, b)
}

// begun closes the launcher's own copies of what the program has: the pipe ends with the last process that holds it.
func (l *recorder) begun() {
	if l == nil {
		return
	}
	for _, one := range l.writers {
		one.Close()
	}
}

func (l *recorder) copy(from, target *os.File) {
	defer from.Close() // whoever writes into it then is told so, as without a launcher
	buffer := make([]byte, 32<<10)
	for {
		count, err := from.Read(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			l.rest(from, target, buffer)
			return
		}
		if !l.handOn(target, buffer[:count]) || err != nil {
			return
		}
	}
}

// rest hands on what is in a pipe that somebody still holds, and waits for no more.
func (l *recorder) rest(from, target *os.File, buffer []byte) {
	from.SetReadDeadline(time.Time{})
	raw, err := from.SyscallConn()
	for err == nil {
		count := 0
		err = raw.Read(func(fd uintptr) bool {
			count, _ = syscall.Read(int(fd), buffer)
			return true
		})
		if count <= 0 || !l.handOn(target, buffer[:count]) {
			return
		}
	}
}

func (l *recorder) handOn(target io.Writer, text []byte) bool {
	if len(text) == 0 {
		return true
	}
	l.keep(text) // first: the whole container can be killed at any time, and what is in the log is in the record then
	_, err := target.Write(text)
	return err == nil
}

// keep notes what was written. A volume that is full costs the record, and not the program's output.
func (l *recorder) keep(text []byte) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.size+len(text) > keptBytes && l.size > 0 {
		older, newer := outputPaths(thisRun)
		l.file.Close()
		os.Rename(newer, older)
		l.size = 0
		l.file, _ = os.Create(newer)
	}
	if count, err := l.file.Write(text); err == nil {
		l.size += count
	}
}

// finish returns once all that the program wrote is handed on.
func (l *recorder) finish() {
	if l == nil {
		return
	}
	for _, one := range l.pipes {
		one.SetReadDeadline(time.Now().Add(drainTime))
	}
	l.done.Wait()
}

// repeatOutput writes what a run that has failed wrote into the log of this container, which is the one that Kubernetes
// keeps of a pod that has ended.
func repeatOutput(run string) {
	older, newer := outputPaths(run)
	for _, path := range []string{older, newer} {
		if file, err := os.Open(path); err == nil {
			io.Copy(os.Stdout, io.LimitReader(file, 2*keptBytes))
			file.Close()
		}
	}
}

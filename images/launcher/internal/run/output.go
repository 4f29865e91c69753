package run

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"dijob-launcher/internal/env"
)

const (
	// The size at which a record file is rotated. Each rotation deletes the older of the two record files, and starts a new one.
	// So the record of a long output is between one and two times as large as this limit.
	keptBytes = 512 << 10
	// How long the launcher waits for more output after the program has ended. It waits if a process that the program left
	// behind still holds the pipe.
	drainTime = 100 * time.Millisecond
	// How much of the log the kubelet uses as a termination message (FallbackToLogsOnError).
	tailBytes = 2048
)

// recorder forwards the program's output to the container's log, and keeps the end of the output in two files of the pod's
// volume. It exists only for containers that the kubelet restarts. Kubernetes keeps only the log of the newest container of an
// ended pod. Without the recorder, this log would lack the program's output if the newest container was stopped before its
// launcher started the program (record.go).
type recorder struct {
	mutex   sync.Mutex
	file    *os.File
	size    int
	pipes   []*os.File // the reading ends
	writers []*os.File // the program's ends
	done    sync.WaitGroup
}

// The records: the output of the current run, and that of the newest failed run before it.
const (
	thisRun   = "output"
	failedRun = "failed"
)

func outputPaths(run string) (older, newer string) {
	return filepath.Join(env.RunFolder(), run+".older"), filepath.Join(env.RunFolder(), run+".newer")
}

// newRecorder starts a new record. It returns nil if the volume cannot be written to. If the last run failed, its record is
// kept.
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
	// If the reader of the log is gone, the program must get SIGPIPE, as without a launcher, but the launcher must survive. With
	// this handler, the launcher's own write returns an error instead.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	l := &recorder{file: file}
	env.LogTo = io.MultiWriter(os.Stderr, writerFunc(l.keep))
	return l
}

// writerFunc turns a function that never fails into an io.Writer.
type writerFunc func(text []byte)

func (f writerFunc) Write(text []byte) (int, error) {
	f(text)
	return len(text), nil
}

// streams returns the files that the program gets as stdout and stderr. A terminal is passed through, because programs format
// their output for it. If the launcher's stdout and stderr are the same file, the program gets one pipe for both, so that the
// order of the lines is kept.
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

// same returns whether two open files are the same file, for example the same pipe of the container runtime.
func same(one, other *os.File) bool {
	a, err := one.Stat()
	b, err2 := other.Stat()
	return err == nil && err2 == nil && os.SameFile(a, b)
}

// closeWriters closes the launcher's own copies of the program's ends of the pipes, after the program has started. Otherwise
// the pipes would never report the end of the output.
func (l *recorder) closeWriters() {
	if l == nil {
		return
	}
	for _, one := range l.writers {
		one.Close()
	}
}

func (l *recorder) copy(from, target *os.File) {
	defer from.Close() // a process that still writes then gets SIGPIPE, as without a launcher
	buffer := make([]byte, 32<<10)
	for {
		count, err := from.Read(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			l.drain(from, target, buffer)
			return
		}
		if !l.write(target, buffer[:count]) || err != nil {
			return
		}
	}
}

// drain forwards what is already in a pipe that a process still holds open, without waiting for more.
func (l *recorder) drain(from, target *os.File, buffer []byte) {
	from.SetReadDeadline(time.Time{})
	raw, err := from.SyscallConn()
	for err == nil {
		count := 0
		err = raw.Read(func(fd uintptr) bool {
			count, _ = syscall.Read(int(fd), buffer)
			return true
		})
		if count <= 0 || !l.write(target, buffer[:count]) {
			return
		}
	}
}

func (l *recorder) write(target io.Writer, text []byte) bool {
	if len(text) == 0 {
		return true
	}
	// The container can be killed at any time. The output is recorded first, so that everything in the log is also in the record.
	l.keep(text)
	_, err := target.Write(text)
	return err == nil
}

// keep adds text to the record. If the volume is full, the record is incomplete, but the program's output is not affected.
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

// finish returns as soon as all output of the program is forwarded.
func (l *recorder) finish() {
	if l == nil {
		return
	}
	for _, one := range l.pipes {
		one.SetReadDeadline(time.Now().Add(drainTime))
	}
	l.done.Wait()
}

// tail returns the end of the record, or "" if there is no record. The end is at most as long as the part of the log that
// the kubelet uses as a termination message (tailBytes).
func (l *recorder) tail() string {
	if l == nil {
		return ""
	}
	older, newer := outputPaths(thisRun)
	text := env.Read(older) + "\n" + env.Read(newer)
	return text[max(0, len(text)-tailBytes):]
}

// repeatOutput copies the record of a failed run into the log of this container. After a pod has ended, Kubernetes keeps only
// the log of its newest container.
func repeatOutput(run string) {
	older, newer := outputPaths(run)
	for _, path := range []string{older, newer} {
		if file, err := os.Open(path); err == nil {
			io.Copy(os.Stdout, io.LimitReader(file, 2*keptBytes))
			file.Close()
		}
	}
}

// Package progress reads the training's progress from the files that the processes of the program write
// (images/dijob-runtime/dijob_runtime/progress.py). Each process has one file.
//
// The program can write anything there, so the launcher opens only a few regular files, reads only their beginning, and ignores
// what is not a report.
package progress

import (
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"dijob-launcher/internal/env"
)

const (
	// The name of each file, without the process ID at its end.
	files = "progress"
	// In practice, at most this many processes report at the same time. The file of a process remains after the process has
	// ended. Only the newest files are read.
	mostFiles = 64
	mostBytes = 4096
	mostCount = 1 << 53
)

// Report is the newest progress of a program. The names are those in the job's status. Absent values are nil.
type Report struct {
	Iteration      *int64   `json:"iteration,omitempty"`
	EnvStep        *int64   `json:"envStep,omitempty"`
	EpisodeReturn  *float64 `json:"episodeReturn,omitempty"`
	Signal         *float64 `json:"signal,omitempty"`
	WaitingPercent *int64   `json:"waitingPercent,omitempty"`
	BufferPercent  *int64   `json:"bufferPercent,omitempty"`
	// The number of seconds between the last progress and the sending of the report.
	IdleSeconds int64 `json:"idleSeconds"`
	// When the program last made progress. This time is not sent, because the clocks of nodes differ.
	moved time.Time
}

// written is the content of a file. Moved is a Unix time.
type written struct {
	Report
	Moved float64 `json:"moved"`
}

// FilesPath returns the value of DIJOB_PROGRESS. Each process appends a hyphen and its process ID to get the path of its file.
func FilesPath() string { return env.BesideTopology(files) }

// Forget removes the files that the program wrote during its previous run. The volume outlives the container.
func Forget() {
	for _, path := range list() {
		os.Remove(path)
	}
}

func list() []string {
	paths, _ := filepath.Glob(FilesPath() + "-*")
	return paths
}

// Read returns the newest progress of all processes; nil if none has reported any. If several files contain the same field, such
// as the iteration, the number in the newest file is used.
func Read() *Report {
	type file struct {
		content written
		at      time.Time
	}
	var found []file
	for _, path := range newestPaths() {
		if content, at, ok := readFile(path); ok {
			found = append(found, file{content, at})
		}
	}
	if len(found) == 0 {
		return nil
	}
	slices.SortStableFunc(found, func(a, b file) int { return a.at.Compare(b.at) })
	newest := &Report{}
	for _, each := range found {
		merge(newest, &each.content.Report)
		if at := each.content.Moved; at > 0 {
			if moved := time.UnixMilli(int64(at * 1000)); moved.After(newest.moved) {
				newest.moved = moved
			}
		}
	}
	return newest
}

// Processes returns the processes that have reported progress, newest report first.
func Processes() []int {
	var found []int
	for _, path := range newestPaths() {
		if process, err := strconv.Atoi(strings.TrimPrefix(path, FilesPath()+"-")); err == nil && process > 0 {
			found = append(found, process)
		}
	}
	return found
}

// newestPaths returns the paths of the newest regular files, at most mostFiles.
func newestPaths() []string {
	type entry struct {
		path string
		at   time.Time
	}
	var found []entry
	for _, path := range list() {
		if strings.HasSuffix(path, ".new") {
			continue
		}
		if about, err := os.Lstat(path); err == nil && about.Mode().IsRegular() {
			found = append(found, entry{path, about.ModTime()})
		}
	}
	slices.SortStableFunc(found, func(a, b entry) int { return b.at.Compare(a.at) })
	var paths []string
	for _, each := range found[:min(len(found), mostFiles)] {
		paths = append(paths, each.path)
	}
	return paths
}

// readFile does not wait for the other end of a pipe, and does not follow a link.
func readFile(path string) (content written, at time.Time, ok bool) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return content, at, false
	}
	defer file.Close()
	about, err := file.Stat()
	if err != nil || !about.Mode().IsRegular() {
		return content, at, false
	}
	text, _ := io.ReadAll(io.LimitReader(file, mostBytes))
	if json.Unmarshal(text, &content) != nil {
		return content, at, false
	}
	clean(&content.Report)
	if !(math.Abs(content.Moved) < 1e11) {
		content.Moved = 0
	}
	return content, about.ModTime(), true
}

// clean removes values that the operator would ignore.
func clean(report *Report) {
	for _, count := range []**int64{&report.Iteration, &report.EnvStep} {
		if *count != nil && (**count < 0 || **count > mostCount) {
			*count = nil
		}
	}
	for _, percent := range []**int64{&report.WaitingPercent, &report.BufferPercent} {
		if *percent != nil && (**percent < 0 || **percent > 100) {
			*percent = nil
		}
	}
}

// merge updates `into` with the values that a newer report contains.
func merge(into, newer *Report) {
	for _, pair := range [][2]**int64{
		{&into.Iteration, &newer.Iteration}, {&into.EnvStep, &newer.EnvStep},
		{&into.WaitingPercent, &newer.WaitingPercent}, {&into.BufferPercent, &newer.BufferPercent},
	} {
		if *pair[1] != nil {
			*pair[0] = *pair[1]
		}
	}
	for _, pair := range [][2]**float64{{&into.EpisodeReturn, &newer.EpisodeReturn}, {&into.Signal, &newer.Signal}} {
		if *pair[1] != nil {
			*pair[0] = *pair[1]
		}
	}
}

// SetIdle records for how long the program has made no progress.
func (r *Report) SetIdle(now time.Time) {
	r.IdleSeconds = 0
	if !r.moved.IsZero() && now.After(r.moved) {
		r.IdleSeconds = int64(now.Sub(r.moved) / time.Second)
	}
}

// After is true if the newest progress in this report is later than the newest progress in the other report, or if there is no
// other report.
func (r *Report) After(other *Report) bool { return other == nil || r.moved.After(other.moved) }

// Same returns whether two reports have the same values and no progress was made between them.
func (r *Report) Same(other *Report) bool {
	if r == nil || other == nil {
		return r == other
	}
	a, b := *r, *other
	a.IdleSeconds, b.IdleSeconds = 0, 0
	first, _ := json.Marshal(a)
	second, _ := json.Marshal(b)
	return string(first) == string(second) && a.moved.Equal(b.moved)
}

package progress

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"dijob-launcher/internal/env/envtest"
)

func TestTheNewestValueOfAllProcessesCounts(t *testing.T) {
	p := envtest.New(t)
	began := time.Now()
	for number, text := range []string{
		`{"iteration": 7, "envStep": 70, "waitingPercent": 25, "moved": 100.5}`, `{"episodeReturn": 9.5, "iteration": 6, "moved": 90}`,
	} {
		path := p.Writes(t, fmt.Sprintf("progress-%d", number), text)
		at := began.Add(time.Duration(number) * time.Second)
		os.Chtimes(path, at, at)
	}
	got := Read()
	got.SetIdle(time.Unix(160, 600e6))
	text, _ := json.Marshal(got)
	if want := `{"iteration":6,"envStep":70,"episodeReturn":9.5,"waitingPercent":25,"idleSeconds":60}`; string(text) != want {
		t.Errorf("%s", text)
	}
	Forget()
	if got := Read(); got != nil {
		t.Errorf("%+v", got)
	}
}

// A program can write anything there.
func TestWhateverAProgramWritesIsIgnored(t *testing.T) {
	for _, row := range []struct{ id, text string }{
		{"no JSON", "{"},
		{"another type", `{"iteration": "many"}`},
		{"another shape", `[1]`},
		{"a fraction", `{"iteration": 1.5}`},
		{"no number", `{"episodeReturn": NaN}`},
		{"huge", `{"episodeReturn": 1e999}`},
		{"too long", `{"iteration": 1, "x": "` + strings.Repeat("x", mostBytes) + `"}`},
	} {
		t.Run(row.id, func(t *testing.T) {
			p := envtest.New(t)
			p.Writes(t, "progress-1", row.text)
			if got := Read(); got != nil {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestValuesOutOfRangeAreRemoved(t *testing.T) {
	p := envtest.New(t)
	p.Writes(t, "progress-1", `{"iteration": -1, "envStep": 9007199254740993, "waitingPercent": 101, "signal": -2, "moved": 1e300}`)
	got := Read()
	got.SetIdle(time.Now())
	if text, _ := json.Marshal(got); string(text) != `{"signal":-2,"idleSeconds":0}` {
		t.Errorf("%s", text)
	}
}

func TestOnlyRegularFilesAreRead(t *testing.T) {
	p := envtest.New(t)
	real := p.Writes(t, "elsewhere", `{"iteration": 1}`)
	if err := syscall.Mkfifo(filepath.Join(p.Folder, "progress-1"), 0o600); err != nil {
		t.Fatal(err)
	}
	os.Symlink(real, filepath.Join(p.Folder, "progress-2"))
	os.Mkdir(filepath.Join(p.Folder, "progress-3"), 0o700)
	p.Writes(t, "progress-4.new", `{"iteration": 1}`)
	if got := Read(); got != nil {
		t.Errorf("%+v", got)
	}
}

// For example, a program that runs one experiment after the other, each in a process of its own.
func TestOfManyFilesOnlyTheNewestAreRead(t *testing.T) {
	p := envtest.New(t)
	began := time.Now()
	for number := range mostFiles + 10 {
		path := p.Writes(t, fmt.Sprintf("progress-%04d", number), fmt.Sprintf(`{"iteration": %d}`, number))
		at := began.Add(time.Duration(number) * time.Second)
		os.Chtimes(path, at, at)
	}
	p.Writes(t, "progress-0000", `{"envStep": 1}`)
	os.Chtimes(filepath.Join(p.Folder, "progress-0000"), began, began)
	if got := Read(); got == nil || *got.Iteration != mostFiles+9 || got.EnvStep != nil {
		t.Errorf("%+v", got)
	}
}

func TestAReportIsTheSameUntilAValueOrTheTimeOfTheLastProgressChanges(t *testing.T) {
	p := envtest.New(t)
	read := func(text string) *Report { p.Writes(t, "progress-1", text); return Read() }
	first := read(`{"iteration": 1, "moved": 5}`)
	first.SetIdle(time.Now())
	if !read(`{"iteration": 1, "moved": 5}`).Same(first) {
		t.Error("the same")
	}
	for _, other := range []string{`{"iteration": 2, "moved": 5}`, `{"iteration": 1, "moved": 6}`, `{"iteration": 1, "signal": 0, "moved": 5}`} {
		if read(other).Same(first) {
			t.Error(other)
		}
	}
}

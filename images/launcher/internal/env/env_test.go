package env_test

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"dijob-launcher/internal/env"
	"dijob-launcher/internal/env/envtest"
)

func TestTheProgramIsSelectedByName(t *testing.T) {
	for line, want := range map[string]string{
		"/run/dijob/bin/launch ditask -m a":      "launch [ditask -m a]",
		"/run/dijob/bin/path/ditask gate":        "ditask [gate]",
		"/dijob-launcher install":                "install []",
		"dijob-launcher launch /bin/true x":      "launch [/bin/true x]",
		"dijob-launcher":                         "dijob-launcher []",
		"/anything reach mesh 1 1 tcp://gate:80": "reach [mesh 1 1 tcp://gate:80]",
	} {
		name, arguments := env.Called(strings.Fields(line))
		if got := fmt.Sprint(name, " ", arguments); got != want {
			t.Errorf("%q: %s", line, got)
		}
	}
}

func TestOnlyACarriageReturnAtTheEndOfALineCounts(t *testing.T) {
	for want, all := range map[bool][][]string{
		true:  {{"sh", "-c", "cd /tmp\r\nls\r\n"}, {"x", "a\r"}, {"a\r\nb"}},
		false: {{"sh", "-c", "a\rb"}, {"sh", "-c", "cd /tmp\nls\n"}, nil},
	} {
		for _, words := range all {
			if got := env.HasCarriageReturn(words); got != want {
				t.Errorf("%q: %v", words, got)
			}
		}
	}
}

func TestAnInvalidDurationCountsAsNotSet(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 30 * time.Second, "x": 30 * time.Second, "-1": 30 * time.Second, "0": 0, "0.5": 500 * time.Millisecond, "20": 20 * time.Second,
	} {
		t.Setenv("DIJOB_KILL_SECONDS", text)
		if got := env.Seconds("DIJOB_KILL_SECONDS", 30); got != want {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestANumberIsNeverNegative(t *testing.T) {
	for text, want := range map[string]int{"": 0, "x": 0, "-1": 0, "7": 7, " 7": 0} {
		if got := env.Natural(text); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}

// The kubelet does not write such lines. A program with an empty peer list would be worse than a launcher that waits.
func TestInvalidLinesOfTheAnnotationsAreIgnored(t *testing.T) {
	const line = "diengine.opendilab.org/list-number=\"3\"\ndiengine.opendilab.org/node-ips=\"10.0.0.1,10.0.0.2\"\n"
	for _, before := range []string{
		"", "nonsense", `diengine.opendilab.org/node-ips="10.0.0.9`, "=\n=\n", "\x00", "team/node-ips=\"10.0.0.9\"", "node-ips=\"10.0.0.9\"",
	} {
		envtest.New(t).Writes(t, "pod/annotations", before+"\n"+line+before+"\n")
		if number, list := env.NewestList(env.Annotations()); number != "3" || list != "10.0.0.1,10.0.0.2" {
			t.Errorf("%q: %q, %q", before, number, list)
		}
	}
}

func TestAnnotationsAreUnquoted(t *testing.T) {
	p := envtest.New(t)
	if env.Annotations() != nil {
		t.Error("annotations without a file")
	}
	p.Shows(t, map[string]string{"note": "he said \"a=b\"\n", "empty": ""})
	if got := env.Annotations(); got["note"] != "he said \"a=b\"\n" || len(got) != 2 {
		t.Errorf("%q", got)
	}
}

func TestTheFirstLineOfALargeFileIsRead(t *testing.T) {
	p := envtest.New(t)
	path := p.Writes(t, "large", strings.Repeat("x", 10_000))
	if got := env.FirstLine(path); len(got) != 4096 {
		t.Errorf("%d characters", len(got))
	}
	if got := env.FirstLine(filepath.Join(p.Folder, "no-such-file")); got != "" {
		t.Errorf("%q", got)
	}
}

// Users cannot find a variable that the README does not list.
func TestTheReadmeListsEachVariable(t *testing.T) {
	const root = "../.."
	readme, found := env.Read(filepath.Join(root, "README.md")), map[string]bool{}
	literal := regexp.MustCompile(`"(DI(?:JOB)?_[A-Z_]*[A-Z])"`)
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
			for _, match := range literal.FindAllStringSubmatch(env.Read(path), -1) {
				found[match[1]] = true
			}
		}
		return err
	})
	if err != nil || len(found) < 25 {
		t.Fatalf("%d variables, %v", len(found), err)
	}
	for name := range found {
		if !strings.Contains(readme, "\n| `"+name+"` |") {
			t.Errorf("no row for %s", name)
		}
	}
	for _, match := range regexp.MustCompile("(?m)^\\| `(DI[A-Z_]+)` ").FindAllStringSubmatch(readme, -1) {
		if !found[match[1]] {
			t.Errorf("%s has a row, and no code", match[1])
		}
	}
}

// Package envtest gives tests the environment of a pod: the directory of the programs, the annotations and the log.
package envtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"dijob-launcher/internal/env"
)

// Pod is the directory /run/dijob of a pod, and the log of the container.
type Pod struct {
	Folder string
	log    bytes.Buffer
}

// New returns a Pod for a test. It unsets this machine's variables whose names begin with DI_ or DIJOB_, which the
// launcher would otherwise read.
func New(t *testing.T) *Pod {
	t.Helper()
	p := &Pod{Folder: t.TempDir()}
	podFolder, called, log := env.PodFolder, os.Args, env.LogTo
	t.Cleanup(func() { env.PodFolder, os.Args, env.LogTo = podFolder, called, log })
	for _, variable := range os.Environ() {
		name, value, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "DI_") || strings.HasPrefix(name, "DIJOB_") {
			t.Setenv(name, value) // restores it after the test
			os.Unsetenv(name)
		}
	}
	env.PodFolder, env.LogTo = filepath.Join(p.Folder, "pod"), &p.log
	os.Args = []string{filepath.Join(p.Folder, "bin/launch")}
	t.Setenv("DIJOB_TERMINATION_LOG", filepath.Join(p.Folder, "termination-log"))
	for _, folder := range []string{"bin/path", "pod"} {
		if err := os.MkdirAll(filepath.Join(p.Folder, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// Shows writes the pod's annotations to the volume, as the kubelet does.
func (p *Pod) Shows(t *testing.T, annotations map[string]string) {
	t.Helper()
	var text strings.Builder
	for key, value := range annotations {
		fmt.Fprintf(&text, "%s%s=%q\n", env.AnnotationPrefix, key, value)
	}
	p.Writes(t, "pod/annotations", text.String())
}

// Writes creates an executable file in the volume.
func (p *Pod) Writes(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(p.Folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// Sets gives environment variables new values for the rest of the test.
func Sets(t *testing.T, variables map[string]string) {
	t.Helper()
	for name, value := range variables {
		t.Setenv(name, value)
	}
}

// Said returns the log so far.
func (p *Pod) Said() string { return p.log.String() }

// SaidLast returns the termination message.
func (p *Pod) SaidLast() string { return env.Read(env.TerminationLog()) }

package run

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"dijob-launcher/internal/env/envtest"
)

func TestExplainsWhyACommandCannotStart(t *testing.T) {
	for name, row := range map[string]struct {
		word, text string
		mode       os.FileMode
		code       int
		says       string
	}{
		"no such program":   {"no-such-program", "", 0, 127, "'no-such-program': program not found (PATH="},
		"no such file":      {"./it", "", 0, 127, "'./it': program not found (PATH="},
		"a shell builtin":   {"cd", "", 0, 127, "'cd': program not found (PATH="},
		"not executable":    {"./it", "no program", 0o644, 126, "'./it': permission denied"},
		"no format":         {"./it", "echo a script without its first line\n", 0o755, 126, "'./it': exec format error"},
		"no interpreter":    {"./it", "#!/no/bash -e\n", 0o755, 127, "'./it': its interpreter does not exist: /no/bash -e"},
		"first line (C48)":  {"./it", "#!/bin/sh\r\n", 0o755, 127, "'./it': its first line ends with a carriage return: save the file with"},
		"name ends so, too": {"python3\r", "", 0, 127, `"python3\r": its name ends with a carriage return: save the text with`},
	} {
		t.Run(name, func(t *testing.T) {
			p := envtest.New(t)
			t.Chdir(p.Folder)
			t.Setenv("PATH", "/nowhere")
			if row.mode != 0 {
				p.Writes(t, "it", row.text)
				os.Chmod("it", row.mode)
			}
			err := (&run{}).start([]string{row.word})
			if err == nil || err.code != row.code || !strings.HasPrefix(err.Error(), "cannot run "+row.says) {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestAMissingLoaderIsNamed(t *testing.T) {
	want := "the dynamic loader that it needs does not exist in this image"
	if err := notLoaded(envtest.New(t).Writes(t, "it", "\x7fELF")); err.Error() != want {
		t.Error(err)
	}
}

// C42: the kubelet adds seven variables for each Service of the namespace.
func TestATooLargeEnvironmentNamesTheServices(t *testing.T) {
	environment := []string{"PATH=" + strings.Repeat("x", 2043), "A_SERVICE_PORT=1"}
	const plain = "its arguments and environment are too large for Linux; the environment has "
	if got := tooLarge(environment).Error(); got != plain+"2 variables with 2 KiB" {
		t.Error(got)
	}
	for i := range 2 {
		environment = append(environment, fmt.Sprintf("S%d_SERVICE_HOST=", i))
	}
	want := plain + "4 variables with 2 KiB, many of them for the 2 Services of the namespace: set enableServiceLinks: false in the template"
	if got := tooLarge(environment).Error(); got != want {
		t.Error(got)
	}
}

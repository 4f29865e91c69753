package install

import (
	"path/filepath"
	"strings"
	"testing"

	"dijob-launcher/internal/env/envtest"
)

func TestAFolderThatCannotBeWrittenIsNamed(t *testing.T) {
	p := envtest.New(t)
	folder := filepath.Join(p.Writes(t, "file", ""), "bin")
	t.Setenv("DIJOB_BIN_DIR", folder)
	want := "dijob: cannot write " + folder + ": it must be an emptyDir that this user can write to: "
	if code := Run(nil); code != 1 || !strings.HasPrefix(p.Said(), want) {
		t.Errorf("%d, said %q", code, p.Said())
	}
}

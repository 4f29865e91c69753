package main

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// proc creates a folder like /proc, with a process for each program and its environment.
func proc(t *testing.T, programs map[string][2]string) string {
	t.Helper()
	root := t.TempDir()
	for pid, one := range programs {
		folder := filepath.Join(root, pid)
		if err := os.MkdirAll(filepath.Join(folder, "task", pid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(one[0], filepath.Join(folder, "exe")); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, "environ"), one[1])
	}
	return root
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestPythonsAreChosenByTheirProgramAndVariables(t *testing.T) {
	root := proc(t, map[string][2]string{
		"12": {"/usr/bin/python3.11", "DI_RANK=1\x00DI_JOB_ID=u\x00"},
		"7":  {"/opt/conda/bin/python", "DI_RANK=1\x00"},
		"9":  {"/bin/sleep", "DI_RANK=1\x00"},
		"10": {"/usr/bin/python3.11", "A=DI_RANK=1\x00DI_RANK=11\x00"},
	})
	for _, row := range []struct {
		variables []string
		pids      []int
	}{
		{nil, []int{7, 10, 12}},
		{[]string{"DI_RANK=1"}, []int{7, 12}},
		{[]string{"DI_RANK=1", "DI_JOB_ID=u"}, []int{12}},
	} {
		if found := pythons(root, row.variables); !reflect.DeepEqual(found, row.pids) {
			t.Errorf("%v: %v instead of %v", row.variables, found, row.pids)
		}
	}
}

func TestEndedChildrenOfThePythonsAreIncluded(t *testing.T) {
	root := proc(t, map[string][2]string{"7": {"/usr/bin/python3.11", "DI_RANK=1\x00"}})
	for pid, text := range map[string][2]string{
		"8":  {"8 (python3) Z 7 7 0", "7"},
		"9":  {"9 (python3) Z 2 7 0", "2"},
		"10": {"10 (sh) Z 7 7 0", "7"},
	} {
		if err := os.Mkdir(filepath.Join(root, pid), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(root, pid, "stat"), text[0])
		write(t, filepath.Join(root, pid, "status"), "PPid:\t"+text[1]+"\n")
	}
	if found := pythons(root, []string{"DI_RANK=1"}); !reflect.DeepEqual(found, []int{7, 8}) {
		t.Error(found)
	}
}

func TestTheStateIsReadAfterTheName(t *testing.T) {
	root := t.TempDir()
	for text, state := range map[string]string{
		"12 (python3) T 1 12": "T", "12 (a) Z (b) S 1 12": "S", "12 (python3)": "", "": "",
	} {
		if err := os.MkdirAll(filepath.Join(root, "12"), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(root, "12/stat"), text)
		if found := settled(root, 12); found != state {
			t.Errorf("%q: %q instead of %q", text, found, state)
		}
	}
}

func TestAHaltedProcessIsNotPaused(t *testing.T) {
	for _, row := range []struct {
		state    string
		function string
		halted   bool
	}{
		{"S", "futex_wait", false},
		{"R", "0", false},
		{"", "0", false},
		{"T", "do_signal_stop", true},
		{"t", "ptrace_stop", true},
		{"D", "nfs_wait_bit_killable", true},
		{"S", "do_freezer_trap", true},
		{"D", "__refrigerator", true},
	} {
		if found := halted(row.state, map[string]string{"12": row.function}); found != row.halted {
			t.Errorf("%v: %v", row, found)
		}
	}
}

func TestWhatTheKernelSaysOfAProcess(t *testing.T) {
	root := proc(t, map[string][2]string{"12": {"/usr/bin/python3", ""}})
	write(t, filepath.Join(root, "12/task/12/wchan"), "hrtimer_nanosleep")
	if err := os.Mkdir(filepath.Join(root, "12/task/13"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "12/task/13/wchan"), "0")
	write(t, filepath.Join(root, "12/status"), "Name:\tpython3\nPPid:\t4\n")
	write(t, filepath.Join(root, "12/cmdline"), "python3\x00main.py\x00")
	if found := waits(root, 12); !reflect.DeepEqual(found, map[string]string{"12": "hrtimer_nanosleep"}) {
		t.Error(found)
	}
	if found := parent(root, 12); found != 4 {
		t.Error(found)
	}
	if found := command(root, 12); !reflect.DeepEqual(found, []string{"python3", "main.py"}) {
		t.Error(found)
	}
}

func TestAProcessThatPySpyCannotReadIsSaid(t *testing.T) {
	if found := look(os.Getpid()); found.Problem == "" || found.Threads != nil {
		t.Error(found)
	}
}

package stacks

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"dijob-launcher/internal/env/envtest"
)

func TestAHandlerIsRecognizedInTheStatusOfAProcess(t *testing.T) {
	for _, row := range []struct {
		id, status string
		has        bool
	}{
		{"the signal", "Name:\tpython\nSigCgt:\t0800000000000002\n", true},
		{"another signal", "SigIgn:\t0800000000000000\nSigCgt:\t0000000180000002\n", false},
		{"no number", "SigCgt:\tx\n", false},
		{"no such process", "", false},
	} {
		if hasHandler(row.status) != row.has {
			t.Error(row.id)
		}
	}
}

// The signal would end a process that has no handler.
func TestAProcessWithoutAHandlerGetsNoSignal(t *testing.T) {
	envtest.New(t).Writes(t, "stacks", "")
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	defer sleep.Process.Kill()
	if text := Take([]int{sleep.Process.Pid}); text != "" {
		t.Error(text)
	}
	if err := sleep.Process.Signal(syscall.Signal(0)); err != nil {
		t.Error("the process has ended")
	}
}

func TestOnlyWhatAProcessWritesAfterTheRequestIsItsStack(t *testing.T) {
	p := envtest.New(t)
	path := p.Writes(t, "stacks", "of an earlier request\n")
	shell := exec.Command("bash", "-c", `trap 'echo "  File \"a.py\", line 3 in f" >> `+path+`' 60; echo ready; while :; do sleep 0.01; done`)
	out, _ := shell.StdoutPipe()
	if err := shell.Start(); err != nil {
		t.Skip(err)
	}
	defer shell.Process.Kill()
	out.Read(make([]byte, 6))
	began := time.Now()
	if text := Take([]int{1 << 30, shell.Process.Pid}); strings.TrimSpace(text) != `File "a.py", line 3 in f` {
		t.Errorf("%q", text)
	}
	if time.Since(began) > patience {
		t.Error("slow")
	}
}

package ditask

import (
	"strings"
	"testing"
)

func TestADitaskWithoutPlatformIsRecognized(t *testing.T) {
	for line, want := range map[string]bool{
		"ditask --package a":                                       true,
		"/opt/bin/ditask":                                          true,
		"python3 /opt/bin/ditask --package a":                      true,
		"python3 -I /opt/bin/ditask --package a":                   true,
		"python3 -uE -X dev -W ignore /opt/bin/ditask":             true,
		"/usr/bin/pypy3 -m ding.entry.cli_ditask --package a":      true,
		"python3.11 -S -m ding.entry.cli_ditask --labels platform": true,
		"ditask --package a --platform k8s":                        false,
		"ditask --platform=slurm":                                  false,
		"python3 train --package /opt/bin/ditask":                  false,
		"python3 train":                                            false,
		"sh -c ditask":                                             false,
		"":                                                         false,
	} {
		if got := IsAlone(strings.Fields(line)); got != want {
			t.Errorf("%q: %v", line, got)
		}
	}
}

func TestACommandThatNeedsNoPeersDoesNotLeaveTheJob(t *testing.T) {
	for line, want := range map[string]string{
		"ditask --package a --address 127.0.0.1":                                      "--address 127.0.0.1",
		"python3 /opt/ditask --package a --address=127.0.0.1":                         "--address 127.0.0.1",
		"ditask --package a --address 127.0.0.1 --topology alone":                     "",
		"ditask --package a --address 127.0.0.1 --attach-to tcp://127.0.0.1:50516":    "",
		"ditask --package a --address 127.0.0.1 --platform slurm":                     "",
		"train --address 127.0.0.1":                                                   "",
		"python3 -m ding.entry.cli_ditask --protocol ipc --parallel-workers 2 -m a.b": "--protocol ipc",
	} {
		t.Setenv("DI_NODES", "10.0.0.1,10.0.0.2")
		if got := LeavesWorld(strings.Fields(line)); got != want {
			t.Errorf("%q: %q", line, got)
		}
	}
}

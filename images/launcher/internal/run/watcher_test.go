package run

import (
	"slices"
	"strings"
	"testing"

	"dijob-launcher/internal/env/envtest"
)

func TestOutsideAJobNothingIsWatched(t *testing.T) {
	for nodes, watched := range map[string]bool{"": false, "10.0.0.1": true} {
		t.Setenv("DI_NODES", nodes)
		if ticks := newWatcher().ticks(); (ticks != nil) != watched {
			t.Errorf("DI_NODES=%q: %v", nodes, ticks)
		}
	}
}

func TestDIEnginesOwnSocketsAreKnown(t *testing.T) {
	const before = "Num RefCount Protocol Flags Type St Inode Path\n0000: 00000002 00000000 00010000 0001 01 7 "
	for path, ipc := range map[string]bool{
		"/tmp/ditask_a1b2_0.ipc": true, "/var/tmp/ditask_zzzz_12.ipc": true,
		"": false, "/tmp/ditask_a1b2_0.ipc.log": false, "/run/dbus": false, "/tmp/my_ditask_a1b2.ipc": false,
	} {
		found := ipcInodes(before + path + "\n0000: 1 0 0 1 3 8")
		if ipc != slices.Equal(found, []string{"7"}) || !ipc && found != nil {
			t.Errorf("%q: %v", path, found)
		}
	}
}

func TestAPythonProcessHasTheHookIfNothingDisablesIt(t *testing.T) {
	p := envtest.New(t)
	own := "PATH=/bin\x00PYTHONPATH=" + p.Folder + "/bin/python\x00HOME=/"
	for _, row := range []struct {
		line, environ string
		want          bool
	}{
		{"python3 /opt/ditask --package a", own, true},
		{"python3 -u -X dev -W ignore /opt/ditask -I", own, true},
		{"python3 -m ding.entry.cli_ditask -E", own, true},
		{"ditask", "PYTHONPATH=/mine:" + p.Folder + "/bin/python", true},
		{"python3 -I /opt/ditask --package a", own, false},
		{"python3 -uE -X dev -W ignore /opt/ditask", own, false},
		{"python3 -S -m ding.entry.cli_ditask --package a", own, false},
		{"ditask --package a", "PATH=/bin\x00PYTHONPATH=/mine", false},
		{"ditask", "PATH=/bin", false},
	} {
		if got := hasHook(strings.Fields(row.line), row.environ); got != row.want {
			t.Errorf("%q with %q: %v", row.line, row.environ, got)
		}
	}
}

func TestWithoutAProbeNothingListens(t *testing.T) {
	for _, row := range []struct {
		ready, ip, address, program string
	}{
		{"", "10.0.0.1", "", ""}, {"6000 1 2", "10.0.0.1", "", ""}, {"6000 50515", "", "", ""},
		{"6000", "10.0.0.1", "10.0.0.1:6000", ""}, {"6000 50515", "10.0.0.1", "10.0.0.1:6000", "10.0.0.1:50515"}, {"6000 50515", "fd00::1", "[fd00::1]:6000", "[fd00::1]:50515"},
	} {
		t.Setenv("DIJOB_READY", row.ready)
		t.Setenv("DI_POD_IP", row.ip)
		r := newReadiness()
		if r == nil && row.address != "" || r != nil && (r.address != row.address || r.program != row.program) {
			t.Errorf("%q: %+v", row.ready, r)
		}
	}
}

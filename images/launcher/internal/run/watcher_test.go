package run

import (
	"slices"
	"testing"
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

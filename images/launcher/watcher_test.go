package main

import "testing"

func TestOutsideAJobNothingIsWatched(t *testing.T) {
	for nodes, watched := range map[string]bool{"": false, "10.0.0.1": true} {
		t.Setenv("DI_NODES", nodes)
		if ticks := newWatcher().ticks(); (ticks != nil) != watched {
			t.Errorf("DI_NODES=%q: %v", nodes, ticks)
		}
	}
}

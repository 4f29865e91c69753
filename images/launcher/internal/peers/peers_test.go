package peers

import (
	"os"
	"path/filepath"
	"testing"

	"dijob-launcher/internal/env"
	"dijob-launcher/internal/env/envtest"
)

func TestEachTopologyConnectsToLowerRanks(t *testing.T) {
	for _, row := range []struct {
		topology   string
		rank, want int
	}{
		{"mesh", 0, 0}, {"mesh", 3, 3}, {"star", 0, 0}, {"star", 1, 1}, {"star", 3, 1}, {"alone", 3, 0}, {"", 3, 0},
	} {
		if got := Dials(row.topology, row.rank); got != row.want {
			t.Errorf("%s, rank %d: %d", row.topology, row.rank, got)
		}
	}
}

func TestAHostNameIsNoAddress(t *testing.T) {
	for node, want := range map[string]bool{"world-0.world": true, "a": true, "10.0.0.1": false, "fd00::1": false, "": false} {
		if got := IsName(node); got != want {
			t.Errorf("%q: %v", node, got)
		}
	}
}

func TestTopologyJSONHasNamesOrAddresses(t *testing.T) {
	p := envtest.New(t)
	envtest.Sets(t, map[string]string{"DI_PARALLEL_WORKERS": "2", "DI_TOPOLOGY": "star"})
	for list, nodes := range map[string]string{
		"10.0.0.1,10.0.0.2":      `"nodeIps":["10.0.0.1","10.0.0.2"]`,
		"world-0.world,10.0.0.2": `"nodeNames":["world-0.world","10.0.0.2"]`,
	} {
		if err := WriteTopology("7", list); err != nil {
			t.Fatal(err)
		}
		want := `{"listNumber":7,"worldSize":4,"numNodes":2,"parallelWorkers":2,"topology":"star",` + nodes + `,"firstNodeIds":[0,2]}`
		if got := env.Read(filepath.Join(p.Folder, "topology.json")); got != want {
			t.Errorf("%s", got)
		}
	}
}

// Only pods without a launcher have a topology.json of the kubelet.
func TestTopologyJSONIsALinkToThatOfTheKubelet(t *testing.T) {
	p := envtest.New(t)
	path := filepath.Join(p.Folder, "topology.json")
	if err := LinkTopology(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("it exists without the kubelet's")
	}
	p.Writes(t, "pod/topology.json", "{}")
	for range 2 { // the init container can run again
		if err := LinkTopology(); err != nil {
			t.Error(err)
		}
		if target, _ := os.Readlink(path); target != "pod/topology.json" {
			t.Errorf("a link to %q", target)
		}
	}
}

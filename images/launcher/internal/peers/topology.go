package peers

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"dijob-launcher/internal/env"
)

// topology is the content of topology.json, the current peer list for programs that keep running while the job grows or
// shrinks. The lists of addresses and FirstNodeIDs are indexed by rank. The operator writes the same format for pods without a
// launcher (operator/dijob/core/render/annotations.py: topology_json).
type topology struct {
	ListNumber      int      `json:"listNumber"`
	WorldSize       int      `json:"worldSize"`
	NumNodes        int      `json:"numNodes"`
	ParallelWorkers int      `json:"parallelWorkers"`
	Topology        string   `json:"topology"`
	NodeIPs         []string `json:"nodeIps,omitempty"`
	NodeNames       []string `json:"nodeNames,omitempty"`
	FirstNodeIDs    []int    `json:"firstNodeIds"`
}

func topologyOf(number, list string) topology {
	nodes, workers := strings.Split(list, ","), ParallelWorkers()
	t := topology{
		ListNumber: env.Natural(number), WorldSize: len(nodes) * workers, NumNodes: len(nodes),
		ParallelWorkers: workers, Topology: env.Variable("DI_TOPOLOGY", "mesh"),
	}
	if HasNames(nodes) {
		t.NodeNames = nodes
	} else {
		t.NodeIPs = nodes
	}
	for rank := range nodes {
		t.FirstNodeIDs = append(t.FirstNodeIDs, rank*workers)
	}
	return t
}

// LinkTopology makes topology.json a link to the kubelet's file of that name. The kubelet's file exists only in pods without a
// launcher.
func LinkTopology() error {
	if _, err := os.Lstat(filepath.Join(env.PodFolder, "topology.json")); err != nil {
		return nil
	}
	// It is a link rather than a subPath mount, because the kubelet never updates a file that is mounted by subPath.
	return env.Link("pod/topology.json", env.TopologyPath())
}

// WriteTopology writes topology.json. The file is renamed into place, so that a program never reads half of it.
func WriteTopology(number, list string) error {
	text, err := json.Marshal(topologyOf(number, list))
	if err != nil {
		return err
	}
	path := env.TopologyPath()
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Dials returns the number of ranks to which this one connects. They are always the first ranks (ding 0.5.3, k8s_parser.py).
func Dials(topology string, rank int) int {
	switch topology {
	case "mesh":
		return rank
	case "star":
		return min(rank, 1)
	}
	return 0
}

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// topology is the world as it is now, for programs that live through growth and shrinkage. Index = rank in the addresses
// and in FirstNodeIDs (operator/dijob/core/render/annotations.py: topology_json).
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
	nodes, workers := strings.Split(list, ","), parallelWorkers()
	t := topology{
		ListNumber: natural(number), WorldSize: len(nodes) * workers, NumNodes: len(nodes),
		ParallelWorkers: workers, Topology: variable("DI_TOPOLOGY", "mesh"),
	}
	if hasNames(nodes) {
		t.NodeNames = nodes
	} else {
		t.NodeIPs = nodes
	}
	for rank := range nodes {
		t.FirstNodeIDs = append(t.FirstNodeIDs, rank*workers)
	}
	return t
}

// linkTopology lets topology.json be the kubelet's file of that name, where it makes one: in a pod without a launcher.
func linkTopology() error {
	if _, err := os.Lstat(filepath.Join(podFolder, "topology.json")); err != nil {
		return nil
	}
	// A link: a file that is mounted by subPath would never follow the pod's annotations.
	return link("pod/topology.json", topologyPath())
}

func topologyPath() string {
	return filepath.Join(filepath.Dir(binFolderOf(os.Args[0])), "topology.json")
}

// writeTopology puts topology.json beside the programs, whole: it is renamed into place.
func writeTopology(number, list string) error {
	text, err := json.Marshal(topologyOf(number, list))
	if err != nil {
		return err
	}
	path := topologyPath()
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

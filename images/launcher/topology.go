package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// topology is the content of topology.json, the current peer list for programs that keep running while the job grows or
// shrinks. The index is the rank in the addresses and in FirstNodeIDs. The operator writes the same format for pods without a
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

// linkTopology makes topology.json a link to the kubelet's file of that name, which exists only in pods without a launcher.
func linkTopology() error {
	if _, err := os.Lstat(filepath.Join(podFolder, "topology.json")); err != nil {
		return nil
	}
	// A link and not a subPath mount, because the kubelet never updates a file that is mounted by subPath.
	return link("pod/topology.json", topologyPath())
}

func topologyPath() string {
	return filepath.Join(filepath.Dir(binFolderOf(os.Args[0])), "topology.json")
}

// writeTopology writes topology.json. The file is renamed into place, so that a program never reads half of it.
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

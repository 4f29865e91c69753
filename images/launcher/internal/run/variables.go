package run

import (
	"os"
	"strconv"
	"strings"

	"dijob-launcher/internal/env"
	"dijob-launcher/internal/peers"
)

// setListVariables sets the variables that depend on the peer list. The pod's annotations take precedence over the environment.
// The environment may contain other values, set by envFrom, the image, or a kubelet that has an older version of the pod.
func setListVariables(said map[string]string) {
	number, list := env.NewestList(said)
	nodes := strings.Split(list, ",")
	size, world := strconv.Itoa(len(nodes)), strconv.Itoa(len(nodes)*peers.ParallelWorkers())
	if peers.HasNames(nodes) {
		os.Unsetenv("DI_NODE_IPS") // it exists only for IP addresses; a value in the environment is stale or forged
	} else {
		os.Setenv("DI_NODE_IPS", list)
	}
	os.Setenv("DI_LIST_NUMBER", number)
	os.Setenv("DI_NODES", bracketed(list))
	os.Setenv("DI_NUM_NODES", size)
	os.Setenv("DI_WORLD_SIZE", world)
	setTaskVariables(nodes)
	setRuntimeVariables(said, size, world)
}

// setRuntimeVariables sets the variables of the job's runtime that depend on the peer list. DIJOB_LISTED is
// "VARIABLE=ANNOTATION ...". The pod has no annotation num-nodes or world-size, because both values are derived from the list.
func setRuntimeVariables(said map[string]string, size, world string) {
	for _, word := range strings.Fields(os.Getenv("DIJOB_LISTED")) {
		name, key, _ := strings.Cut(word, "=")
		switch text, is := said[key]; {
		case key == "num-nodes":
			os.Setenv(name, size)
		case key == "world-size":
			os.Setenv(name, world)
		case is:
			os.Setenv(name, text)
		}
	}
}

// setTaskVariables sets each task's variable DI_<TASK>_NODES to the task's part of DI_NODES. DIJOB_TASKS lists the tasks and
// their sizes in rank order, e.g. "LEARNER 1 COLLECTOR 2". The last task gets all remaining ranks. The name "_" marks a task
// whose variable the user has set: its ranks are skipped, and the variable is not changed.
func setTaskVariables(nodes []string) {
	words := strings.Fields(os.Getenv("DIJOB_TASKS"))
	for i := 0; i+1 < len(words); i += 2 {
		size := min(env.Natural(words[i+1]), len(nodes))
		if i+2 == len(words) {
			size = len(nodes)
		}
		if words[i] != "_" {
			os.Setenv("DI_"+words[i]+"_NODES", bracketed(strings.Join(nodes[:size], ",")))
		}
		nodes = nodes[size:]
	}
}

// bracketed returns a peer list with IPv6 addresses in brackets, because DI-engine turns each entry into tcp://ADDRESS:PORT.
func bracketed(list string) string {
	if strings.Contains(list, "[") || !strings.Contains(list, ":") {
		return list
	}
	nodes := strings.Split(list, ",")
	for i, node := range nodes {
		if strings.Contains(node, ":") {
			nodes[i] = "[" + node + "]"
		}
	}
	return strings.Join(nodes, ",")
}

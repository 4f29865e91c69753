package main

import (
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// setListVariables sets the variables that follow from the newest list. The pod's annotations win over the environment:
// envFrom, the image, or a kubelet with an older view of the pod may have set other values.
func setListVariables(said map[string]string) {
	number, list := newestList(said)
	nodes := strings.Split(list, ",")
	size, world := strconv.Itoa(len(nodes)), strconv.Itoa(len(nodes)*parallelWorkers())
	if hasNames(nodes) {
		os.Unsetenv("DI_NODE_IPS")
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

// setRuntimeVariables sets what a runtime takes from the list: DIJOB_LISTED is "VARIABLE=ANNOTATION ...". Two such annotations are
// not on the pod, as they follow from the list alone.
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

// hasNames says whether a list has names of ranks. Ranks that have succeeded have an address in such a list too.
func hasNames(nodes []string) bool { return slices.ContainsFunc(nodes, isName) }

func isName(node string) bool {
	_, err := netip.ParseAddr(node)
	return node != "" && err != nil
}

func parallelWorkers() int { return max(1, natural(os.Getenv("DI_PARALLEL_WORKERS"))) }

// setTaskVariables sets each task's part of DI_NODES: DIJOB_TASKS is "LEARNER 1 COLLECTOR 2", and what is left is the last's. The
// variable of a task "_" is the user's own.
func setTaskVariables(nodes []string) {
	words := strings.Fields(os.Getenv("DIJOB_TASKS"))
	for i := 0; i+1 < len(words); i += 2 {
		size := min(natural(words[i+1]), len(nodes))
		if i+2 == len(words) {
			size = len(nodes)
		}
		if words[i] != "_" {
			os.Setenv("DI_"+words[i]+"_NODES", bracketed(strings.Join(nodes[:size], ",")))
		}
		nodes = nodes[size:]
	}
}

// bracketed returns a list as DI-engine needs it: it forms tcp://ADDRESS:PORT, where an IPv6 address has brackets.
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

// natural returns a number that is not negative; 0 for what is none.
func natural(text string) int {
	number, err := strconv.Atoi(text)
	if err != nil || number < 0 {
		return 0
	}
	return number
}

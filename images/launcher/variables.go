package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// correct makes the variables of the list those of the newest list: they come from the pod's files, and where the kubelet has
// set some (the template names them as $(NAME)), it may have had a view of the pod that was a moment older. A newer
// environment stands. It returns whether anything has changed.
func correct(said map[string]string) bool {
	number, list := newestList(said)
	if list == "" || (os.Getenv("DI_NODES") != "" && natural(os.Getenv("DI_LIST_NUMBER")) >= natural(number)) {
		return false
	}
	nodes := strings.Split(list, ",")
	size, world := strconv.Itoa(len(nodes)), strconv.Itoa(len(nodes)*parallelWorkers())
	if !hasNames() {
		os.Setenv("DI_NODE_IPS", list)
	}
	os.Setenv("DI_LIST_NUMBER", number)
	os.Setenv("DI_NODES", list)
	os.Setenv("DI_NUM_NODES", size)
	os.Setenv("DI_WORLD_SIZE", world)
	correctTasks(nodes)
	correctRuntime(said, size, world)
	return true
}

// correctRuntime sets what a runtime takes from the list: DIJOB_LISTED is "VARIABLE=ANNOTATION ...". Two such annotations are
// not on the pod, as they follow from the list alone.
func correctRuntime(said map[string]string, size, world string) {
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

// hasNames says whether the list has names of ranks, and no addresses.
func hasNames() bool { return os.Getenv("DIJOB_ADDRESSING") == "Hostname" }

func parallelWorkers() int { return max(1, natural(os.Getenv("DI_PARALLEL_WORKERS"))) }

// correctTasks sets each task's part of DI_NODES: DIJOB_TASKS is "LEARNER 1 COLLECTOR 2", and what is left is the last's. The
// variable of a task "_" is the user's own.
func correctTasks(nodes []string) {
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

// startAgain replaces this process by one with the corrected environment, so that /proc/1/environ shows it too.
func startAgain() error {
	return syscall.Exec("/proc/self/exe", os.Args, os.Environ())
}

// natural returns a number that is not negative; 0 for what is none.
func natural(text string) int {
	number, err := strconv.Atoi(text)
	if err != nil || number < 0 {
		return 0
	}
	return number
}

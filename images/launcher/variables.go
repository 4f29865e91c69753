package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// correct makes the variables of the list those of the newest list. The kubelet can start a container with a view of the
// pod that is a moment older than its files; then the variables are empty, and ditask would work alone without a word, or
// those of a list that is dead. A newer environment stands. It returns whether anything has changed.
func correct() bool {
	if os.Getenv("DI_RANK") == "" {
		return false // not in a job
	}
	number, list := newestList()
	if list == "" || (os.Getenv("DI_NODES") != "" && natural(os.Getenv("DI_LIST_NUMBER")) >= natural(number)) {
		return false
	}
	nodes := strings.Split(list, ",")
	workers, err := strconv.Atoi(os.Getenv("DI_PARALLEL_WORKERS"))
	if err != nil {
		workers = 1
	}
	if _, wanted := os.LookupEnv("DI_NODE_IPS"); wanted { // the list may hold names
		os.Setenv("DI_NODE_IPS", list)
	}
	os.Setenv("DI_LIST_NUMBER", number)
	os.Setenv("DI_EPOCH", number) // the former name of DI_LIST_NUMBER, until 0.1.0
	os.Setenv("DI_NODES", list)
	os.Setenv("DI_NUM_NODES", strconv.Itoa(len(nodes)))
	os.Setenv("DI_WORLD_SIZE", strconv.Itoa(len(nodes)*workers))
	correctTasks(nodes)
	// What a runtime makes of the list: VARIABLE=FILE.
	for _, word := range strings.Fields(os.Getenv("DIJOB_LISTED")) {
		name, file, _ := strings.Cut(word, "=")
		if text, err := os.ReadFile(filepath.Join(podFolder(), file)); err == nil {
			os.Setenv(name, strings.TrimRight(string(text), "\n"))
		}
	}
	return true
}

// correctTasks sets each task's part of the list: DIJOB_TASKS is "LEARNER 1 COLLECTOR 2", and what is left is the last's.
func correctTasks(nodes []string) {
	words := strings.Fields(os.Getenv("DIJOB_TASKS"))
	for i := 0; i+1 < len(words); i += 2 {
		size := min(natural(words[i+1]), len(nodes))
		if i+2 == len(words) {
			size = len(nodes)
		}
		os.Setenv("DI_"+words[i]+"_NODES", strings.Join(nodes[:size], ","))
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

package run

import (
	"fmt"
	"os"
	"testing"

	"dijob-launcher/internal/env/envtest"
)

func TestVariablesFollowFromThePeerList(t *testing.T) {
	const list, six = "10.0.0.1,10.0.0.2", "fd00::1,fd00::2,127.0.0.2"
	const four = "10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4"
	type variables = map[string]string
	ofList := variables{"DI_LIST_NUMBER": "3", "DI_NODES": list, "DI_NODE_IPS": list, "DI_NUM_NODES": "2", "DI_WORLD_SIZE": "2"}
	for name, row := range map[string]struct {
		list        string
		given, want variables
	}{
		// H39: envFrom, the image, or a kubelet with an older version of the pod can set other values.
		"empty":    {list, variables{"DI_LIST_NUMBER": "", "DI_NODES": "", "DI_NODE_IPS": "", "DI_WORLD_SIZE": ""}, ofList},
		"older":    {list, variables{"DI_LIST_NUMBER": "2", "DI_NODES": "10.0.0.9", "DI_NODE_IPS": "10.0.0.9"}, ofList},
		"the same": {list, variables{"DI_LIST_NUMBER": "3", "DI_NODES": list, "DI_NODE_IPS": "x"}, ofList},
		"newer":    {list, variables{"DI_LIST_NUMBER": "99", "DI_NODES": "6.6.6.6,7.7.7.7", "DI_WORLD_SIZE": "1"}, ofList},
		"names leave no forged addresses": {"world-0.world,127.0.0.2", variables{"DI_NODE_IPS": "6.6.6.6"},
			variables{"DI_NODES": "world-0.world,127.0.0.2", "DI_NODE_IPS": "unset"}},
		"workers": {four, variables{"DI_PARALLEL_WORKERS": "2"}, variables{"DI_NUM_NODES": "4", "DI_WORLD_SIZE": "8"}},
		// DI-engine makes tcp://ADDRESS:PORT of each entry of DI_NODES.
		"IPv6 has brackets": {six, nil, variables{"DI_NODES": "[fd00::1],[fd00::2],127.0.0.2", "DI_NODE_IPS": six}},
		"tasks": {four, variables{"DIJOB_TASKS": "LEARNER 1 SIDE_CAR 1 COLLECTOR 1"},
			variables{"DI_LEARNER_NODES": "10.0.0.1", "DI_SIDE_CAR_NODES": "10.0.0.2", "DI_COLLECTOR_NODES": "10.0.0.3,10.0.0.4"}},
		"no rank is left for the last task": {four, variables{"DIJOB_TASKS": "LEARNER 3 SIDE_CAR 1 COLLECTOR 2"},
			variables{"DI_LEARNER_NODES": "10.0.0.1,10.0.0.2,10.0.0.3", "DI_SIDE_CAR_NODES": "10.0.0.4", "DI_COLLECTOR_NODES": ""}},
		"one task": {four, variables{"DIJOB_TASKS": "LEARNER 1"},
			variables{"DI_LEARNER_NODES": four, "DI_SIDE_CAR_NODES": "unset", "DI_COLLECTOR_NODES": "unset"}},
		"tasks have brackets": {six, variables{"DIJOB_TASKS": "LEARNER 1 COLLECTOR 2"},
			variables{"DI_LEARNER_NODES": "[fd00::1]", "DI_COLLECTOR_NODES": "[fd00::2],127.0.0.2"}},
		"a variable of the template": {list, variables{"DIJOB_TASKS": "_ 1 COLLECTOR 1", "DI_LEARNER_NODES": "mine"},
			variables{"DI_LEARNER_NODES": "mine", "DI___NODES": "unset", "DI_COLLECTOR_NODES": "10.0.0.2"}},
		"the runtime's variables": {list,
			variables{"DIJOB_LISTED": "MASTER_ADDR=master-addr PET_MASTER_ADDR=master-addr ABSENT=absent NNODES=num-nodes WORLD=world-size",
				"MASTER_ADDR": "10.0.0.9", "PET_MASTER_ADDR": "", "ABSENT": "as it was", "NNODES": "", "WORLD": "", "DI_PARALLEL_WORKERS": "2"},
			variables{"MASTER_ADDR": "10.0.0.1", "PET_MASTER_ADDR": "10.0.0.1", "ABSENT": "as it was", "NNODES": "2", "WORLD": "4"}},
	} {
		t.Run(name, func(t *testing.T) {
			envtest.New(t)
			for name := range row.want {
				t.Setenv(name, "") // restores it after the test
				os.Unsetenv(name)
			}
			envtest.Sets(t, row.given)
			setListVariables(map[string]string{"list-number": "3", "node-ips": row.list, "master-addr": "10.0.0.1"})
			for name, want := range row.want {
				got, is := os.LookupEnv(name)
				if !is {
					got = "unset"
				}
				if got != want {
					t.Errorf("%s=%s, not %s", name, got, want)
				}
			}
		})
	}
}

func TestOutsideAJobThereIsNoPeerList(t *testing.T) {
	p := envtest.New(t)
	p.Shows(t, map[string]string{"list-number": "3", "node-ips": "10.0.0.1"})
	if code := (&run{}).applyPeerList(); code != 0 || os.Getenv("DI_NODES") != "" {
		t.Errorf("%d, DI_NODES=%s", code, os.Getenv("DI_NODES"))
	}
}

func TestAFolderIsPrependedToASearchPath(t *testing.T) {
	for before, want := range map[string]string{"": "/own", "/mine:/theirs": "/own:/mine:/theirs"} {
		t.Setenv("PYTHONPATH", before)
		if putFirst("PYTHONPATH", "/own"); os.Getenv("PYTHONPATH") != want {
			t.Error(fmt.Sprint(before, ": ", os.Getenv("PYTHONPATH")))
		}
	}
}

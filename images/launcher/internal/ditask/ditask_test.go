package ditask

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"dijob-launcher/internal/env/envtest"
)

// A job of three ranks. Nothing listens on these addresses, and prepare connects to none.
var job = map[string]string{
	"DI_NODES": "10.0.0.1,10.0.0.2,10.0.0.3", "DI_RANK": "0", "DI_NODE_IDS": "0", "DI_PARALLEL_WORKERS": "1",
	"DI_TOPOLOGY": "mesh",
}

// inJob returns the pod of a test, with the variables of the job and those of the case: "NAME=VALUE NAME=VALUE".
func inJob(t *testing.T, variables string) *envtest.Pod {
	p := envtest.New(t)
	envtest.Sets(t, job)
	for _, word := range strings.Fields(variables) {
		name, value, _ := strings.Cut(word, "=")
		t.Setenv(name, value)
	}
	return p
}

const (
	world  = "--platform k8s --topology mesh"
	alone  = " --parallel-workers 1"
	server = " --redis-host localhost --redis-port 6379"
)

func TestAddsTheOptionsThatTheUserDidNotPass(t *testing.T) {
	for name, row := range map[string]struct{ words, variables, added string }{
		"workers are given":      {"-p a -m a.main --parallel-workers 2", "DI_PARALLEL_WORKERS=2", world},
		"short options":          {"-p a -m b.main", "", world + alone},
		"-h in a module's name":  {"-p. -mhavoc.main", "", world + alone},
		"another topology":       {"--topology star", "", "--platform k8s" + alone},
		"joined by =":            {"--topology=alone", "", "--platform k8s" + alone},
		"the platform":           {"--platform k8s", "", "--topology mesh" + alone},
		"everything":             {"--platform=k8s --topology star --parallel-workers=1", "", ""},
		"the job's topology":     {"-m a", "DI_TOPOLOGY=star DI_PARALLEL_WORKERS=3", "--platform k8s --topology star --parallel-workers 3"},
		"the job's labels":       {"-m a", "DI_LABELS=x,y", world + alone + " --labels x,y"},
		"labels are given":       {"--labels mine", "DI_LABELS=x", world + alone},
		"empty labels are given": {"--labels=", "DI_LABELS=x", world + alone},
		"redis":                  {"--mq-type redis", "DI_NODE_IDS=4,5", world + alone + " --node-ids 4,5" + server},
		"redis, ids are given":   {"--mq-type=redis --node-ids 9", "DI_NODE_IDS=4", world + alone + server},
		"the job's redis": {"", "DI_MQ_TYPE=redis DI_REDIS_HOST=10.0.0.9 DI_REDIS_PORT=7000",
			world + alone + " --node-ids 0 --redis-host 10.0.0.9 --redis-port 7000 --mq-type redis"},
		"a redis server is given": {"--mq-type redis --redis-host a --redis-port=7", "", world + alone + " --node-ids 0"},
		"another queue":           {"--mq-type other", "", world + alone + " --node-ids 0"},
		"nng in a job with redis": {"--mq-type nng", "DI_MQ_TYPE=redis", world + alone},
		"torchrpc":                {"--mq_type torchrpc:cpu", "", world + alone},
		"the job's torchrpc":      {"", "DI_MQ_TYPE=torchrpc:cpu", world + alone + " --mq-type torchrpc:cpu"},
		"ports and ids":           {"--node-ids 7 --ports 6000", "", world + alone},
		"after --":                {"-- --topology star", "", world + alone},
		"unknown options":         {"--startup-interval 2 --new-flag --topology star", "", "--platform k8s" + alone},
		// C5: these options do not determine where the processes listen, so the command stays in the job.
		"alone":                     {"--topology alone", "", "--platform k8s" + alone},
		"an empty address":          {"--address= --topology alone", "", "--platform k8s" + alone},
		"attached":                  {"--attach-to tcp://a:1", "", world + alone},
		"an address with redis":     {"--address a", "DI_MQ_TYPE=redis", world + alone + " --node-ids 0" + server + " --mq-type redis"},
		"the protocol that is used": {"--protocol tcp", "", world + alone},
	} {
		t.Run(name, func(t *testing.T) {
			p := inJob(t, row.variables)
			words := strings.Fields(row.words)
			if got, want := prepare(words).words, append(strings.Fields(row.added), words...); !slices.Equal(got, want) {
				t.Errorf("%q, not %q", got, want)
			}
			if said := p.Said(); said != "" {
				t.Errorf("said %q", said)
			}
		})
	}
}

func TestLeavesTheCommandAlone(t *testing.T) {
	const unchecked = " is given: no options are added and no addresses are checked\n"
	for words, row := range map[string]struct{ variables, said string }{
		"-p a --parallel-workers 2": {"DI_NODES=", ""},
		"--version":                 {"", ""},
		"-v":                        {"", ""},
		"-h":                        {"", ""},
		"-m x --help":               {"", ""},
		"--platform slurm":          {"", "dijob: --platform slurm" + unchecked},
		"--platform=x":              {"", "dijob: --platform x" + unchecked},
	} {
		t.Run(words, func(t *testing.T) {
			p := inJob(t, row.variables)
			got := prepare(strings.Fields(words))
			if strings.Join(got.words, " ") != words || len(got.targets) > 0 || p.Said() != row.said {
				t.Errorf("%v, said %q", got, p.Said())
			}
		})
	}
}

func TestWarnsOfOptionsThatCannotWork(t *testing.T) {
	for words, says := range map[string]string{
		"--parallel-workers 4":              "--parallel-workers 4, but DI_PARALLEL_WORKERS is 1",
		"--platform k8s --address=10.0.0.1": "--address 10.0.0.1 as the address",
		"--platform=k8s --protocol=ipc":     "with --protocol ipc, no other pod can reach this",
	} {
		t.Run(words, func(t *testing.T) {
			p := inJob(t, "")
			prepare(strings.Fields(words))
			if said := p.Said(); !strings.HasPrefix(said, "dijob: WARNING: ") || !strings.Contains(said, says) {
				t.Errorf("said %q", said)
			}
		})
	}
}

// C5: DI-engine's k8s parser ended with an AssertionError.
func TestACommandWithItsOwnAddressRunsAsOutsideAJob(t *testing.T) {
	const warns = "dijob: WARNING: with OPTION, ditask runs as outside a job: this rank does not connect"
	const isFine = "dijob: OPTION is given: no options are added and no addresses are checked\n"
	const onLoopback = "--protocol tcp --address 127.0.0.1 --ports 50515"
	for name, row := range map[string]struct{ words, variables, option, says string }{
		"C5":                  {onLoopback + " --node-ids 0 --topology alone", "", "--address 127.0.0.1", isFine},
		"attached":            {onLoopback + " --attach-to tcp://127.0.0.1:50516", "", "--address 127.0.0.1", isFine},
		"one rank":            {"--address=127.0.0.1", "DI_NODES=10.0.0.1", "--address 127.0.0.1", isFine},
		"peers expected":      {"--address 127.0.0.1", "", "--address 127.0.0.1", warns},
		"its own address":     {"--address 10.0.0.2 --topology mesh", "DI_RANK=1", "--address 10.0.0.2", warns},
		"ipc":                 {"--protocol ipc --topology=alone", "", "--protocol ipc", isFine},
		"ipc, peers expected": {"--protocol=ipc", "", "--protocol ipc", warns},
		"nng in a job with redis": {"--mq-type nng --address 127.0.0.1", "DI_MQ_TYPE=redis", "--address 127.0.0.1",
			warns},
	} {
		t.Run(name, func(t *testing.T) {
			p := inJob(t, row.variables)
			got := prepare(strings.Fields(row.words))
			if strings.Join(got.words, " ") != row.words || len(got.targets) > 0 {
				t.Errorf("%v", got)
			}
			if want := strings.Replace(row.says, "OPTION", row.option, 1); !strings.HasPrefix(p.Said(), want) {
				t.Errorf("said %q", p.Said())
			}
			if outside := LeavesWorld(append([]string{"ditask"}, strings.Fields(row.words)...)); (outside == row.option) != (row.says == warns) {
				t.Errorf("LeavesWorld: %q", outside)
			}
		})
	}
}

func TestChecksTheAddressesToWhichItConnects(t *testing.T) {
	for name, row := range map[string]struct{ words, variables, want string }{
		"mesh, last":      {"--ports 6000", "DI_RANK=2 DI_PARALLEL_WORKERS=2", "10.0.0.1:6000 10.0.0.1:6001 10.0.0.2:6000 10.0.0.2:6001"},
		"mesh, middle":    {"--ports 6000", "DI_RANK=1 DI_PARALLEL_WORKERS=2", "10.0.0.1:6000 10.0.0.1:6001"},
		"star":            {"", "DI_RANK=2 DI_TOPOLOGY=star DI_PARALLEL_WORKERS=2", "10.0.0.1:50515 10.0.0.1:50516"},
		"mesh, first":     {"", "", ""},
		"alone":           {"", "DI_RANK=2 DI_TOPOLOGY=alone", ""},
		"attached":        {"--attach-to tcp://10.9.9.9:7,ipc:///x,tcp://x:²,tcp://y", "", "10.9.9.9:7"},
		"redis":           {"", "DI_MQ_TYPE=redis DI_REDIS_HOST=a DI_REDIS_PORT=7", "a:7"},
		"torchrpc, first": {"--mq-type torchrpc", "", ""},
		"torchrpc":        {"--mq-type torchrpc", "DI_RANK=1", "10.0.0.1:50515"},
		"disabled":        {"-m a", "DI_RANK=1 DIJOB_REACH_SECONDS=0", ""},
		"another queue":   {"--mq-type another", "DI_RANK=1", ""},
		"topology alone":  {"--topology alone", "DI_RANK=1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := inJob(t, row.variables)
			var got []string
			for _, each := range prepare(strings.Fields(row.words)).targets {
				got = append(got, each.Address())
			}
			if strings.Join(got, " ") != row.want || p.Said() != "" {
				t.Errorf("%v, said %q", got, p.Said())
			}
		})
	}
}

// DI-engine's k8s parser ends with a ValueError for any list.
func TestAListOfConsecutivePortsBecomesItsFirstPort(t *testing.T) {
	for ports, workers := range map[string]string{"6000,6001": "2", "6000, 6001,6002": "3"} {
		t.Run(ports, func(t *testing.T) {
			inJob(t, "DI_RANK=1 DI_PARALLEL_WORKERS="+workers)
			got := prepare([]string{"-m", "a", "--ports", ports})
			if last := got.words[len(got.words)-2:]; got.err != nil || strings.Join(last, " ") != "--ports 6000" {
				t.Errorf("%q, %v", got.words, got.err)
			}
			if count := map[string]int{"2": 2, "3": 3}[workers]; len(got.targets) != count || got.targets[0].Address() != "10.0.0.1:6000" {
				t.Errorf("%v", got.targets)
			}
		})
	}
}

func TestAListOfOtherPortsIsRejectedWithTheOptionToPass(t *testing.T) {
	for ports, workers := range map[string]string{"6000,7000": "2", "6000,6001": "1", "6000,6001,": "2", "6001,6000": "2"} {
		t.Run(ports, func(t *testing.T) {
			inJob(t, "DI_PARALLEL_WORKERS="+workers)
			got := prepare([]string{"--ports=" + ports})
			first, _, _ := strings.Cut(ports, ",")
			want := "With --parallel-workers " + workers + ", pass --ports " + first
			if got.err == nil || !strings.HasPrefix(got.err.Error(), "--ports "+ports+": ") || !strings.HasSuffix(got.err.Error(), want) {
				t.Errorf("%v", got.err)
			}
		})
	}
}

func TestACommandWithItsOwnAddressKeepsItsListOfPorts(t *testing.T) {
	words := strings.Fields("--address 127.0.0.1 --topology alone --parallel-workers 2 --ports 6000,7000")
	inJob(t, "")
	if got := prepare(words); got.err != nil || !slices.Equal(got.words, words) {
		t.Errorf("%q, %v", got.words, got.err)
	}
}

func TestAPlatformSpecDisablesTheCheckAndSaysSo(t *testing.T) {
	p := inJob(t, "DI_RANK=1")
	got := prepare([]string{"--platform-spec", "{}"})
	if want := "dijob: --platform-spec is given: no addresses are checked\n"; len(got.targets) > 0 || p.Said() != want {
		t.Errorf("%v, said %q", got.targets, p.Said())
	}
}

func TestNeverTakesItselfForTheImagesDitask(t *testing.T) {
	for name, first := range map[string]string{
		"its folder": "bin/path", "with a slash": "bin/path/", "a detour": "bin/path/../path", "a link to it": "link",
		"nothing": "", "a file that cannot be executed": ".",
	} {
		t.Run(name, func(t *testing.T) {
			p := envtest.New(t)
			t.Chdir(p.Folder)
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			for target, path := range map[string]string{self: "bin/launch", "../launch": "bin/path/ditask", "bin/path": "link"} {
				if err := os.Symlink(target, path); err != nil {
					t.Fatal(err)
				}
			}
			os.WriteFile("ditask", []byte("not executable"), 0o644)
			want := p.Writes(t, "image/ditask", "#!/bin/sh\n")
			t.Setenv("PATH", first+":"+filepath.Dir(want))
			if got := imagesDitask(); got != want {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestAnImageWithoutDitaskIsNamed(t *testing.T) {
	for name, row := range map[string]struct {
		words []string
		says  string
	}{
		"no ditask": {[]string{"-m", "a"}, ". Install it (pip install DI-engine), or add its directory to PATH\n"},
		// C48: a carriage return is the cause, which launch reports.
		"carriage return": {[]string{"\r"}, "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := inJob(t, "PATH=/nowhere")
			if code := Run(row.words); code != 127 || p.Said() != "dijob: this image has no ditask (PATH=/nowhere)"+row.says {
				t.Errorf("%d, said %q", code, p.Said())
			}
		})
	}
}

func TestTorchrpcNeedsThePythonOfTheImagesDitask(t *testing.T) {
	for name, first := range map[string]string{"no script": "\x7fELF", "no such Python": "#!/nowhere/python3", "no DI-engine": "#!/bin/false"} {
		t.Run(name, func(t *testing.T) {
			p := inJob(t, "DIJOB_REACH_SECONDS=0")
			t.Setenv("PATH", filepath.Dir(p.Writes(t, "image/ditask", first+"\n")))
			want := "dijob: --mq-type torchrpc needs DI-engine and torch 1.13 or newer in this image, for the Python interpreter of" +
				" its ditask\n"
			if code := Run([]string{"--mq-type", "torchrpc"}); code != 1 || p.Said() != want {
				t.Errorf("%d, said %q", code, p.Said())
			}
		})
	}
}

func TestTheInterpreterMayBeStartedByEnv(t *testing.T) {
	for line, want := range map[string]string{
		"#!/usr/bin/env python3": "/usr/bin/env python3", "#! /opt/python -u": "/opt/python -u", "#!/opt/python3\nimport x": "/opt/python3",
	} {
		if got := strings.Join(interpreter(envtest.New(t).Writes(t, "it", line)), " "); got != want {
			t.Errorf("%q: %q", line, got)
		}
	}
}

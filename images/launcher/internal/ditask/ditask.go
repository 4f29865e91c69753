// Package ditask runs the image's own ditask, and adds those options of the job that the user did not pass.
package ditask

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"dijob-launcher/internal/env"
	"dijob-launcher/internal/reach"
)

// given holds the options that the user passes to ditask. An option that is absent was not passed. Options that do not matter
// here need no entry. Their values do not start with "-", so no value is mistaken for an option.
type given struct {
	values map[string]string
	plain  bool // --help and the like
}

// known maps each option that readOptions reads to its key in `given`.
var known = map[string]string{
	"--platform": "platform", "--topology": "topology", "--parallel-workers": "workers", "--ports": "ports",
	"--labels": "labels", "--node-ids": "ids", "--attach-to": "attach", "--mq-type": "mq", "--mq_type": "mq",
	"--redis-host": "host", "--redis-port": "port", "--platform-spec": "spec", "--address": "address",
	"--protocol": "protocol",
}

// Run runs the image's own ditask, and adds those options of the DIJob that the user did not pass. They come before the user's
// options, so that the options of the user always take precedence (click uses the last value of an option).
func Run(words []string) int {
	real := imagesDitask()
	if real == "" {
		remedy := ". Install it (pip install DI-engine), or add its directory to PATH"
		if env.HasCarriageReturn(words) {
			remedy = "" // a carriage return is part of an argument: launch reports that as the cause
		}
		env.Logf("this image has no ditask (PATH=%s)%s", os.Getenv("PATH"), remedy)
		return 127
	}
	call := prepare(words)
	if call.err != nil {
		reach.Report(call.err)
		return 1
	}
	if err := reach.Check(call.targets); err != nil {
		reach.Report(err)
		return 1
	}
	return becomeDitask(real, call.queue, call.words)
}

// call describes how the image's ditask is run.
type call struct {
	words   []string       // its arguments
	queue   string         // the message queue; "" if it does not matter
	targets []reach.Target // the addresses that must be reachable first
	err     error          // why it is not run
}

// prepare decides how the image's ditask is run, and logs what the user should know about it.
func prepare(words []string) call {
	users := readOptions(words)
	users.warn()
	if users.plain || os.Getenv("DI_NODES") == "" {
		return call{words: words}
	}
	if platform, is := users.values["platform"]; is && platform != "k8s" {
		// A platform other than k8s has its own variables and defaults, so the command is run unchanged.
		env.Logf("--platform %s is given: no options are added and no addresses are checked", platform)
		return call{words: words}
	}
	if option := users.ownWorld(); option != "" {
		users.sayWhyAlone(option)
		return call{words: words, queue: users.values["mq"]}
	}
	options := users.withTheJobs()
	port, err := firstPort(options.values["ports"], options.values["workers"])
	if err != nil {
		return call{err: err}
	}
	words = append(options.added, words...)
	if port != options.values["ports"] {
		options.values["ports"] = port
		words = append(words, "--ports", port)
	}
	return call{words: words, queue: options.values["mq"], targets: options.targets()}
}

// firstPort returns the first port of a list in --ports. DI-engine's k8s parser accepts only one number, from which it derives
// the ports of all workers of all ranks. So a list must contain the same ports that DI-engine would derive.
func firstPort(ports, workers string) (string, error) {
	first, _, isList := strings.Cut(ports, ",")
	if !isList {
		return ports, nil
	}
	number, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		return ports, nil // DI-engine reports what is wrong
	}
	var expected []string
	for worker := range max(1, env.Natural(workers)) {
		expected = append(expected, strconv.Itoa(number+worker))
	}
	if strings.Join(expected, ",") != strings.ReplaceAll(ports, " ", "") {
		return "", fmt.Errorf("--ports %s: in a DIJob, worker i of each rank listens on the first port + i, because the other ranks know"+
			" only one number. With --parallel-workers %d, pass --ports %d", ports, len(expected), number)
	}
	return expected[0], nil
}

// becomeDitask replaces this process with the image's ditask for this message queue.
func becomeDitask(real, queue string, words []string) int {
	if strings.HasPrefix(queue, "torchrpc") {
		return becomeTorchrpc(real, queue, words)
	}
	return become(real, words)
}

// readOptions parses the options of a ditask command line, in the forms --option VALUE and --option=VALUE. It does not
// report errors, because ditask itself does.
func readOptions(words []string) given {
	users, option := given{values: map[string]string{}}, ""
	for _, word := range words {
		name, value, joined := strings.Cut(word, "=")
		switch {
		case option != "":
			users.values[option], option = word, ""
		case word == "--":
			return users
		case word == "--version" || word == "--help" || isShortHelp(word):
			users.plain = true
		case joined && strings.HasPrefix(word, "--"):
			if known[name] != "" {
				users.values[known[name]] = value
			}
		default:
			option = known[word]
		}
	}
	return users
}

// isShortHelp returns whether a word is -h or -v, possibly followed by other letters. An h or v after the first letter does not count:
// in -mhavoc.main, for example, the h belongs to the name of a module.
func isShortHelp(word string) bool {
	return strings.HasPrefix(word, "-h") || strings.HasPrefix(word, "-v")
}

// warn logs a warning for each option that does not work with --platform k8s, if the user has passed this platform.
func (users given) warn() {
	if users.values["platform"] != "k8s" {
		return
	}
	if address := users.values["address"]; address != "" {
		env.Logf("WARNING: with --platform k8s, DI-engine uses --address %s as the address of every rank; remove it", address)
	}
	if users.values["protocol"] == "ipc" {
		env.Logf("WARNING: with --protocol ipc, no other pod can reach this one; remove it")
	}
}

// queue returns the message queue that ditask uses in this job.
func (users given) queue() string {
	if queue, is := users.values["mq"]; is {
		return queue
	}
	return env.Variable("DI_MQ_TYPE", "nng")
}

// ownWorld returns the option that determines where the processes listen; "" if the job determines it. A command with such an
// option runs as it would outside a job. With the job's options, DI-engine's k8s parser would use the user's --address as the
// address of every rank, and the program would fail. With queues other than nng and torchrpc, processes do not listen.
func (users given) ownWorld() string {
	_, isPlaced := users.values["platform"]
	if queue := users.queue(); isPlaced || queue != "nng" && !strings.HasPrefix(queue, "torchrpc") {
		return ""
	}
	if address := users.values["address"]; address != "" {
		return "--address " + address
	}
	if users.values["protocol"] == "ipc" {
		return "--protocol ipc"
	}
	return ""
}

// needsNoPeers returns whether ditask needs none of the connections that the job would configure. This is the case if the user
// has disabled connections, if the user has passed the addresses of the peers, or if the job has only one rank.
func (users given) needsNoPeers() bool {
	return users.values["topology"] == "alone" || users.values["attach"] != "" || !strings.Contains(os.Getenv("DI_NODES"), ",")
}

func (users given) sayWhyAlone(option string) {
	if users.needsNoPeers() {
		env.Logf("%s is given: no options are added and no addresses are checked", option)
		return
	}
	env.Logf("WARNING: with %s, ditask runs as outside a job: this rank does not connect to the others. Remove it to join them,"+
		" or add --topology alone if this is intended", option)
}

// complete holds the options that ditask gets: the user's, and those that are added for the job.
type complete struct {
	values map[string]string
	added  []string
}

func (users given) withTheJobs() complete {
	all := complete{values: users.values}
	workers, topology := env.Variable("DI_PARALLEL_WORKERS", "1"), env.Variable("DI_TOPOLOGY", "mesh")
	if theirs, is := all.values["workers"]; is && theirs != workers {
		env.Logf("WARNING: --parallel-workers %s, but DI_PARALLEL_WORKERS is %s, so DI_NODE_IDS and DI_WORLD_SIZE are wrong."+
			" Set spec.parallelWorkers: %s", theirs, workers, theirs)
	}
	all.fill("platform", "--platform", "k8s")
	all.fill("topology", "--topology", topology)
	all.fill("workers", "--parallel-workers", workers)
	all.fill("labels", "--labels", os.Getenv("DI_LABELS"))
	queue := users.queue()
	if queue != "nng" && !strings.HasPrefix(queue, "torchrpc") {
		// With such a queue, ranks do not connect to each other, and DI-engine's parser then omits the node ids. All ranks would
		// count from 0.
		all.fill("ids", "--node-ids", os.Getenv("DI_NODE_IDS"))
	}
	if queue == "redis" {
		all.fill("host", "--redis-host", env.Variable("DI_REDIS_HOST", "localhost"))
		all.fill("port", "--redis-port", env.Variable("DI_REDIS_PORT", "6379"))
	}
	if queue != "nng" {
		all.fill("mq", "--mq-type", queue)
	}
	all.values["mq"] = queue
	return all
}

// fill adds an option that the user has not passed, unless its value is empty.
func (all *complete) fill(word, option, value string) {
	if _, is := all.values[word]; is || value == "" {
		return
	}
	all.values[word] = value
	all.added = append(all.added, option, value)
}

// targets returns the addresses to which this rank will connect; none if they are not checked. NNG never retries an address that
// it cannot reach, and logs nothing, so the job would hang.
func (all complete) targets() []reach.Target {
	queue, attach := all.values["mq"], all.values["attach"]
	if queue != "nng" && queue != "redis" && !strings.HasPrefix(queue, "torchrpc") {
		return nil
	}
	if os.Getenv("DIJOB_REACH_SECONDS") == "0" {
		return nil
	}
	topology, first := all.values["topology"], env.Variable("DI_RANK", "0") == "0"
	if queue == "nng" && attach == "" && (first || topology == "alone") {
		return nil
	}
	if _, is := all.values["spec"]; is {
		env.Logf("--platform-spec is given: no addresses are checked")
		return nil
	}
	if queue == "redis" {
		return reach.RedisTargets(all.values["host"], all.values["port"])
	}
	if attach != "" {
		return reach.AttachedTargets(attach)
	}
	return reach.PeerTargets(topology, env.Natural(valueOr(all.values["ports"], "50515")), env.Natural(all.values["workers"]))
}

func valueOr(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// imagesDitask returns the path of the first ditask in PATH that is not this program; "" if there is none. It compares files
// and not paths, because this program's directory can have several names (/run, /var/run).
func imagesDitask() string {
	own, _ := os.Stat("/proc/self/exe")
	// If /proc cannot be read, this comparison still recognizes the program. Otherwise the program would execute itself
	// forever.
	called, _ := os.Stat(filepath.Join(env.BinFolderOf(os.Args[0]), "ditask"))
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(valueOr(folder, "."), "ditask")
		file, err := os.Stat(path)
		if err != nil || os.SameFile(file, own) || os.SameFile(file, called) {
			continue
		}
		if file.Mode().IsRegular() && isExecutable(path) {
			return path
		}
	}
	return ""
}

func isExecutable(path string) bool {
	const executable = 1 // access(2): X_OK
	return syscall.Access(path, executable) == nil
}

// become replaces this process with another program. It returns only if that fails, with the exit code that a shell would
// return.
func become(path string, words []string) int {
	err := syscall.Exec(path, append([]string{path}, words...), os.Environ())
	env.Logf("cannot run %s: %v", path, err)
	return 126
}

// hasTorch is a Python program that exits with 0 if dijob_runtime.torchrpc can import what it needs. It only searches for the
// modules, because importing them takes seconds.
const hasTorch = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ('ding', 'torch', 'dijob_runtime'))))"

// becomeTorchrpc replaces this process with dijob_runtime.ditask. That program adds the torchrpc queue to ditask, because
// DI-engine itself does not have this queue. It runs under the Python interpreter of the image's ditask, because DI-engine is
// installed for this interpreter.
func becomeTorchrpc(real, queue string, words []string) int {
	python := interpreter(real)
	if len(python) == 0 || exec.Command(python[0], append(python[1:], "-c", hasTorch)...).Run() != nil {
		env.Logf("--mq-type %s needs DI-engine and torch 1.13 or newer in this image, for the Python interpreter of its ditask", queue)
		return 1
	}
	return become(python[0], append(append(python[1:], "-m", "dijob_runtime.ditask"), words...))
}

// interpreter returns the command in the first line of a script. For `#!/usr/bin/env python3`, it returns two words.
func interpreter(script string) []string {
	return strings.Fields(strings.TrimPrefix(env.FirstLine(script), "#!"))
}

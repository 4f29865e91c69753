package env

import (
	"os"
	"path/filepath"
	"strings"
)

// BinFolder returns the directory of these programs, an emptyDir (operator/dijob/pod.py).
func BinFolder() string { return Variable("DIJOB_BIN_DIR", "/run/dijob/bin") }

// BinFolderOf returns the directory of one of these programs, given the program's os.Args[0]. If this is only a name, the
// directory is BinFolder.
func BinFolderOf(path string) string {
	if strings.Contains(path, "/") {
		return filepath.Dir(path)
	}
	return BinFolder()
}

// Directories next to the programs: the runtime hook for Python processes (images/dijob-runtime), and the directory that is
// prepended to PATH. The launcher's own directory is not added to PATH. Otherwise, it would hide any programs of the image
// that have the names `gate`, `launch` or `reach`.
const (
	PythonFolder = "python"
	PathFolder   = "path"
)

// PodFolder is the downwardAPI volume in which the kubelet writes the pod's annotations (operator/dijob/pod.py). Its path is
// derived from the program's own path rather than read from the environment, because the image or envFrom could forge it there.
var PodFolder = filepath.Join(filepath.Dir(BinFolderOf(os.Args[0])), "pod")

// TopologyPath returns the path of topology.json, in the volume that the containers share.
func TopologyPath() string {
	return filepath.Join(filepath.Dir(BinFolderOf(os.Args[0])), "topology.json")
}

// BesideTopology returns the path of a file in the directory of topology.json.
func BesideTopology(name string) string { return filepath.Join(filepath.Dir(TopologyPath()), name) }

// RunFolder is the directory of the files that outlive a container but not its sandbox. The gate removes the directory; in a
// pod without a gate, the launcher removes it.
func RunFolder() string { return BesideTopology("last-run") }

// SaidPath returns the path of the operator's newest response to the launcher, as JSON.
func SaidPath() string { return filepath.Join(RunFolder(), "said.json") }

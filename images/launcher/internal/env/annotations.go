package env

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// AnnotationPrefix is the prefix of the operator's annotations (operator/dijob/names.py).
const AnnotationPrefix = "diengine.opendilab.org/"

// Annotations returns the operator's annotations of this pod, without their prefix; nil if the file does not exist yet. The
// file is in a downwardAPI volume, and the kubelet updates it. All annotations are in one file, so that they belong to one
// version of the pod. With a file for each annotation, a revision could be read together with the addresses of another revision.
// Each line is KEY="VALUE", quoted as in Go (Kubernetes' pkg/fieldpath: FormatMap).
//
// In a pod without a gate, the operator's newest response to the launcher takes precedence. Only a file with a newer list
// overrides it.
func Annotations() map[string]string {
	return Newest(FileAnnotations(), StoredResponse())
}

// StoredResponse returns the newest operator response that a launcher has stored; nil if there is none.
func StoredResponse() map[string]string {
	var said map[string]string
	if json.Unmarshal([]byte(Read(SaidPath())), &said) != nil {
		return nil
	}
	return said
}

// Newest merges the operator's response with the annotations in the kubelet's file.
func Newest(file, said map[string]string) map[string]string {
	if len(said) == 0 || Natural(file["list-number"]) > Natural(said["list-number"]) {
		return file
	}
	found := maps.Clone(file)
	if found == nil {
		found = map[string]string{}
	}
	maps.Copy(found, said)
	if counted := file["ends-counted"]; Natural(counted) > Natural(found["ends-counted"]) {
		found["ends-counted"] = counted
	}
	return found
}

// FileAnnotations returns the annotations in the kubelet's file only.
func FileAnnotations() map[string]string {
	text, err := os.ReadFile(filepath.Join(PodFolder, "annotations"))
	if err != nil {
		return nil
	}
	found := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, quoted, _ := strings.Cut(strings.TrimSpace(line), "=")
		name, ours := strings.CutPrefix(key, AnnotationPrefix)
		if value, err := strconv.Unquote(quoted); ours && err == nil {
			found[name] = value
		}
	}
	return found
}

// NewestList returns the newest peer list of this pod and its revision; "" if there is none.
func NewestList(said map[string]string) (number, list string) {
	return said["list-number"], said["node-ips"]
}

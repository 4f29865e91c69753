package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// prefix is that of the operator's annotations.
const prefix = "diengine.opendilab.org/"

// annotations returns the operator's annotations of this pod, without their prefix, as the kubelet shows them now: all in
// one file, so that they are of one version of the pod. Each line is KEY="VALUE", quoted as Go does it (Kubernetes'
// pkg/fieldpath: FormatMap).
func annotations() map[string]string {
	text, err := os.ReadFile(filepath.Join(podFolder, "annotations"))
	if err != nil {
		return nil
	}
	found := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, quoted, _ := strings.Cut(strings.TrimSpace(line), "=")
		name, ours := strings.CutPrefix(key, prefix)
		if value, err := strconv.Unquote(quoted); ours && err == nil {
			found[name] = value
		}
	}
	return found
}

// newestList returns the newest list of this pod and its number; "" where there is none.
func newestList(said map[string]string) (number, list string) {
	return said["list-number"], said["node-ips"]
}

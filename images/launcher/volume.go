package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// The folder of these programs, an emptyDir, and that of the files which the kubelet makes from the pod's
// annotations, a downwardAPI volume (operator/dijob/pod.py).
func binFolder() string { return variable("DIJOB_BIN_DIR", "/run/dijob/bin") }
func podFolder() string { return variable("DIJOB_POD_DIR", "/run/dijob/pod") }

// install puts this program into the volume under all its names. Each is renamed into place, so that a second run (the
// sandbox is made anew, the volume stays) never leaves half a file, and a program that runs is not written to.
func install([]string) int {
	syscall.Umask(0o022) // the main container may run as another user
	bin := binFolder()
	if err := installInto(bin); err != nil {
		say("cannot write %s: it must be an emptyDir that this user may write: %v", bin, err)
		return 1
	}
	return 0
}

func installInto(bin string) error {
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	// A link: a file that is mounted by subPath would never follow the pod's annotations.
	if err := link("pod/topology.json", filepath.Join(filepath.Dir(bin), "topology.json")); err != nil {
		return err
	}
	if err := copySelf(filepath.Join(bin, "launch")); err != nil {
		return err
	}
	for _, name := range []string{"gate", "ditask", "reach"} {
		if err := link("launch", filepath.Join(bin, name)); err != nil {
			return err
		}
	}
	return nil
}

func link(target, path string) error {
	fresh := path + ".new"
	os.Remove(fresh)
	if err := os.Symlink(target, fresh); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

func copySelf(path string) error {
	source, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer source.Close()
	fresh := path + ".new"
	os.Remove(fresh)
	file, err := os.OpenFile(fresh, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, source)
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

// podFile returns what a file of the pod says now; "" where it is not there.
func podFile(name string) string { return read(filepath.Join(podFolder(), name)) }

func read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(text), "\n")
}

// newestList returns the newest list and its number, as the kubelet shows them. Both files are of one version of the pod
// in the folder that ..data points to; the kubelet replaces that folder as a whole, perhaps just then: hence twice.
func newestList() (number, list string) {
	for range 2 {
		folder := podFolder()
		if version, err := os.Readlink(filepath.Join(folder, "..data")); err == nil {
			folder = filepath.Join(folder, version)
		}
		number, list = read(filepath.Join(folder, "list-number")), read(filepath.Join(folder, "node-ips"))
		if list != "" {
			break
		}
	}
	return number, list
}
